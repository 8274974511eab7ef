"""What an explanation consists of."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from extauthz.core import quantities

from .limits import Range, Rules
from .metrics import Known
from .specs import Metric, Result, Scene


class Step(NamedTuple):
    """One rule that the controller applied."""

    rule: str
    """A stable word: ``metric``, ``several-metrics``, ``stabilization``, ``limits``, …"""
    text: str
    replicas: int | None
    """The count that it came to."""
    certain: bool


class Proposal(NamedTuple):
    """What one metric asks for."""

    metric: Metric
    known: Known | None
    """``None``: it fails."""
    result: Result | None
    error: str
    certain: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """What an autoscaler does next, and why."""

    current: int
    desired: int
    """Replicas."""
    outcome: str
    """A stable word for what decided: see docs/explain.md. Empty: KEDA leaves the count to its HPA."""
    certain: bool
    steps: tuple[Step, ...]
    proposals: tuple[Proposal, ...] = ()
    note: str = ""
    """For the sentence, where the outcome needs one."""
    left_s: float | None = None
    """Of a cooldown, or of the way to zero: the longest that it may take; ``None``: not known, or on neither."""


class Change(NamedTuple):
    """One change that would do, if nothing else changes."""

    kind: str
    """A stable word: ``finished-pods``, ``quota``, ``metric``, ``target``, ``tolerance``, ``another-metric``,
    ``max-replicas``, ``window``, ``policies``."""
    text: str
    value: str
    replicas: int
    """What the HPA then goes to."""


CODES: Final = {
    "TooManyReplicas": "max-replicas",
    "TooFewReplicas": "min-replicas",
    "ScaleUpLimit": "up-policies",
    "ScaleDownLimit": "down-policies",
}
LIMITS: Final = {
    "TooManyReplicas": "maxReplicas",
    "TooFewReplicas": "minReplicas",
    "ScaleUpLimit": "the policies for scaling up",
    "ScaleDownLimit": "the policies for scaling down",
}


def amount(metric: Metric, value: int) -> str:
    """A value or a target of a metric, as a person writes it."""
    if metric.measure == "Utilization":
        return f"{value} %"
    return quantities.format(value * 10**6, metric.resource or "pods")


def replicas(count: int) -> str:
    """With its noun."""
    return f"{count} replica{'s' * (count != 1)}"


def sentence(name: str, answer: Answer, why: str) -> str:
    """Whether an autoscaler moves, and why."""
    sure = "" if answer.certain else "probably "
    if answer.desired != answer.current:
        return f"{name} {sure}goes from {answer.current} to {replicas(answer.desired)}: {why}."
    return f"{name} {sure}stays at {replicas(answer.current)}: {why}."


LARGEST: Final = 2**48
"""Of a number that is tried."""


def least(does: Callable[[int], bool], start: int = 1) -> int | None:
    """The smallest number from ``start // 2`` on for which ``does`` holds. It must hold for every larger one too.
    ``None``: for no number."""
    high = start
    while not does(high):
        high *= 2
        if high > LARGEST:
            return None
    low = high // 2 + 1
    return low + bisect_left(range(low, high), True, key=does)


def number(ratio: float) -> str:
    """A ratio with as many places as help."""
    return f"{ratio:.4f}".rstrip("0").rstrip(".")


def percent(part: float) -> str:
    return f"{part * 100:.6g} %"


def metric(one: Proposal, scene: Scene, current: int) -> Step:
    """One metric: ratio, tolerance, ceiling."""
    name = f"{one.metric.type} {one.metric.said}"
    if one.result is None or one.known is None:
        return Step("metric", f"{name} fails: {one.error}", None, one.certain)
    found = one.result
    value, aim = amount(one.metric, found.value), amount(one.metric, one.metric.target)
    if not math.isfinite(found.ratio):
        text = f"{name} is {value}, the target is {aim} for each pod; there are no pods yet, so there is no ratio"
        return Step("metric", f"{text}, and it asks for {found.replicas}", found.replicas, one.certain)
    parts = [f"{name} is {value}, the target is {aim}: a ratio of {number(found.ratio)}"]
    ratio, count = found.ratio, one.known.pods
    if found.again is not None:
        second, ratio, count = found.again
        parts.append(
            f"with the unready pods and those without a metric it is {amount(one.metric, second)}, "
            f"a ratio of {number(ratio)} over {count} pods"
        )
    parts.append(_came_to(one, scene, ratio, count, current))
    note = one.known.note
    if found.why == "tolerance" and one.certain and not one.known.certain:
        note = "which pods are ready, or have metrics, does not matter here"
    text = "; ".join(parts) + (f" ({note})" if note else "")
    return Step("metric", text, found.replicas, one.certain)


def _came_to(one: Proposal, scene: Scene, ratio: float, count: int | None, current: int) -> str:
    assert one.result is not None
    band = scene.band
    if one.result.why == "tolerance":
        within = f"it is within the tolerance, {number(1.0 - band.down)} to {number(1.0 + band.up)}, so"
        if one.result.replicas != current:
            return f"{within} the controller takes the {one.result.replicas} replicas of the scale's status"
        return f"{within} nothing is computed and the count stays {current}"
    if one.result.why == "turned":
        return f"that would go the other way, so the count stays {current}"
    if count is None:
        return f"it is outside the tolerance, so {one.result.replicas}"
    return f"it is outside the tolerance, so ⌈{number(ratio)} × {count}⌉ = {one.result.replicas}"


def window(found: Range, wanted: int, current: int, rule: Rules, *, certain: bool) -> Step:
    """What the stabilization windows make of a recommendation."""
    sure = certain and found.certain
    if found.guess == wanted:
        return Step("stabilization", f"the stabilization windows leave {wanted} as it is", wanted, sure)
    length = rule.down_window_s if wanted < found.guess else rule.up_window_s
    which = "largest" if wanted < found.guess else "smallest"
    way = "down" if wanted < found.guess else "up"
    text = (
        f"to go {way}, the {which} recommendation of the last {length:g} s counts: {found.guess} in place of {wanted}"
    )
    return Step("stabilization", text, found.guess, sure)


def bounds(wanted: int, found: Range, reason: str, rule: Rules, *, certain: bool) -> Step:
    """What policies, minimum and maximum make of it."""
    sure = certain and found.certain
    within = f"minReplicas {rule.least}, maxReplicas {rule.most}"
    if not reason:
        return Step("limits", f"{found.guess} is within the policies, and {within}", found.guess, sure)
    return Step("limits", f"{LIMITS[reason]} make {found.guess} of {wanted} ({within})", found.guess, sure)
