"""What becomes of a recommendation: stabilization windows, policies, minimum and maximum.

What is not known of the controller's memory makes ranges. All rules are monotone, so a range goes through them by its
ends. If both come to one count, memory did not matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

from extauthz.core.model import Tree
from extauthz.core.numbers import INT32
from extauthz.core.objects.fields import at

from .objects import Flags, condition, moment

MARGIN_S: Final = 60.0
"""The time of objects and that of the controller may be so far apart."""

PROVING: Final = frozenset({"ReadyForNewScale", "ScaleUpStabilized", "ScaleDownStabilized", "SucceededRescale"})
"""Reasons of AbleToScale. Nothing is proven where a write was refused, where somebody else has set the count, or where
the last look found no metrics."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Bounds of recommendations within a window. ``last``: of the one that is surely in it."""

    last_low: int = 0
    last_high: int = INT32
    low: int = 0
    high: int = INT32
    is_fresh: bool = False
    """The controller has not worked on this HPA yet: it remembers the count that it finds, and nothing else."""
    held_at: int | None = None
    """A window has kept this count."""
    count: int = 0
    """This one was found or recommended ``age_s`` ago."""
    age_s: float = math.inf
    is_limited: bool = False
    """The policies for scaling up let it go no further when the controller last looked."""
    steps: int | None = None
    """Replicas added (or taken) by the step that the status shows; ``None``: no step is remembered."""


def of_status(hpa: Tree, current: int, now: float) -> Memory:
    """What is proven."""
    status = hpa.get("status") or {}
    if not status.get("conditions"):
        return Memory(current, current, current, current, is_fresh=True)
    before, after = status.get("currentReplicas", 0), status.get("desiredReplicas", 0)
    able, limited = condition(hpa, "AbleToScale"), condition(hpa, "ScalingLimited")
    reason = able.get("reason") if able.get("status") == "True" else ""
    step = after - before if reason == "SucceededRescale" else 0
    steps = step if _remembers_steps(hpa, now) else None
    least, most = at(hpa, "spec", "minReplicas") or 0, at(hpa, "spec", "maxReplicas") or INT32
    by_bounds = reason == "SucceededRescale" and not least <= before <= most
    has_metrics = condition(hpa, "ScalingActive").get("status") == "True"
    if reason not in PROVING or after != current or by_bounds or not has_metrics:
        is_its_own = after == current or (after == 0 and at(hpa, "status", "lastScaleTime") is None)
        return Memory(steps=steps, count=current, age_s=_age(hpa, now) if is_its_own else math.inf)
    limit = limited.get("reason", "") if limited.get("status") == "True" else ""
    has_behavior = at(hpa, "spec", "behavior") is not None
    last, high = _bounds(reason, limit, step, current, has_behavior=has_behavior)
    held = current if reason.endswith("Stabilized") else None
    shortest = min(_periods(hpa), default=15)
    is_limited = limit == "ScaleUpLimit" and step == 0 and _age(hpa, now) < shortest
    return Memory(*last, high=high, held_at=held, steps=steps, is_limited=is_limited)


def _age(hpa: Tree, now: float) -> float:
    """Since the HPA was made, which recommends the count that it finds, or since it last changed that."""
    times = (at(hpa, "metadata", "creationTimestamp"), at(hpa, "status", "lastScaleTime"))
    return now - max((moment(one) for one in times if one), default=-math.inf)


def _bounds(reason: str, limit: str, step: int, count: int, *, has_behavior: bool) -> tuple[tuple[int, int], int]:
    """Least and most of the last recommendation, and the most of all in the window.

    After a recommendation ``P`` comes the window, which makes ``S`` of it, then the limits, which make the count of it.
    The condition ScalingLimited tells whether S was above or below the count; AbleToScale whether P was S.
    """
    s_low, s_high = count, count
    if limit in ("TooManyReplicas", "ScaleUpLimit"):
        s_low, s_high = count + 1, INT32
    elif limit in ("TooFewReplicas", "ScaleDownLimit"):
        s_low, s_high = 0, max(count - 1, 0)
    # Without behavior S is the largest of the window. With it, a larger one keeps the count, and no more.
    high = s_high
    if reason == "ReadyForNewScale":
        return (s_low, s_high), high
    if reason == "ScaleUpStabilized":
        return (s_low + 1, INT32), INT32
    if has_behavior and step > 0:
        return (s_low, INT32), INT32
    return (0, s_high), high


def _remembers_steps(hpa: Tree, now: float) -> bool:
    """Whether a step may still count for a policy."""
    since = at(hpa, "status", "lastScaleTime")
    longest = max(_periods(hpa), default=15)
    return since is not None and moment(since) + longest + MARGIN_S > now


def _periods(hpa: Tree) -> list[int]:
    rules = [at(hpa, "spec", "behavior", way) or {} for way in ("scaleUp", "scaleDown")]
    return [one["periodSeconds"] for rule in rules for one in rule.get("policies") or []]


