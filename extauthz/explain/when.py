"""When an autoscaler acts: as a time, if nothing that it looks at changes meanwhile.

The HPA controller looks at each HPA every 15 s (``--horizontal-pod-autoscaler-sync-period``), and KEDA at each
ScaledObject every ``pollingInterval`` (30 s). All times are the latest.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from extauthz.core.objects.fields import at

from . import keda, limits, refused
from .answer import Answer
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
    """When it acts."""

    seconds: int | None
    """From now, at the latest; ``None``: not while all stays as it is."""
    text: str


def of_hpa(scene: Scene, answer: Answer) -> When:
    """Of what the HPA controller does next."""
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
    """Of what KEDA itself does next."""
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
