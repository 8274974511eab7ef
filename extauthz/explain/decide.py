"""An HPA's next count, taken as its controller takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from extauthz.core.model import Tree
from extauthz.core.objects.fields import at

from . import answer, limits, metrics, said, specs, target
from .answer import Answer, Proposal, Step
from .limits import Range
from .objects import ExplainError, Flags, Objects, as_float, condition, namespace_of
from .specs import Metric, Scene, Tolerances

NOTHING: Final[Mapping[str, int]] = {}


def scene_of(objects: Objects, hpa: Tree, flags: Flags, now: float) -> Scene:
    """What there is to see.

    Raises:
        ExplainError: what the HPA scales is not among the objects.
    """
    scaled = target.required(objects, hpa, "hpa")
    listed = objects.of("Pod", namespace_of(hpa))
    pods = tuple(pod for pod in listed if scaled.selector.matches(pod["metadata"].get("labels") or {}))
    return Scene(objects, hpa, scaled, flags, tolerances(hpa, flags), now, pods)


def tolerances(hpa: Tree, flags: Flags) -> Tolerances:
    """The HPA's own fields win over the flag."""
    down, up = (at(hpa, "spec", "behavior", way, "tolerance") for way in ("scaleDown", "scaleUp"))
    return Tolerances(
        flags.tolerance if down is None else as_float(down), flags.tolerance if up is None else as_float(up)
    )


def decide(scene: Scene, values: Mapping[str, int] = NOTHING) -> Answer:
    """The controller's next decision. ``values`` stand in for those of metrics, by name.

    Raises:
        ExplainError: what it depends on is not among the objects.
    """
    found = _decided(scene, values)
    found = replace(found, steps=(*said.of(scene.hpa, said.HPA), *found.steps))
    if scene.target.is_exact:
        return found
    text = f"neither the scale of {scene.target.kind} {scene.target.name} nor its definition is among the objects"
    step = Step("target", f"{text}, so its count and its pods are guessed", None, certain=False)
    return replace(found, certain=False, steps=(step, *found.steps))


def _decided(scene: Scene, values: Mapping[str, int]) -> Answer:
    current = scene.target.asked
    rule = limits.rules(scene.hpa, scene.flags)
    if early := _without_metrics(scene, rule, current):
        return early
    if fault := _selector_fault(scene):
        return _stays(current, "failed", fault)
    proposals = tuple(_proposal(scene, one, current, values) for one in specs.of_hpa(scene.hpa))
    steps = [answer.metric(one, scene, current) for one in proposals]
    wanted, certain, combined = _combined(proposals, current)
    steps += combined
    if wanted is None:
        return Answer(current, current, "failed", certain, tuple(steps), proposals)
    return _after_metrics(scene, rule, wanted, certain, steps, proposals)


def _after_metrics(
    scene: Scene, rule: limits.Rules, wanted: int, certain: bool, steps: list[Step], proposals: tuple[Proposal, ...]
) -> Answer:
    current = scene.target.asked
    remembered = limits.of_status(scene.hpa, current, scene.now)
    window = limits.stabilized(rule, remembered, wanted, current)
    bounds = [limits.limited(rule, remembered, one, current) for one in window]
    desired = Range(bounds[0][0].low, bounds[1][0].guess, bounds[2][0].high)
    reason = bounds[1][1]
    if current == 0 and rule.least > 0 and desired.guess < rule.least:
        desired = Range(rule.least, rule.least, max(rule.least, desired.high))
    steps.append(answer.window(window, wanted, current, rule, certain=certain))
    steps.append(answer.bounds(window.guess, desired, reason, rule, certain=certain and window.certain))
    outcome = _switched_off(rule, wanted, current) or _outcome(
        proposals, wanted, window.guess, desired.guess, current, reason
    )
    return Answer(current, desired.guess, outcome, certain and desired.certain, tuple(steps), proposals)


def _switched_off(rule: limits.Rules, wanted: int, current: int) -> str:
    """Where a policy forbids the way that the metrics ask for: no window ends that."""
    way, rules = ("down", rule.down) if wanted < current else ("up", rule.up)
    return f"{way}-off" if wanted != current and rules and rules["selectPolicy"] == "Disabled" else ""


def _outcome(proposals: Sequence[Proposal], wanted: int, window: int, desired: int, current: int, reason: str) -> str:
    if desired != current:
        return "scales-up" if desired > current else "scales-down"
    if window != wanted and window == current:
        return "stabilized"
    if reason:
        return answer.CODES[reason]
    results = [one.result for one in proposals if one.result is not None]
    if any(one.why == "turned" for one in results):
        return "pods-not-counted"
    return "tolerance" if any(one.why == "tolerance" and one.ratio != 1.0 for one in results) else "on-target"


