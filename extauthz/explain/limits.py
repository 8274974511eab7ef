"""What becomes of a recommendation: stabilization windows, policies, minimum and maximum.

What is not known of the controller's memory makes ranges. All rules are monotone, so a range goes through them by its
ends. If both come to one count, memory did not matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

from extauthz.core.model import Tree
from extauthz.core.objects.fields import at

from .flags import Flags
from .memory import Memory
from .ratios import INT32

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
    """The rules of one HPA."""

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
    held = memory.held_at
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
        allowed = _up(rule.up, memory, current)
        counts = Range(*(min(wanted, rule.most, max(limit, current)) for limit in allowed))
        reason = "ScaleUpLimit" if max(allowed.guess, current) < rule.most else "TooManyReplicas"
        return counts, reason if counts.guess < wanted else ""
    if wanted < current:
        allowed = _down(rule.down, memory, current)
        counts = Range(*(max(wanted, rule.least, min(limit, current)) for limit in allowed))
        reason = "ScaleDownLimit" if min(allowed.guess, current) > rule.least else "TooFewReplicas"
        return counts, reason if counts.guess > wanted else ""
    return Range(wanted, wanted, wanted), ""


def _up(rule: Tree, memory: Memory, current: int) -> Range:
    if rule["selectPolicy"] == "Disabled":
        return Range(current, current, current)
    choose = min if rule["selectPolicy"] == "Min" else max

    def limit(start: int) -> int:
        steps: list[tuple[str, int]] = [(one["type"], one["value"]) for one in rule["policies"]]
        return choose(start + by if kind == "Pods" else math.ceil(start * (1 + by / 100)) for kind, by in steps)

    if memory.steps is None:
        return Range(*[limit(current)] * 3)
    return Range(current, limit(current - memory.steps), INT32)


def _down(rule: Tree, memory: Memory, current: int) -> Range:
    if rule["selectPolicy"] == "Disabled":
        return Range(current, current, current)
    choose = max if rule["selectPolicy"] == "Min" else min

    def limit(start: int) -> int:
        steps: list[tuple[str, int]] = [(one["type"], one["value"]) for one in rule["policies"]]
        return choose(start - by if kind == "Pods" else int(start * (1 - by / 100)) for kind, by in steps)

    if memory.steps is None:
        return Range(*[limit(current)] * 3)
    return Range(0, limit(current - memory.steps), current)
