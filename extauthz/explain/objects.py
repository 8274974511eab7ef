"""The objects that an explanation is made of, found by kind and name; and short ways into their trees."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from itertools import chain
from typing import Final

from extauthz.core import quantities, texts
from extauthz.core.model import Tree
from extauthz.core.objects.fields import at

POD_METRICS: Final = "PodMetrics"

_DURATION: Final = re.compile(r"([0-9.]+)(h|ms|us|µs|ns|m|s)")
_SECONDS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


class ExplainError(Exception):
    """There is no answer. The text says why, and what would help."""


class Objects:
    """Trees by kind. What metrics servers answer carries no kind; it is told by its fields.

    Args:
        trees: all of them.
        asked: names of metrics of which the trees hold the whole answer of a metrics server, however empty.
            ``POD_METRICS`` stands for CPU and memory of pods.
        missing: rights that whoever asks lacks, so that something is not seen: ``list pods in shop``.
    """

    def __init__(self, trees: Iterable[Tree], asked: Iterable[str] = (), missing: Iterable[str] = ()) -> None:
        self.asked = frozenset(asked)
        self.missing = tuple(dict.fromkeys(missing))
        self._by_kind: dict[str, list[Tree]] = {}
        self._by_name: dict[tuple[str, str, str], list[Tree]] = {}
        for tree in trees:
            if isinstance(tree, Mapping):
                kind = _kind(tree)
                self._by_kind.setdefault(kind, []).append(tree)
                self._by_name.setdefault((kind, namespace_of(tree), str(at(tree, "metadata", "name"))), []).append(tree)

    def all(self) -> Iterator[Tree]:
        return chain.from_iterable(self._by_kind.values())

    def of(self, kind: str, namespace: str | None = None) -> Sequence[Tree]:
        """All of a kind, in one namespace or in all."""
        found = self._by_kind.get(kind, [])
        return found if namespace is None else [one for one in found if namespace_of(one) == namespace]

    def one(self, kind: str, namespace: str, name: str, group: str | None = None) -> Tree | None:
        """An object, or ``None``. A kind is a group and a kind; ``None``: of whatever group."""
        found = self._by_name.get((kind, namespace, name), [])
        return next((one for one in found if group is None or group_of(one) in (group, None)), None)

    def definition(self, group: str, kind: str) -> Tree | None:
        """The CustomResourceDefinition of a kind."""
        for tree in self.of("CustomResourceDefinition"):
            if at(tree, "spec", "group") == group and at(tree, "spec", "names", "kind") == kind:
                return tree
        return None

    def events(self, kind: str, tree: Tree) -> list[Tree]:
        """Those about one object, the newest last."""
        about = (kind, tree["metadata"]["name"])
        named = [(one, at(one, "involvedObject")) for one in self.of("Event", namespace_of(tree))]
        return sorted((one for one, of in named if (at(of, "kind"), at(of, "name")) == about), key=time_of)

    def resource(self, plural: str) -> tuple[str, str] | None:
        """API group and plural of a custom resource, by its definition."""
        for tree in self.of("CustomResourceDefinition"):
            if at(tree, "spec", "names", "plural") == plural:
                return str(at(tree, "spec", "group")), plural
        return None


def group_of(tree: Tree) -> str | None:
    """Its API group; ``None``: it does not say, as the items of a list from the API server."""
    version = tree.get("apiVersion")
    return None if version is None else str(version).rpartition("/")[0]


def _kind(tree: Tree) -> str:
    if tree.get("kind"):
        return str(tree["kind"])
    if "describedObject" in tree:
        return "MetricValue"
    return "ExternalMetricValue" if "metricName" in tree else "PodMetrics" if "containers" in tree else ""


def namespace_of(tree: Tree) -> str:
    return str((tree.get("metadata") or {}).get("namespace", "default"))


def milli(text: Tree) -> int:
    """A quantity in thousandths, rounded up as the controller does.

    >>> milli("1.5"), milli("100m"), milli("1u")
    (1500, 100, 1)
    """
    return -(-quantities.parse(text) // 10**6)


def as_float(text: Tree) -> float:
    """A quantity as the controller's float: the digits of its shortest text, times a power of ten.

    >>> as_float("70m"), as_float("0.1"), as_float("1")
    (0.07, 0.1, 1.0)
    """
    nanos = quantities.parse(text)
    for places, power in ((0, 1.0), (3, 1e-3), (6, 1e-6)):
        digits, rest = divmod(nanos, 10 ** (9 - places))
        if rest == 0:
            return float(digits) * power
    return float(nanos) * 1e-9


def moment(text: str | None) -> float:
    """Seconds since 1970 of a time in an object. Some adapters print Go's zero time, which is ``null``."""
    return 0.0 if text is None else datetime.fromisoformat(text).timestamp()


