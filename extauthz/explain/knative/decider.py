"""How many replicas the autoscaler asks for: stable and panic window, rates, panic mode, delay, in its own order.

It remembers whether it is in panic mode, the largest count of that, and the counts within scale-down-delay. None of
that is in an object. What it may be makes a range (knative.dev/serving, ``pkg/autoscaler/scaling``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from extauthz.core.numbers import INT32
from extauthz.explain.limits import Range

from .rules import Rules


@dataclass(frozen=True, slots=True)
class Memory:
    """What the autoscaler may remember."""

    most: int
    """No count that it remembers is above this."""
    last: int
    """What it probably asked for last."""


class Values(NamedTuple):
    """What it measures, over its two windows; and whether it is in panic mode, if that is known."""

    stable: float
    panic: float
    panics: bool | None = None


class Wanted(NamedTuple):
    """What came of one look."""

    by_stable: int
    by_panic: int
    """Both by the metric alone."""
    floor: int
    ceiling: int
    """What the rates allow."""
    limited: int
    """The larger of both within the rates, by the stable window alone if there is no panic."""
    activated: bool
    """``activation-scale`` made it more."""
    over: bool
    """The panic window is over the threshold."""
    counts: Range


def wanted(rules: Rules, values: Values, ready: int, memory: Memory) -> Wanted:
    """The count of the next look."""
    pods = max(1, ready)
    ceiling = math.ceil(rules.up_rate * pods)
    floor = math.floor(pods / rules.down_rate) if rules.reachable else 0
    by_stable, by_panic = (math.ceil(value / rules.target) for value in values[:2])
    stable, panic = (min(max(count, floor), ceiling, INT32) for count in (by_stable, by_panic))
    woken = stable, panic
    if rules.activation > 1:
        stable = max(stable, rules.activation) if by_stable > 0 else stable
        panic = max(panic, rules.activation) if by_panic > 0 else panic
    over = by_panic / pods >= rules.panic_threshold
    counts = _remembered(rules, values, Range(stable, stable, max(stable, panic)), memory, over=over)
    limited = max(stable, panic) if over or values.panics else stable
    return Wanted(by_stable, by_panic, floor, ceiling, limited, (stable, panic) != woken, over, counts)


def panic_s(values: Values | None, rules: Rules) -> float:
    """For how long it may still be in panic mode: that ends a stable window after the last surge."""
    return 0.0 if values is not None and values.panics is False else rules.stable_window_s


def _remembered(rules: Rules, values: Values, own: Range, memory: Memory, *, over: bool) -> Range:
    """``own``: by the stable window alone, and by the larger of both."""
    if over and values.panics is False:
        counts = Range(own.high, own.high, own.high)
    elif over or values.panics:
        # Without a new surge it may come out of panic mode now.
        least = own.high if over else own.low
        counts = Range(least, max(own.high, memory.last), max(own.high, memory.most))
    elif values.panics is False:
        counts = Range(own.low, own.low, own.low)
    else:
        counts = Range(own.low, own.low, max(own.high, memory.most))
    if rules.delay_s <= 0:
        return counts
    # Older releases delay what no route reaches, too.
    guess = max(counts.guess, memory.last) if rules.reachable else counts.guess
    return Range(counts.low, guess, max(counts.high, memory.most))