def _without_metrics(scene: Scene, rule: limits.Rules, current: int) -> Answer | None:
    """Where the count alone decides, before any metric is read."""
    if current == 0:
        return _at_zero(scene, rule)
    if current > rule.most:
        text = f"{current} is more than maxReplicas {rule.most}; no metric is read"
        return Answer(current, rule.most, "above-max", True, (Step("bounds", text, rule.most, certain=True),))
    if current < rule.least:
        text = f"{current} is less than minReplicas {rule.least}; no metric is read"
        return Answer(current, rule.least, "below-min", True, (Step("bounds", text, rule.least, certain=True),))
    return None


def _at_zero(scene: Scene, rule: limits.Rules) -> Answer | None:
    """``None``: the controller has taken it there itself, so metrics are read. Since 1.36 the condition ScaledToZero
    says so; 1.34 and 1.35 (HPAScaleToZero) read metrics at zero wherever ``minReplicas`` is 0."""
    active = condition(scene.hpa, "ScalingActive")
    was_scaled = condition(scene.hpa, "ScaledToZero").get("status") == "True"
    outer = any(one["type"] in ("Object", "External") for one in scene.hpa["spec"].get("metrics") or [])
    if was_scaled and (rule.least != 0 or outer):
        return None
    if rule.least == 0 and outer and active.get("status") == "True" and not at(scene.hpa, "status", "currentReplicas"):
        return None
    text = "the count is 0, and the HPA leaves it at that: somebody has turned it off"
    certain = rule.least != 0 or active.get("reason") == "ScalingDisabled"
    return _stays(0, "disabled", Step("zero", text, 0, certain))


def _stays(current: int, outcome: str, step: Step) -> Answer:
    return Answer(current, current, outcome, step.certain, (step,))


def _selector_fault(scene: Scene) -> Step | None:
    """Where the controller does not take the pods for those of this HPA."""
    current = scene.target.asked
    if scene.target.selector.selects_all:
        text = "its scale has no selector, so the controller does not know its pods"
        return Step("selector", text, current, certain=scene.target.is_exact)
    if other := _other_hpa(scene):
        text = f"its pods are also those of hpa/{other} (AmbiguousSelector)"
        return Step("selector", text, current, certain=True)
    active = condition(scene.hpa, "ScalingActive")
    if active.get("status") == "False" and active.get("reason") in ("AmbiguousSelector", "InvalidSelector"):
        text = f"{active['reason']}, when the HPA last looked: {active.get('message', '')}"
        return Step("selector", text, current, certain=False)
    return None


def _other_hpa(scene: Scene) -> str:
    """Its name, if another one has the same pods."""
    ours = [pod["metadata"].get("labels") or {} for pod in scene.pods]
    for hpa in scene.objects.of("HorizontalPodAutoscaler", scene.namespace):
        if hpa["metadata"]["name"] == scene.hpa["metadata"]["name"]:
            continue
        try:
            selector = target.required(scene.objects, hpa, "hpa").selector
        except ExplainError:
            continue
        if not selector.selects_all and any(map(selector.matches, ours)):
            return str(hpa["metadata"]["name"])
    return ""


def _proposal(scene: Scene, metric: Metric, current: int, values: Mapping[str, int]) -> Proposal:
    try:
        known = metrics.known(scene, metric)
        result = known.result(current, scene.band, values.get(metric.said))
    except specs.UnknownError:
        raise
    except ExplainError as error:
        return Proposal(metric, None, None, str(error), certain=not isinstance(error, specs.UnsureError))
    in_band = known.certain_in_band and scene.band.holds(result.ratio)
    return Proposal(metric, known, result, "", known.certain or in_band)


def _combined(proposals: Sequence[Proposal], current: int) -> tuple[int | None, bool, list[Step]]:
    """The largest wins. One that fails keeps the others from scaling down."""
    counts = [one.result.replicas for one in proposals if one.result is not None]
    failed = len(proposals) - len(counts)
    certain = all(one.certain for one in proposals)
    if not counts:
        return None, certain, [Step("several-metrics", "no metric can be used, so the count stays", current, certain)]
    wanted = max(counts)
    if failed and wanted < current:
        text = f"the others ask for {wanted}, but a metric that fails keeps the HPA from scaling down"
        return None, certain, [Step("several-metrics", text, current, certain)]
    if len(proposals) == 1:
        return wanted, certain, []
    return wanted, certain, [Step("several-metrics", f"the largest of {len(counts)} wins", wanted, certain)]


def at_tolerance(scene: Scene, up: float) -> Scene:
    """With another tolerance for the way up."""
    return replace(scene, band=scene.band._replace(up=up))
