"""The metrics of an HPA as its spec has them, and the scene that they are read from."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from extauthz.core.model import Tree
from extauthz.core.numbers import INT32
from extauthz.core.objects.fields import at

from .objects import ExplainError, Flags, Objects, milli, namespace_of
from .target import Target


class Tolerances(NamedTuple):
    """How far a ratio may be from 1 without anything happening."""

    down: float
    up: float

    def holds(self, ratio: float) -> bool:
        """The band, as the controller compares it. ``abs(1.1 - 1) <= 0.1`` is false in floats; here 1.1 is within.

        >>> Tolerances(0.1, 0.1).holds(110 / 100)
        True
        """
        return 1.0 - self.down <= ratio <= 1.0 + self.up


@dataclass(frozen=True, slots=True)
class Goal:
    """What is to be met: a percentage of what pods request, or an amount for each."""

    target: int
    """Percent, or thousandths."""
    is_percent: bool

    def value(self, total: int, requested: int, count: int) -> int:
        """The average that is compared with the target: an integer."""
        return total * 100 // requested if self.is_percent else total // count

    def total(self, value: int, requested: int, count: int) -> int:
        """The least usage with this average."""
        return -(-value * requested // 100) if self.is_percent else value * count

    def stand_in(self, requested: int) -> int:
        """What a pod without a metric counts as on the way down."""
        return requested * max(100, self.target) // 100 if self.is_percent else self.target


@dataclass(frozen=True, slots=True)
class Pool:
    """The pods of one metric."""

    ready: int
    sampled: int
    """How many metrics there are for them; at times more than pods."""
    total: int
    requested: int
    """By those that are sampled."""
    missing: tuple[int, ...] = ()
    """What each pod without a metric requests."""
    unready: tuple[int, ...] = ()


class Result(NamedTuple):
    """How one metric comes to its count."""

    value: int
    ratio: float
    again: tuple[int, float, int] | None
    """Value and ratio with missing and unready pods, and how many pods these are of."""
    replicas: int
    why: str
    """``tolerance``, ``ceiling`` or ``turned`` (with those pods it would go the other way)."""


def ceiling(number: float) -> int:
    """As an int32."""
    return min(math.ceil(number), INT32)


def of_pool(pool: Pool, goal: Goal, current: int, band: Tolerances) -> Result:
    """What a metric of pods asks for."""
    value = goal.value(pool.total, pool.requested, pool.sampled)
    ratio = value / goal.target
    if not pool.missing and not (pool.unready and ratio > 1.0):
        if band.holds(ratio):
            return Result(value, ratio, None, current, "tolerance")
        return Result(value, ratio, None, ceiling(ratio * pool.ready), "ceiling")
    more = _with_the_others(pool, goal, ratio)
    second = goal.value(more.total, more.requested, more.sampled)
    anew = second / goal.target
    again = (second, anew, more.sampled)
    if band.holds(anew):
        return Result(value, ratio, again, current, "tolerance")
    replicas = ceiling(anew * more.sampled)
    turned = (ratio < 1.0 < anew) or (anew < 1.0 < ratio)
    wrong_way = (anew < 1.0 and replicas > current) or (anew > 1.0 and replicas < current)
    if turned or wrong_way:
        return Result(value, ratio, again, current, "turned")
    return Result(value, ratio, again, replicas, "ceiling")


def _with_the_others(pool: Pool, goal: Goal, ratio: float) -> Pool:
    """On the way up, pods without a metric and unready ones use nothing; on the way down, those without one use all."""
    added: tuple[int, ...] = pool.missing if ratio != 1.0 else ()
    total = pool.total + (sum(map(goal.stand_in, pool.missing)) if ratio < 1.0 else 0)
    if ratio > 1.0:
        added += pool.unready
    return replace(pool, total=total, requested=pool.requested + sum(added), sampled=pool.sampled + len(added))


def of_total(usage: int, target: int, current: int, ready: int, band: Tolerances) -> Result:
    """What a metric of an object, or an external one, asks for with a target for the whole."""
    ratio = usage / target
    if current == 0:
        return Result(usage, ratio, None, ceiling(ratio), "ceiling")
    if band.holds(ratio):
        return Result(usage, ratio, None, current, "tolerance")
    return Result(usage, ratio, None, ceiling(ratio * ready), "ceiling")


def of_share(usage: int, target: int, observed: int, band: Tolerances) -> Result:
    """The same with a target for each pod. It goes by the count that the workload's status has."""
    shown = math.ceil(usage / observed) if observed else usage
    ratio = usage / (target * observed) if observed else (math.inf if usage else math.nan)
    if band.holds(ratio):
        return Result(shown, ratio, None, observed, "tolerance")
    return Result(shown, ratio, None, ceiling(usage / target), "ceiling")


CPU: Final = [
    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
]
"""What an HPA without metrics goes by."""


class UnknownError(ExplainError):
    """A value is not among the objects: nothing can be said, not even that the metric fails."""


class UnsureError(ExplainError):
    """The metric probably fails."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One entry of ``spec.metrics``."""

    number: int
    type: str
    name: str
    container: str
    target: int
    """Percent, or thousandths."""
    measure: str
    """``Utilization``, ``AverageValue`` or ``Value``."""
    spec: Tree

    @property
    def said(self) -> str:
        """Its name in sentences and for ``--at``: of one container with that container's."""
        return f"{self.container}/{self.name}" if self.container else self.name

    @property
    def field(self) -> str:
        """Where spec and status have it."""
        return self.type[0].lower() + self.type[1:]

    @property
    def resource(self) -> str:
        """Of pods; empty for another metric."""
        return self.name if self.type in ("Resource", "ContainerResource") else ""


@dataclass(frozen=True, slots=True)
class Scene:
    """All that metrics are read from."""

    objects: Objects
    hpa: Tree
    target: Target
    flags: Flags
    band: Tolerances
    now: float
    pods: tuple[Tree, ...]
    """Those that the target selects."""

    @property
    def namespace(self) -> str:
        return namespace_of(self.hpa)


def of_hpa(hpa: Tree) -> list[Metric]:
    """All of them, in order."""
    return [_metric(number, entry) for number, entry in enumerate(at(hpa, "spec", "metrics") or CPU)]


def _metric(number: int, entry: Tree) -> Metric:
    kind = entry["type"]
    spec = entry[kind[0].lower() + kind[1:]]
    target = spec["target"]
    name = spec["name"] if "name" in spec else spec["metric"]["name"]
    if target.get("averageUtilization") is not None:
        measure, aim = "Utilization", target["averageUtilization"]
    elif target.get("averageValue") is not None:
        measure, aim = "AverageValue", milli(target["averageValue"])
    else:
        measure, aim = "Value", milli(target["value"])
    return Metric(number, kind, name, spec.get("container", ""), aim, measure, spec)
