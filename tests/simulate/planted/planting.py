"""How a bug gets into the code, and out again; and all bugs, with the worlds that they are looked for in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any, NamedTuple

from tests.worlds.plan import FAULTS, PACE, WORDS
from tests.worlds.search import Wanted

STEPS = 25

COUNTS = {"rollout": 0.0, "remake": 0.0, "patch": 0.0}
"""As a part of ``often``: nothing is written but counts."""


class Bug(NamedTuple):
    """By which rule it is caught, and in which worlds."""

    caught_by: str
    wanted: Wanted
    first: int | None
    """Of these worlds; ``None``: they are drawn on the day."""


BUGS: dict[str, Bug] = {}


Plant = Callable[[], AbstractContextManager[None]]


def bug(
    caught_by: str,
    *,
    ledger: str = "memory",
    faults: str = "",
    entrances: str | None = None,
    gates: int = 0,
    steps: int = STEPS,
    words: tuple[str, ...] = WORDS,
    often: Mapping[str, float] | None = None,
    pace: tuple[float, ...] = PACE,
    first: int | None = None,
) -> Callable[[Plant], Plant]:
    """Names a bug: by which rule it is caught, and in which worlds. A bug of the ``entrances`` is looked for in worlds
    drawn on the day. Few worlds show a rare one: it is looked for from the ``first`` on, which is near one of them."""
    chosen = frozenset(filter(None, faults.split(",")))
    assert chosen <= FAULTS.keys()

    def named(plant: Plant) -> Plant:
        wanted = Wanted(steps, chosen, ledger, gates, plant=plant)
        wanted = wanted._replace(often=often, pace=pace, words=words, entrances=entrances or "envoy")
        BUGS[plant.__name__] = Bug(caught_by, wanted, 0 if first is None and entrances is None else first)
        return plant

    return named


def changes(owner: Any, name: str) -> Callable[[Callable[..., Any]], Plant]:
    """A bug that takes the place of one function or method, which it is given before what that is given."""

    def planted(changed: Callable[..., Any]) -> Plant:
        @wraps(changed)
        def plant() -> AbstractContextManager[None]:
            original = getattr(owner, name)
            return replaced(owner, **{name: lambda *given, **named: changed(original, *given, **named)})

        return plant

    return planted


@contextmanager
def replaced(owner: Any, **attributes: Any) -> Iterator[None]:
    """While it is open, attributes of a class or module are others."""
    before = {name: owner.__dict__[name] for name in attributes}
    for name, value in attributes.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)
