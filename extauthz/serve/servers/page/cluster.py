"""What a workload's page tells of the cluster: HPAs, the workload's object, events. Read when somebody looks, and kept
for a short while."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from extauthz.core.kinds import WorkloadKind
from extauthz.core.model import Tree
from extauthz.core.objects.fields import at
from extauthz.explain import target
from extauthz.inputs.kube.connection import ApiError, Unreachable
from extauthz.inputs.kube.resource import Lists, Resource
from extauthz.serve.servers.api.people import Judgements
from extauthz.serve.servers.page import rendering

HPA: Final = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
EVENT: Final = Resource("", "v1", "events", "Event")

WITHIN_S: Final = 2.0
"""How long the API server may take: somebody waits for the answer."""

KEPT_S: Final = 10.0
"""How long an answer is used, a bad one too."""

MOST_LISTED: Final = 250
"""Objects of one list."""

MOST_BYTES: Final = 2 * 1024 * 1024
"""Of one list."""

MOST_AT_ONCE: Final = 4
"""Lists that are under way."""

MOST_WAITING: Final = 16
"""Others that wait for their turn."""

MOST_KEPT: Final = 16
"""Lists that are kept."""

FORBIDDEN: Final = 403

EVENT_FIELDS: Final = (
    *("involvedObject", "type", "reason", "message", "count", "series"),
    *("lastTimestamp", "eventTime", "firstTimestamp"),
)


class Listed(NamedTuple):
    """What came of a list."""

    items: Sequence[Tree] = ()
    problem: str = ""
    """Why there is none, in a sentence."""
    is_whole: bool = True
    """False: there are more."""


class Cluster:
    """Reads it, a few lists at once. All raise Problem where too many wait.

    Args:
        lists: the connection; ``None``: there is no cluster.
        clock: any clock in seconds.
    """

    def __init__(self, lists: Callable[[], Lists | None], clock: Callable[[], float] = time.monotonic) -> None:
        self._lists = lists
        self._kept: Judgements[Listed] = Judgements(MOST_WAITING, clock, MOST_KEPT, KEPT_S, MOST_AT_ONCE)

    @property
    def is_there(self) -> bool:
        """False: the gate reads files."""
        return self._lists() is not None

    async def hpas(self, namespace: str) -> Listed:
        return await self._listed(HPA, namespace, "", lambda tree: _part(tree, HPA.kind, "spec", "status"))

    async def workload(self, kind: WorkloadKind, namespace: str, name: str) -> Listed:
        """One object of a kind that Kubernetes has itself: its counts and its selector."""
        resource = Resource(kind.key[0], kind.version, kind.key[1], kind.name)
        return await self._listed(resource, namespace, f"metadata.name={name}", lambda tree: _counts(tree, kind.name))

    async def events(self, namespace: str, name: str) -> Listed:
        """Those about objects of this name."""
        selector = f"involvedObject.name={name}"
        return await self._listed(EVENT, namespace, selector, lambda tree: _part(tree, EVENT.kind, *EVENT_FIELDS))

    async def _listed(self, what: Resource, namespace: str, selector: str, cut: Callable[[Tree], Tree]) -> Listed:
        lists = self._lists()
        assert lists is not None, "who asks has looked whether it is there"
        key = (what, namespace, selector)
        return await self._kept.get(key, namespace, lambda: _read(lists, what, namespace, selector, cut))


async def _read(lists: Lists, what: Resource, namespace: str, selector: str, cut: Callable[[Tree], Tree]) -> Listed:
    items: list[Tree] = []

    def take(tree: Tree) -> None:
        if isinstance(tree, Mapping):
            items.append(cut(tree))

    query = [("limit", str(MOST_LISTED)), *([("fieldSelector", selector)] if selector else [])]
    try:
        metadata = await lists.items(
            what.collection(namespace), take, query=query, timeout_s=WITHIN_S, most_bytes=MOST_BYTES
        )
    except ApiError as error:
        if error.status == FORBIDDEN:
            return Listed(problem=f"The gate lacks the right to list {what.group_resource} in namespace {namespace}.")
        return Listed(problem=f"The API server refused to list {what.group_resource}: status {error.status}.")
    except (Unreachable, RuntimeError):  # their texts are not for everybody; aiohttp's own is told while the gate stops
        return Listed(problem=f"The API server gave no usable list of {what.group_resource} within {WITHIN_S:g} s.")
    return Listed(items, is_whole=not (isinstance(metadata, Mapping) and metadata.get("continue")))


def _part(tree: Tree, kind: str, *fields: str) -> dict[str, Any]:
    """Without what the page does not need, such as annotations: they may be large."""
    metadata = tree.get("metadata") or {}
    named = {key: metadata[key] for key in ("name", "namespace", "ownerReferences") if key in metadata}
    return {"kind": kind, "metadata": named} | {key: tree[key] for key in fields if key in tree}


def _counts(tree: Tree, kind: str) -> dict[str, Any]:
    """A workload without its pod template."""
    spec, status = tree.get("spec") or {}, tree.get("status") or {}
    return _part(tree, kind) | {
        "spec": {key: spec[key] for key in ("replicas", "selector") if key in spec},
        "status": {"replicas": status.get("replicas", 0)},
    }


# Events of the cluster, the newest first.


MOST_EVENTS: Final = 10
MOST_CHARACTERS: Final = 1_024
"""Of a message. The API server takes no longer ones in new events."""

TIMES: Final = (("series", "lastObservedTime"), ("lastTimestamp",), ("eventTime",), ("firstTimestamp",))


class Event(NamedTuple):
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
            return rendering.seconds(at(tree, *way))
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
        rendering.lasting(now_s - at_s) if at_s else "",
    )
