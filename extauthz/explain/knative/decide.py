"""The next count of a PodAutoscaler, step by step, as Knative's autoscaler takes it, with its bounds and its way to
zero; or, if nobody gives the values of its metric, what can be concluded from its status."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from extauthz.core.numbers import INT32
from extauthz.core.objects.fields import at
from extauthz.explain import answer as common
from extauthz.explain import said
from extauthz.explain.answer import Step
from extauthz.explain.limits import Range
from extauthz.explain.objects import condition, moment, told

from .decider import Values, Wanted, panic_s, wanted
from .rules import Rules
from .scene import Scene

RETRIED_S: Final = 1100.0
"""After a failure Knative tries again within 1,000 s at most, so an older refusal is over."""


@dataclass(frozen=True, slots=True)
class Answer(common.Answer):
    """With what Knative's own autoscaler knows beside."""

    scale: int = -1
    """``status.desiredScale`` then; -1: none."""
    values: Values | None = None
    wanted: int = 0
    """Before the bounds."""


def decide(scene: Scene, values: Values | None) -> Answer:
    """The autoscaler's next decision with these values, or what its status tells of the last one."""
    found = _backwards(scene) if values is None else _forwards(scene, values)
    return replace(found, steps=(*said.of(scene.autoscaler, said.KNATIVE), *found.steps))


def _forwards(scene: Scene, values: Values) -> Answer:
    rules = scene.rules
    found = wanted(rules, values, scene.ready, scene.memory)
    sure = rules.config_known and scene.ready_known
    own = found.counts
    limits = _limits(scene)
    bounded = Range(*map(limits.apply, own))
    ends = [_applied(scene, count) for count in bounded]
    last = ends[1]
    steps = [
        _metric(rules, values, found, certain=rules.config_known),
        *_rates(rules, found, scene.ready, certain=sure),
        _panic(scene, values, found, certain=sure and own.certain),
        _bounds(rules, limits, own.guess, bounded, certain=sure and limits.certain and bounded.certain),
    ]
    certain = sure and limits.certain and all(one.certain and one[:2] == last[:2] for one in ends)
    if last.why or last.text:
        steps.append(Step("zero", last.text, last.replicas, certain))
    outcome = _outcome(scene, found, own.guess, bounded.guess, last)
    left_s = last.left_s
    if left_s is not None and not own.certain:
        # What it remembers may keep one until it is forgotten; only then does the way to zero begin.
        left_s = max(left_s, panic_s(values, rules) + rules.delay_s + _longest(rules))
    return Answer(
        current=scene.replicas,
        desired=last.replicas,
        outcome=outcome,
        certain=certain,
        steps=tuple(steps),
        note=last.text,
        left_s=left_s,
        scale=last.scale,
        values=values,
        wanted=own.guess,
    )


def _outcome(scene: Scene, found: Wanted, own: int, bounded: int, last: _Outcome) -> str:
    if last.replicas != scene.replicas:
        return "scales-up" if last.replicas > scene.replicas else "scales-down"
    if last.why and (scene.replicas > 0 or last.why != "zero-waits"):
        return last.why
    if bounded != own:
        return "max-scale" if bounded < own else "min-scale"
    by_metric = max(found.by_stable, found.by_panic) if found.over else found.by_stable
    if own > found.limited:
        return "remembered"
    if found.limited < by_metric:
        return "up-rate"
    if found.limited > by_metric:
        return "activation-scale" if found.activated else "down-rate"
    return "idle" if bounded == 0 else "on-target"


def _backwards(scene: Scene) -> Answer:
    """From the status: the values are known to the autoscaler only."""
    replicas, scale = scene.replicas, scene.scale
    if scale < 0:
        failing = condition(scene.objects.one("Metric", scene.namespace, scene.name) or {}, "Ready")
        own = failing if failing.get("status") not in (None, "True") else condition(scene.autoscaler, "Ready")
        note = told(own)
        text = "the autoscaler has not decided: it has no metrics" + (f" ({note})" if note else "")
        step = Step("status", text, replicas, certain=False)
        return Answer(replicas, replicas, "no-metrics", False, (step,), note=note)
    steps = [_status(scene)]
    last = scene.last_refusal
    if last is not None and last.replicas > replicas and scene.now - last.at < RETRIED_S:
        steps.insert(0, Step("write", f"its write was refused: {last.text}", replicas, certain=False))
        return Answer(replicas, last.replicas, "refused", False, tuple(steps), note=last.text, scale=scale)
    if scale == 0 and replicas > 0:
        last_step = _applied(scene, 0)
        steps.append(Step("zero", last_step.text, last_step.replicas, certain=False))
        outcome = "scales-down" if last_step.replicas < replicas else "zero-waits"
        answer = Answer(replicas, last_step.replicas, outcome, False, tuple(steps), note=last_step.text)
        return replace(answer, left_s=last_step.left_s, scale=last_step.scale)
    limits = _limits(scene)
    steps.append(_bounds(scene.rules, limits, scale, Range(scale, scale, scale), certain=False))
    if scale != replicas:
        outcome = "scales-up" if scale > replicas else "scales-down"
    elif limits.most and scale >= limits.most:
        outcome = "max-scale"
    elif limits.least and scale <= limits.least:
        outcome = "min-scale"
    else:
        outcome = "idle" if scale == 0 else "on-target"
    return Answer(replicas, scale, outcome, False, tuple(steps), scale=scale)