UP: Final = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
DOWN: Final = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}
"""What the API server fills in where ``behavior`` leaves it out."""


class Range(NamedTuple):
    """Least and most that it can be, and what it probably is."""

    low: int
    guess: int
    high: int

    @property
    def certain(self) -> bool:
        return self.low == self.high


@dataclass(frozen=True, slots=True)
class Rules:
    least: int
    most: int
    up: Tree | None
    """``None``: it has no ``behavior`` at all."""
    down: Tree | None
    down_window_s: float
    sync_s: float

    @property
    def up_window_s(self) -> float:
        return float(self.up["stabilizationWindowSeconds"]) if self.up else 0.0


def rules(hpa: Tree, flags: Flags) -> Rules:
    """As the API server would complete them."""
    spec = hpa["spec"]
    least = 1 if spec.get("minReplicas") is None else spec["minReplicas"]
    window = flags.downscale_stabilization
    if spec.get("behavior") is None:
        return Rules(least, spec["maxReplicas"], None, None, window, flags.sync_period)
    up = UP | _given(at(spec, "behavior", "scaleUp"))
    down: Tree = {"stabilizationWindowSeconds": window} | DOWN | _given(at(spec, "behavior", "scaleDown"))
    return Rules(least, spec["maxReplicas"], up, down, float(down["stabilizationWindowSeconds"]), flags.sync_period)


def _given(tree: Tree) -> dict[str, Tree]:
    return {key: value for key, value in (tree or {}).items() if value is not None and value != []}


def stabilized(rule: Rules, memory: Memory, wanted: int, current: int) -> Range:
    """A recommendation after the windows."""
    least, most = _window(rule.up_window_s, rule, memory).least, _window(rule.down_window_s, rule, memory).most

    def outcome(smallest: int, largest: int) -> int:
        if rule.up is None:
            return max(wanted, largest)
        return min(max(current, min(wanted, smallest)), max(wanted, largest))

    return Range(*map(outcome, least, most))


class _Window(NamedTuple):
    """The least and the largest recommendation within a window."""

    least: Range
    most: Range


def _window(length_s: float, rule: Rules, memory: Memory) -> _Window:
    """Without a recommendation the least is INT32 and the largest 0: neither changes anything."""
    if length_s <= 0:
        return _Window(Range(INT32, INT32, INT32), Range(0, 0, 0))
    has_last = memory.is_fresh or length_s >= 2 * rule.sync_s
    held = memory.count if memory.held_at is None and memory.age_s < length_s else memory.held_at
    probable = max(memory.last_low, memory.high if memory.high < INT32 else 0)
    least = Range(memory.low, memory.last_high if held is None else held, memory.last_high if has_last else INT32)
    most = Range(memory.last_low if has_last else 0, probable if held is None else held, memory.high)
    return _Window(least, most)


def limited(rule: Rules, memory: Memory, wanted: int, current: int) -> tuple[Range, str]:
    """After policies, minimum and maximum; and which of them it met, by the reason that the condition would have."""
    if rule.up is None:
        most = min(rule.most, max(2 * current, 4))
        count = max(rule.least, min(wanted, most))
        if wanted < rule.least:
            return Range(count, count, count), "TooFewReplicas"
        over = "ScaleUpLimit" if rule.most > most else "TooManyReplicas"
        return Range(count, count, count), over if wanted > most else ""
    if wanted > current:
        allowed = _allowed(rule.up, memory, current, 1)
        counts = Range(*(min(wanted, rule.most, max(limit, current)) for limit in allowed))
        reason = "ScaleUpLimit" if max(allowed.guess, current) < rule.most else "TooManyReplicas"
        return counts, reason if counts.guess < wanted else ""
    if wanted < current:
        allowed = _allowed(rule.down, memory, current, -1)
        counts = Range(*(max(wanted, rule.least, min(limit, current)) for limit in allowed))
        reason = "ScaleDownLimit" if min(allowed.guess, current) > rule.least else "TooFewReplicas"
        return counts, reason if counts.guess > wanted else ""
    return Range(wanted, wanted, wanted), ""


def _allowed(rule: Tree, memory: Memory, current: int, way: int) -> Range:
    """How far policies let it go. ``way``: 1 is up, -1 is down."""
    if rule["selectPolicy"] == "Disabled":
        return Range(current, current, current)
    choose = max if (rule["selectPolicy"] == "Min") == (way < 0) else min

    def limit(start: int) -> int:
        return choose(_limit(one, start, way) for one in rule["policies"])

    if memory.steps is None:
        return Range(*[limit(current)] * 3)
    probable = current if memory.is_limited and way > 0 else limit(current - memory.steps)
    return Range(current, probable, INT32) if way > 0 else Range(0, probable, current)


def _limit(policy: Tree, start: int, way: int) -> int:
    if policy["type"] == "Pods":
        return int(start + way * policy["value"])
    part = start * (1 + way * policy["value"] / 100)
    return math.ceil(part) if way > 0 else int(part)
