"""When an autoscaler acts: as a time, if nothing that it looks at changes meanwhile.

The HPA controller looks at each HPA every 15 s (``--horizontal-pod-autoscaler-sync-period``), KEDA at each ScaledObject
every ``pollingInterval`` (30 s), and Knative's autoscaler at each revision every 2 s. All times are the latest.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from extauthz.core.objects.fields import at

from . import keda, limits, refused
from .answer import Answer
from .knative import scene as knative
from .knative.decide import Answer as KnativeAnswer
from .knative.decider import Values, panic_s
from .knative.rules import Rules
from .objects import moment
from .specs import Scene

POLLING_S: Final = 30
"""``pollingInterval`` of a ScaledObject that gives none (``pkg/apis/keda/v1alpha1/withtriggers_types.go``)."""

POLICIES: Final = frozenset({"up-policies", "down-policies"})
NEVER: Final[dict[str, str]] = {
    "tolerance": "not while its metrics stay as they are: they are within the tolerance",
    "on-target": "not while its metrics stay as they are",
    "pods-not-counted": "when more of its pods are ready and have metrics",
    "max-replicas": "not upwards while maxReplicas stays as it is",
    "min-replicas": "not downwards while minReplicas stays as it is",
    "up-off": "not upwards while behavior.scaleUp.selectPolicy is Disabled",
    "down-off": "not downwards while behavior.scaleDown.selectPolicy is Disabled",
    "disabled": "not while its count is 0",
}


class When(NamedTuple):
    seconds: int | None
    """From now, at the latest; ``None``: not while all stays as it is."""
    text: str


def of_hpa(scene: Scene, answer: Answer) -> When:
    rule = limits.rules(scene.hpa, scene.flags)
    sync_s = round(rule.sync_s)
    look = f"it looks every {sync_s} s"
    if answer.outcome == refused.OUTCOME:
        return When(sync_s, f"it asks again within {sync_s} s ({look})")
    if answer.outcome == "failed":
        return When(None, f"within {sync_s} s after its metrics can be read again ({look})")
    if answer.outcome == "stabilized":
        return _after_window(answer, rule, sync_s)
    if answer.outcome in POLICIES:
        return _after_period(scene, answer, rule, sync_s)
    if answer.outcome in NEVER:
        return When(None, NEVER[answer.outcome])
    return When(sync_s, f"within {sync_s} s ({look})")


def _after_window(answer: Answer, rule: limits.Rules, sync_s: int) -> When:
    """The last recommendation that holds it was made a moment ago at the latest, and leaves the window after that."""
    wanted = max((one.result.replicas for one in answer.proposals if one.result is not None), default=0)
    way, window = ("down", rule.down_window_s) if wanted < answer.current else ("up", rule.up_window_s)
    at_latest = round(window) + sync_s
    why = f"its window for scaling {way} is {window:g} s, and it looks every {sync_s} s"
    return When(at_latest, f"within {at_latest} s: {why}")


def _after_period(scene: Scene, answer: Answer, rule: limits.Rules, sync_s: int) -> When:
    """A step counts for a policy until its period is over."""
    rules = rule.up if answer.outcome == "up-policies" else rule.down
    longest = max((one["periodSeconds"] for one in (rules or {}).get("policies") or []), default=sync_s)
    since = at(scene.hpa, "status", "lastScaleTime")
    left = longest if since is None else min(max(round(moment(since) + longest - scene.now), 0), longest)
    why = f"its policies count the steps of the last {longest} s, and it looks every {sync_s} s"
    return When(left + sync_s, f"within {left + sync_s} s: {why}")


def of_keda(scene: keda.Scene, answer: Answer) -> When:
    interval = at(scene.tree, "spec", "pollingInterval")
    poll_s = POLLING_S if interval is None else int(interval)
    look = f"KEDA looks every {poll_s} s"
    if answer.outcome == "paused" and answer.desired == answer.current:
        return When(None, "not while it is paused")
    if answer.outcome == "not-ready":
        return When(None, f"within {poll_s} s after KEDA is ready ({look})")
    if answer.outcome == "idle":
        return When(None, f"within {poll_s} s after a trigger is active ({look})")
    if answer.left_s is not None:
        at_latest = round(answer.left_s) + poll_s
        return When(at_latest, f"within {at_latest} s: cooldownPeriod ends in {answer.left_s:.0f} s, and {look}")
    again = "it asks again " if answer.outcome == "refused" else ""
    return When(poll_s, f"{again}within {poll_s} s ({look})")


# Knative's autoscaler looks at averages over its stable and its panic window. What it remembers (panic mode,
# scale-down-delay) is in no object, so those times are the longest that they may be.

TICK_S: Final = 2
"""``tickInterval`` (``pkg/autoscaler/scaling/multiscaler.go`` of knative.dev/serving)."""
RETRY_S: Final = 1000
"""After each refusal it waits twice as long, up to this (``DefaultTypedControllerRateLimiter`` of client-go)."""

LOOK: Final = f"it looks every {TICK_S} s"
NEVER_OF_KNATIVE: Final[dict[str, str]] = {
    "max-scale": "not upwards while max-scale stays as it is",
    "min-scale": "not downwards while min-scale stays as it is",
    "activation-scale": "not downwards while there are requests and activation-scale stays as it is",
    "zero-disabled": "not to zero while enable-scale-to-zero is false",
    "up-rate": f"within {TICK_S} s after more of its pods are ready ({LOOK})",
    "down-rate": f"within {TICK_S} s after fewer of its pods are ready ({LOOK})",
    "timed-out": "when there are requests",
    "no-metrics": f"within {TICK_S} s after it has metrics ({LOOK})",
}


def of_knative(scene: knative.Scene, answer: KnativeAnswer) -> When:
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
    if outcome in NEVER_OF_KNATIVE:
        by_status = answer.values is None and outcome in ("max-scale", "min-scale")
        return When(None, f"{'probably ' if by_status else ''}{NEVER_OF_KNATIVE[outcome]}")
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


def _to_zero(scene: knative.Scene, answer: KnativeAnswer) -> When:
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
