"""The next count of a PodAutoscaler, taken as Knative's autoscaler takes it; or, if nobody gives the values of its
metric, what can be concluded from its status."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from extauthz.explain.answer import Step
from extauthz.explain.limits import Range
from extauthz.explain.objects import condition

from . import scaler, words
from .decider import Values, Wanted, wanted
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
        words.metric(rules, values, found, certain=rules.config_known),
        *words.rates(rules, found, scene.ready, certain=sure),
        words.panic(scene, values, found, certain=sure and own.certain),
        words.bounds(rules, limits, own.guess, bounded, certain=sure and limits.certain and bounded.certain),
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
        step = Step("status", words.no_metrics(note), replicas, certain=False)
        return Answer(replicas, replicas, scale, "no-metrics", False, (step,), None, note)
    steps = [words.status(scene)]
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
    steps.append(words.bounds(scene.rules, limits, scale, Range(scale, scale, scale), certain=False))
    if scale != replicas:
        outcome = "scales-up" if scale > replicas else "scales-down"
    elif limits.most and scale >= limits.most:
        outcome = "max-scale"
    elif limits.least and scale <= limits.least:
        outcome = "min-scale"
    else:
        outcome = "idle" if scale == 0 else "on-target"
    return Answer(replicas, scale, scale, outcome, False, tuple(steps), None)
