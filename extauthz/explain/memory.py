"""What the controller remembers of an HPA, as far as the HPA's own status proves it.

It keeps its last recommendations (what the metrics asked for, before any limit) for as long as a stabilization window,
and the steps it took for as long as the period of a policy. Nobody can read either. So here they are bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from extauthz.core.model import Tree
from extauthz.core.objects.fields import at

from .objects import condition, moment
from .ratios import INT32

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
        return Memory(steps=steps)
    limit = limited.get("reason", "") if limited.get("status") == "True" else ""
    has_behavior = at(hpa, "spec", "behavior") is not None
    last, high = _bounds(reason, limit, step, current, has_behavior=has_behavior)
    held = current if reason.endswith("Stabilized") else None
    return Memory(*last, high=high, held_at=held, steps=steps)


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
    rules = [at(hpa, "spec", "behavior", way) or {} for way in ("scaleUp", "scaleDown")]
    periods = [one["periodSeconds"] for rule in rules for one in rule.get("policies") or []]
    longest = max(periods, default=15)
    return since is not None and moment(since) + longest + MARGIN_S > now
