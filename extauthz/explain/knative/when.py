"""When Knative's autoscaler acts: as a time, if nothing that it looks at changes meanwhile.

It looks at each revision every 2 s, at averages over its stable and its panic window. What it remembers (panic mode,
scale-down-delay) is in no object, so those times are the longest that they may be.
"""

from __future__ import annotations

from typing import Final

from extauthz.explain.when import When

from .decide import Answer
from .decider import Values, panic_s
from .rules import Rules
from .scene import Scene

TICK_S: Final = 2
"""``tickInterval`` (``pkg/autoscaler/scaling/multiscaler.go`` of knative.dev/serving)."""
RETRY_S: Final = 1000
"""After each refusal it waits twice as long, up to this (``DefaultTypedControllerRateLimiter`` of client-go)."""

LOOK: Final = f"it looks every {TICK_S} s"
NEVER: Final[dict[str, str]] = {
    "max-scale": "not upwards while max-scale stays as it is",
    "min-scale": "not downwards while min-scale stays as it is",
    "activation-scale": "not downwards while there are requests and activation-scale stays as it is",
    "zero-disabled": "not to zero while enable-scale-to-zero is false",
    "up-rate": f"within {TICK_S} s after more of its pods are ready ({LOOK})",
    "down-rate": f"within {TICK_S} s after fewer of its pods are ready ({LOOK})",
    "timed-out": "when there are requests",
    "no-metrics": f"within {TICK_S} s after it has metrics ({LOOK})",
}


def of(scene: Scene, answer: Answer) -> When:
    """Of what the autoscaler does next."""
    rules, outcome = scene.rules, answer.outcome
    if outcome == "refused":
        left = max(round(RETRY_S - (scene.now - scene.refused[-1].at)), TICK_S)
        return When(left, f"it asks again within {left} s: after each refusal it waits longer, up to {RETRY_S} s")
    if outcome == "remembered" or (outcome == "scales-down" and not answer.certain and answer.values is not None):
        return _forgotten(rules, answer.values)
    if outcome in ("zero-waits", "activating"):
        return _to_zero(scene, answer)
    if outcome == "min-scale" and answer.desired > rules.least:
        return When(None, "when it has had its initial scale once")
    if outcome in NEVER:
        by_status = answer.values is None and outcome in ("max-scale", "min-scale")
        return When(None, f"{'probably ' if by_status else ''}{NEVER[outcome]}")
    if outcome in ("scales-up", "scales-down"):
        return When(TICK_S, f"{_sure(answer)}within {TICK_S} s ({LOOK})")
    windows = f"{LOOK}, at the last {rules.stable_window_s:g} s, and for a surge at the last {rules.panic_window_s:g} s"
    return When(None, f"not while its {rules.metric} stays as it is ({windows})")


def _forgotten(rules: Rules, values: Values | None) -> When:
    """Panic mode ends a stable window after the last surge, and only what follows enters scale-down-delay."""
    panic = panic_s(values, rules)
    at_latest = round(panic + rules.delay_s) + TICK_S
    why = [f"a panic mode ends {panic:g} s after the last surge (its stable window)"] if panic else []
    why += [f"scale-down-delay is {rules.delay_s:g} s"] if rules.delay_s else []
    return When(at_latest, f"within {at_latest} s: {', '.join([*why, LOOK])}")


def _to_zero(scene: Scene, answer: Answer) -> When:
    """The way to zero, as far as the condition Active says since when it is on it."""
    rules = scene.rules
    if answer.left_s is None:
        limits = f"its stable window is {rules.stable_window_s:g} s, scale-to-zero-grace-period {rules.grace_s:g} s"
        return When(None, f"not known: its condition Active has no time ({limits})")
    at_latest = round(answer.left_s) + TICK_S
    if answer.outcome == "activating":
        return When(at_latest, f"as soon as it is ready; to zero within {at_latest} s, if it never is")
    sure = _sure(answer) if rules.burst == -1 else "probably "  # else the activator must be in the path first
    return When(at_latest, f"{sure}to zero within {at_latest} s, if nothing asks for it meanwhile")


def _sure(answer: Answer) -> str:
    return "" if answer.certain else "probably "