# What becomes of a count that it asks for: minimum, maximum, and the way to zero, in the order of
# ``pkg/reconciler/autoscaling/kpa/scaler.go`` of knative.dev/serving.


class _Bounds(NamedTuple):
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


class _Outcome(NamedTuple):
    """What is written."""

    scale: int
    """``status.desiredScale`` then."""
    replicas: int
    why: str
    """A reason word if zero was asked for; else empty."""
    text: str
    certain: bool
    left_s: float | None = None
    """The longest until it is at zero, or ``None``."""


def _limits(scene: Scene) -> _Bounds:
    """Minimum and maximum of now."""
    rules = scene.rules
    if rules.initial <= 1 or scene.initialized or rules.initial <= rules.least:
        return _Bounds(rules.least, rules.most, "", certain=True)
    note = "initial-scale, until it has had that once"
    if scene.ready >= rules.initial:
        # It has that now; it is marked so when it is next looked at, and then min-scale counts.
        return _Bounds(rules.least, rules.most, "", certain=False)
    if rules.reachable:
        return _Bounds(rules.initial, rules.most, note, certain=True)
    # Older releases start what no route reaches at its initial scale, too.
    return _Bounds(rules.least, rules.most, "", certain=False)


def _applied(scene: Scene, count: int) -> _Outcome:
    """What comes of a count within the bounds."""
    if count > 0:
        return _Outcome(count, count, "", "", certain=True)
    if not scene.rules.to_zero:
        text = "enable-scale-to-zero is false in config-autoscaler, so one stays"
        return _Outcome(1, 1, "zero-disabled", text, certain=True)
    status = condition(scene.autoscaler, "Active").get("status", "Unknown")
    if status == "Unknown":
        return _activating(scene)
    return _active(scene) if status == "True" else _inactive(scene)


def _activating(scene: Scene) -> _Outcome:
    """It has been started and has not been ready yet."""
    since = _since(scene)
    limit = scene.rules.activation_within_s
    if since is not None and since > limit:
        text = f"it has not become ready within {limit:g} s, so it goes to zero"
        return _Outcome(0, 0, "timed-out", text, certain=True)
    text = f"it is being started, and is given {limit:g} s for that"
    left_s = None if since is None else limit - since
    return _Outcome(scene.scale, scene.replicas, "activating", text, since is not None, left_s)


def _active(scene: Scene) -> _Outcome:
    """It must have been active for a stable window; then it is first called inactive."""
    since, window = _since(scene), scene.rules.stable_window_s
    longest = _longest(scene.rules)
    if since is not None and since >= window:
        text = f"nothing asks for it, so it is marked inactive; it goes to zero at most {longest:g} s later"
        return _Outcome(0, scene.replicas, "zero-waits", text, True, longest)
    left = "" if since is None else f", {window - since:.0f} s from now"
    text = f"nothing asks for it, but it became active less than {window:g} s ago (its stable window){left}; one stays"
    return _Outcome(1, 1, "zero-waits", text, since is not None, None if since is None else window - since + longest)


def _inactive(scene: Scene) -> _Outcome:
    """The activator must be in the path for the grace period, and the last pod is kept as long as is asked."""
    since, rules = _since(scene), scene.rules
    sure = since is not None and rules.burst == -1
    left_s = None if since is None else _longest(rules) - since
    since = 0.0 if since is None else since
    if since >= _longest(rules):
        text = f"nothing has asked for it for {since:.0f} s, so it goes to zero"
        return _Outcome(0, 0, "", text, certain=sure)
    if since < rules.retention_s:
        text = f"the last pod is kept for {rules.retention_s:g} s (scale-to-zero-pod-retention-period)"
        return _Outcome(0, scene.replicas, "zero-waits", text, True, left_s)
    service = scene.objects.one("ServerlessService", scene.namespace, scene.name)
    proxied = condition(service or {}, "ActivatorEndpointsPopulated")
    if proxied.get("status") == "True" and scene.now - moment(proxied["lastTransitionTime"]) >= rules.grace_s:
        text = f"requests have gone to the activator for {rules.grace_s:g} s, so it goes to zero"
        return _Outcome(0, 0, "", text, certain=sure)
    text = f"requests must go to the activator for {rules.grace_s:g} s first (scale-to-zero-grace-period)"
    return _Outcome(0, scene.replicas, "zero-waits", text, sure and bool(proxied), left_s)


