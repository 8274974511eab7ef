"""What becomes of a count that the autoscaler asks for: minimum, maximum, and the way to zero.

In the order of ``pkg/reconciler/autoscaling/kpa/scaler.go`` of knative.dev/serving.
"""

from __future__ import annotations

from typing import NamedTuple

from extauthz.core.objects.fields import at
from extauthz.explain.objects import condition, moment

from .scene import Scene


class Bounds(NamedTuple):
    """What it may be; 0 as ``most`` is no limit."""

    least: int
    most: int
    note: str
    """Where ``least`` is of, if it is not min-scale."""
    certain: bool

    def apply(self, count: int) -> int:
        if count < self.least:
            return self.least
        return self.most if self.most and count > self.most else count


class Outcome(NamedTuple):
    """What is written."""

    scale: int
    """``status.desiredScale`` then."""
    replicas: int
    why: str
    """A reason word if zero was asked for; else empty."""
    text: str
    certain: bool


def bounds(scene: Scene) -> Bounds:
    """Minimum and maximum of now."""
    rules = scene.rules
    if rules.initial <= 1 or scene.initialized or rules.initial <= rules.least:
        return Bounds(rules.least, rules.most, "", certain=True)
    note = "initial-scale, until it has had that once"
    if scene.ready >= rules.initial:
        # It has that now; it is marked so when it is next looked at, and then min-scale counts.
        return Bounds(rules.least, rules.most, "", certain=False)
    if rules.reachable:
        return Bounds(rules.initial, rules.most, note, certain=True)
    # Older releases start what no route reaches at its initial scale, too.
    return Bounds(rules.least, rules.most, "", certain=False)


def applied(scene: Scene, count: int) -> Outcome:
    """What comes of a count within the bounds."""
    if count > 0:
        return Outcome(count, count, "", "", certain=True)
    if not scene.rules.to_zero:
        text = "enable-scale-to-zero is false in config-autoscaler, so one stays"
        return Outcome(1, 1, "zero-disabled", text, certain=True)
    status = condition(scene.autoscaler, "Active").get("status", "Unknown")
    if status == "Unknown":
        return _activating(scene)
    return _active(scene) if status == "True" else _inactive(scene)


def _activating(scene: Scene) -> Outcome:
    """It has been started and has not been ready yet."""
    since = _since(scene)
    limit = scene.rules.activation_within_s
    if since is not None and since > limit:
        text = f"it has not become ready within {limit:g} s, so it goes to zero"
        return Outcome(0, 0, "timed-out", text, certain=True)
    text = f"it is being started, and is given {limit:g} s for that"
    return Outcome(scene.scale, scene.replicas, "activating", text, certain=since is not None)


def _active(scene: Scene) -> Outcome:
    """It must have been active for a stable window; then it is first called inactive."""
    since, window = _since(scene), scene.rules.stable_window_s
    if since is not None and since >= window:
        text = f"nothing asks for it, so it is marked inactive; it goes to zero {_grace(scene)} later"
        return Outcome(0, scene.replicas, "zero-waits", text, certain=True)
    left = "" if since is None else f", {window - since:.0f} s from now"
    text = f"nothing asks for it, but it became active less than {window:g} s ago (its stable window){left}; one stays"
    return Outcome(1, 1, "zero-waits", text, certain=since is not None)


def _inactive(scene: Scene) -> Outcome:
    """The activator must be in the path for the grace period, and the last pod is kept as long as is asked."""
    since, rules = _since(scene), scene.rules
    sure = since is not None and rules.burst == -1
    since = 0.0 if since is None else since
    if since >= max(rules.grace_s, rules.retention_s):
        text = f"nothing has asked for it for {since:.0f} s, so it goes to zero"
        return Outcome(0, 0, "", text, certain=sure)
    if since < rules.retention_s:
        text = f"the last pod is kept for {rules.retention_s:g} s (scale-to-zero-pod-retention-period)"
        return Outcome(0, scene.replicas, "zero-waits", text, certain=True)
    service = scene.objects.one("ServerlessService", scene.namespace, scene.name)
    proxied = condition(service or {}, "ActivatorEndpointsPopulated")
    if proxied.get("status") == "True" and scene.now - moment(proxied["lastTransitionTime"]) >= rules.grace_s:
        text = f"requests have gone to the activator for {rules.grace_s:g} s, so it goes to zero"
        return Outcome(0, 0, "", text, certain=sure)
    text = f"requests must go to the activator for {rules.grace_s:g} s first (scale-to-zero-grace-period)"
    return Outcome(0, scene.replicas, "zero-waits", text, certain=sure and bool(proxied))


def _grace(scene: Scene) -> str:
    return f"at most {max(scene.rules.grace_s, scene.rules.retention_s):g} s"


def _since(scene: Scene) -> float | None:
    """For how long it has been as it is."""
    time = at(condition(scene.autoscaler, "Active"), "lastTransitionTime")
    return None if time is None else scene.now - moment(time)