OBSERVED: Final = frozenset(
    {
        *("creationTimestamp", "lastTransitionTime", "lastUpdateTime", "lastProbeTime", "lastScaleTime"),
        *("lastActiveTime", "startTime", "completionTime", "startedAt", "finishedAt", "timestamp", "time"),
        *("firstTimestamp", "lastTimestamp", "eventTime", "lastObservedTime", "renewTime", "lastScheduleTime"),
    }
)
"""Fields that the API server, a controller or a metrics server fills with the time at which it saw something."""


def newest(trees: Iterable[Tree]) -> float:
    """Seconds since 1970 of the newest time that something was seen; 0 if there is none."""
    return max(chain((0.0,), chain.from_iterable(map(_times, trees))))


def _times(tree: Tree) -> Iterator[float]:
    left = [tree]
    while left:
        one = left.pop()
        if isinstance(one, Mapping):
            left += one.values()
            found = (one[key] for key in OBSERVED & one.keys() if isinstance(one[key], str))
            yield from (at_s for text in found if (at_s := texts.seconds(text)) is not None)
        elif isinstance(one, list):
            left += one


def seconds(text: str) -> float:
    """A duration as Go prints it.

    >>> seconds("1m0s"), seconds("15.5s")
    (60.0, 15.5)

    Raises:
        ValueError: it is none.
    """
    if _DURATION.sub("", text) or not text:
        raise ValueError(f"{text!r} is no duration")
    return math.fsum(float(number) * _SECONDS[unit] for number, unit in _DURATION.findall(text))


def condition(tree: Tree, kind: str) -> Tree:
    """A condition of its status; an empty one if it has none of this type."""
    return next((one for one in at(tree, "status", "conditions") or [] if one["type"] == kind), {})


def told(one: Tree) -> str:
    """Reason and message of a condition."""
    return ": ".join(str(one[key]) for key in ("reason", "message") if one.get(key))


def time_of(event: Tree) -> float:
    """When it was last seen."""
    text = at(event, "series", "lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return moment(text or event["metadata"].get("creationTimestamp"))


PREFIX: Final = "horizontal-pod-autoscaler-"


@dataclass(frozen=True, slots=True)
class Flags:
    """Each is ``--horizontal-pod-autoscaler-…`` with dashes. Times are in seconds."""

    tolerance: float = 0.1
    cpu_initialization_period: float = 300.0
    initial_readiness_delay: float = 30.0
    downscale_stabilization: float = 300.0
    sync_period: float = 15.0

    def with_texts(self, texts: Iterable[str]) -> Flags:
        """Changed by ``NAME=VALUE``, with or without the dashes and the prefix. Others of the controller are skipped.

        Raises:
            ValueError: a value is none.
        """
        known = {field.name for field in fields(self)}
        changes = {}
        for text in texts:
            name, _, value = text.lstrip("-").removeprefix(PREFIX).partition("=")
            if (field := name.replace("-", "_")) in known:
                changes[field] = _number(text, value)
        return replace(self, **changes)


def names() -> list[str]:
    """Of all flags, without their prefix."""
    return [field.name.replace("_", "-") for field in fields(Flags)]


def of_cluster(objects: Objects) -> Flags:
    """As the pod of kube-controller-manager is started, where it is among the objects; else the defaults."""
    words = [
        str(word)
        for pod in objects.of("Pod", "kube-system")
        if at(pod, "metadata", "labels", "component") == "kube-controller-manager"
        for container in at(pod, "spec", "containers") or []
        for word in [*container.get("command", []), *container.get("args", [])]
    ]
    return Flags().with_texts(word for word in words if "=" in word)


def _number(text: str, value: str) -> float:
    try:
        return seconds(value) if value[-1:] in "hms" and value else float(value)
    except ValueError:
        raise ValueError(f"{text}: write a number, or a time such as 5m0s") from None