def _longest(rules: Rules) -> float:
    """Seconds from inactive to zero, at most."""
    return max(rules.grace_s, rules.retention_s)


def _since(scene: Scene) -> float | None:
    """For how long it has been as it is."""
    time = at(condition(scene.autoscaler, "Active"), "lastTransitionTime")
    return None if time is None else scene.now - moment(time)


# The steps, in words.

_UNITS = {"concurrency": "requests at a time", "rps": "requests a second"}


def amount(value: float) -> str:
    """A value of a metric, as a person writes it."""
    return f"{value:.6g}"


def target(rules: Rules) -> str:
    """What each replica is aimed at."""
    part = rules.target / rules.total if rules.total else 1.0
    made = "" if part == 1.0 else f" ({amount(rules.total)} × {part * 100:.6g} %)"
    return f"the target is {amount(rules.target)} for each replica{made}"


def _metric(rules: Rules, values: Values, found: Wanted, *, certain: bool) -> Step:
    aim = amount(rules.target)
    text = (
        f"{rules.metric} is {amount(values.stable)} over the stable window ({rules.stable_window_s:g} s) and "
        f"{amount(values.panic)} over the panic window ({rules.panic_window_s:g} s); {target(rules)}: "
        f"⌈{amount(values.stable)} / {aim}⌉ = {found.by_stable} and ⌈{amount(values.panic)} / {aim}⌉ = {found.by_panic}"
    )
    if not rules.config_known:
        text += " (config-autoscaler is not among the objects, or has what is no number; defaults stand in)"
    return Step("metric", text, found.by_stable, certain)


def _rates(rules: Rules, found: Wanted, ready: int, *, certain: bool) -> list[Step]:
    """What one step may be at most, and activation-scale."""
    steps = []
    both = (found.by_stable, found.by_panic)
    if max(both) > found.ceiling or min(both) < found.floor:
        text = (
            f"with {ready} ready, max-scale-up-rate {rules.up_rate:g} allows at most {found.ceiling}, and "
            f"max-scale-down-rate {rules.down_rate:g} at least {found.floor}"
        )
        held = min(max(found.by_stable, found.floor), found.ceiling)
        steps.append(Step("rates", text, held, certain))
    if found.activated:
        text = f"activation-scale makes at least {rules.activation} of what is not 0"
        steps.append(Step("activation-scale", text, rules.activation, certain))
    return steps


def _panic(scene: Scene, values: Values, found: Wanted, *, certain: bool) -> Step:
    """Panic mode, and the counts that it keeps."""
    rules, pods = scene.rules, max(1, scene.ready)
    ratio = f"{found.by_panic} / {pods} ready = {amount(found.by_panic / pods)}"
    below = f"{ratio} is below the panic threshold of {rules.panic_threshold:g}"
    if found.over:
        text = below.replace("below", "at least") + ": panic mode, which never scales down"
    elif values.panics is not None:
        text = below + (", but it is still in panic mode" if values.panics else ", and it is not in panic mode")
    elif certain:
        text = below
    else:
        text = f"{below}; whether it is still in panic mode only the autoscaler knows (--at panic-mode=0 or 1)"
    if rules.delay_s:
        text += f"; the largest count of the last {rules.delay_s:g} s stays (scale-down-delay)"
    if not certain and found.counts.high > found.counts.low:
        most = "any number" if found.counts.high == INT32 else str(found.counts.high)
        text += f"; what it remembers may make it {found.counts.low} to {most}"
    return Step("panic", text, found.counts.guess, certain)


def _bounds(rules: Rules, limits: _Bounds, wanted: int, found: Range, *, certain: bool) -> Step:
    most = str(limits.most) if limits.most else "none"
    within = f"min-scale {rules.least}, max-scale {most}"
    if limits.note:
        within = f"{limits.least} at least ({limits.note}), max-scale {most}"
    if found.guess == wanted:
        return Step("bounds", f"{wanted} is within the bounds ({within})", wanted, certain)
    return Step("bounds", f"the bounds make {found.guess} of {wanted} ({within})", found.guess, certain)


def _status(scene: Scene) -> Step:
    """What its last decision tells of its metric."""
    rules, scale = scene.rules, scene.scale
    if scale == 0:
        return Step("status", f"{rules.metric} is 0, by its status (desiredScale 0)", 0, certain=False)
    least, most = amount(rules.target * (scale - 1)), amount(rules.target * scale)
    unit = _UNITS[rules.metric]
    if rules.most and scale >= rules.most:
        means = f"more than {least} {unit}"
    elif scale <= rules.least:
        means = f"at most {most} {unit}"
    else:
        means = f"more than {least} and at most {most} {unit}, if panic mode, rates and delay change nothing"
    text = (
        f"what it measures is known to the autoscaler only (--at {rules.metric}=N); its status says desiredScale "
        f"{scale}, and {target(rules)}: that is {means}"
    )
    return Step("status", text, scale, certain=False)
