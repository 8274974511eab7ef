"""The next count of a PodAutoscaler, step by step, taken as Knative's autoscaler takes it; or, if nobody gives the
values of its metric, what can be concluded from its status."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from extauthz.explain.answer import Step
from extauthz.explain.limits import Range
from extauthz.explain.objects import condition

from . import scaler
from .decider import Values, Wanted, wanted
from .rules import INT32, Rules
from .scene import Scene

RETRIED_S: Final = 1100.0
"""After a failure Knative tries again within 1,000 s at most, so an older refusal is over."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the autoscaler does next, and why."""

    current: int
    desired: int
    """Replicas."""
    scale: int
    """``status.desiredScale`` then; -1: none."""
    outcome: str
    """A stable word: see docs/explain.md."""
    certain: bool
    steps: tuple[Step, ...]
    values: Values | None
    note: str = ""
    """For the sentence, where the outcome needs one."""
    wanted: int = 0
    """Before the bounds."""


def decide(scene: Scene, values: Values | None) -> Answer:
    """The autoscaler's next decision with these values, or what its status tells of the last one."""
    if values is None:
        return _backwards(scene)
    rules = scene.rules
    found = wanted(rules, values, scene.ready, scene.memory)
    sure = rules.config_known and scene.ready_known
    own = found.counts
    limits = scaler.bounds(scene)
    bounded = Range(*map(limits.apply, own))
    ends = [scaler.applied(scene, count) for count in bounded]
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
    return Answer(
        scene.replicas, last.replicas, last.scale, outcome, certain, tuple(steps), values, last.text, own.guess
    )


def _outcome(scene: Scene, found: Wanted, own: int, bounded: int, last: scaler.Outcome) -> str:
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
        said = failing if failing.get("status") not in (None, "True") else condition(scene.autoscaler, "Ready")
        note = ": ".join(str(said[key]) for key in ("reason", "message") if said.get(key))
        step = Step("status", _no_metrics(note), replicas, certain=False)
        return Answer(replicas, replicas, scale, "no-metrics", False, (step,), None, note)
    steps = [_status(scene)]
    last = scene.refused[-1] if scene.refused else None
    if last is not None and last.replicas > replicas and scene.now - last.at < RETRIED_S:
        steps.append(Step("write", f"its write was refused: {last.text}", replicas, certain=False))
        return Answer(replicas, last.replicas, scale, "refused", False, tuple(steps), None, last.text)
    if scale == 0 and replicas > 0:
        last_step = scaler.applied(scene, 0)
        steps.append(Step("zero", last_step.text, last_step.replicas, certain=False))
        end = last_step.replicas
        outcome = "scales-down" if end < replicas else "zero-waits"
        return Answer(replicas, end, last_step.scale, outcome, False, tuple(steps), None, last_step.text)
    limits = scaler.bounds(scene)
    steps.append(_bounds(scene.rules, limits, scale, Range(scale, scale, scale), certain=False))
    if scale != replicas:
        outcome = "scales-up" if scale > replicas else "scales-down"
    elif limits.most and scale >= limits.most:
        outcome = "max-scale"
    elif limits.least and scale <= limits.least:
        outcome = "min-scale"
    else:
        outcome = "idle" if scale == 0 else "on-target"
    return Answer(replicas, scale, scale, outcome, False, tuple(steps), None)


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
    """Both windows against the target."""
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
    if found.over:
        text = (
            f"{ratio} is at least the panic threshold of {rules.panic_threshold:g}: panic mode, which never scales down"
        )
    elif values.panics:
        text = f"{ratio} is below the panic threshold of {rules.panic_threshold:g}, but it is still in panic mode"
    elif values.panics is False:
        text = f"{ratio} is below the panic threshold of {rules.panic_threshold:g}, and it is not in panic mode"
    else:
        text = (
            f"{ratio} is below the panic threshold of {rules.panic_threshold:g}; whether it is still in panic mode "
            f"only the autoscaler knows (--at panic-mode=0 or 1)"
        )
        text = text if not certain else f"{ratio} is below the panic threshold of {rules.panic_threshold:g}"
    if rules.delay_s:
        text += f"; the largest count of the last {rules.delay_s:g} s stays (scale-down-delay)"
    if not certain and found.counts.high > found.counts.low:
        most = "any number" if found.counts.high == INT32 else str(found.counts.high)
        text += f"; what it remembers may make it {found.counts.low} to {most}"
    return Step("panic", text, found.counts.guess, certain)


def _bounds(rules: Rules, limits: scaler.Bounds, wanted: int, found: Range, *, certain: bool) -> Step:
    """Minimum and maximum."""
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


def _no_metrics(note: str) -> str:
    """It has not decided yet."""
    return "the autoscaler has not decided: it has no metrics" + (f" ({note})" if note else "")
