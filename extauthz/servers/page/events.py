"""Events of the cluster, the newest first."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from extauthz.core.model import Tree
from extauthz.core.objects.fields import at
from extauthz.explain import target
from extauthz.servers.page import words

MOST_EVENTS: Final = 10
MOST_CHARACTERS: Final = 1_024
"""Of a message. The API server takes no longer ones in new events."""

TIMES: Final = (("series", "lastObservedTime"), ("lastTimestamp",), ("eventTime",), ("firstTimestamp",))


class Event(NamedTuple):
    """One row."""

    about: str
    is_warning: bool
    reason: str
    message: str
    times: int
    age: str
    """Empty: it does not say when."""


def shown(trees: Iterable[Tree], about: Collection[tuple[str, str]], now_s: float) -> list[Event]:
    """The last ones about these objects: plural and name."""
    ours = [tree for tree in trees if _about(tree) in about]
    return [_event(tree, now_s) for tree in sorted(ours, key=_at_s, reverse=True)[:MOST_EVENTS]]


def _about(tree: Tree) -> tuple[str, str]:
    return target.plural(str(at(tree, "involvedObject", "kind"))), str(at(tree, "involvedObject", "name"))


def _at_s(tree: Tree) -> float:
    """When it was last seen; 0: it does not say."""
    for way in TIMES:
        try:
            return words.seconds(at(tree, *way))
        except (TypeError, ValueError, OverflowError):
            continue
    return 0.0


def _event(tree: Tree, now_s: float) -> Event:
    at_s = _at_s(tree)
    times = at(tree, "series", "count") or at(tree, "count")
    return Event(
        str(at(tree, "involvedObject", "kind")),
        at(tree, "type") == "Warning",
        str(at(tree, "reason") or "")[:MOST_CHARACTERS],
        str(at(tree, "message") or "")[:MOST_CHARACTERS],
        times if isinstance(times, int) else 1,
        words.lasting(now_s - at_s) if at_s else "",
    )
