"""The answer in one sentence."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from extauthz.core.model import Tree
from extauthz.core.objects.fields import at

from . import refused, remedies
from .answer import Answer, Change, Proposal, amount, least, percent, replicas
from .answer import sentence as said
from .decide import at_tolerance, decide
from .pods import SUCCEEDED
from .specs import Scene

REASONS: Final = {
    "stabilized": "its stabilization window keeps it there",
    "max-replicas": "its metrics ask for more, and maxReplicas does not allow it",
    "min-replicas": "its metrics ask for less, and minReplicas does not allow it",
    "up-policies": "its metrics ask for more, and the policies for scaling up do not allow it now",
    "down-policies": "its metrics ask for less, and the policies for scaling down do not allow it now",
    "up-off": "its metrics ask for more, and scaling up is switched off (behavior.scaleUp.selectPolicy: Disabled)",
    "down-off": "its metrics ask for less, and scaling down is switched off "
    "(behavior.scaleDown.selectPolicy: Disabled)",
    "on-target": "that is what its metrics ask for",
    "disabled": "a count of 0 turns it off",
    "pods-not-counted": "with the pods that are unready or have no metric, its metrics ask for no more",
}
HOLDS: Final = frozenset(REASONS) - {"on-target"} | {"tolerance", "failed", refused.OUTCOME}
"""Outcomes in which something keeps an HPA from a count that its metrics, or its owner, may want."""


def sentence(scene: Scene, answer: Answer, changes: Sequence[Change]) -> str:
    name = f"hpa/{scene.hpa['metadata']['name']}"
    if answer.outcome == refused.OUTCOME:
        asks = f"asks for {answer.desired}" if answer.desired > answer.current else "asked for more when it last looked"
        answer, why = replace(answer, desired=answer.current), f"it {asks}, and is refused: {answer.steps[0].text}"
    elif answer.desired != answer.current:
        why = _why_it_moves(answer)
    elif answer.outcome == "failed":
        why = f"{answer.steps[-1].text}; {_first_error(answer.proposals)}".rstrip("; ")
    elif answer.outcome == "tolerance":
        why = _tolerance(scene, answer, changes)
    else:
        why = REASONS[answer.outcome]
    return said(name, answer, why)


def _first_error(proposals: Sequence[Proposal]) -> str:
    return next((f"{one.metric.said}: {one.error}" for one in proposals if one.error), "")


def _why_it_moves(answer: Answer) -> str:
    if not answer.proposals:
        return answer.steps[-1].text
    found = [one for one in answer.proposals if one.result is not None]
    most = max(found, key=lambda one: one.result.replicas if one.result else 0)
    assert most.result is not None
    value = f"{most.metric.said} is {amount(most.metric, most.result.value)}, {_against(most)}"
    if most.result.why == "tolerance":
        return f"its status has {replicas(most.result.replicas)}, and these are enough ({value})"
    return value


def _against(one: Proposal) -> str:
    return f"the target is {amount(one.metric, one.metric.target)}"


def _tolerance(scene: Scene, answer: Answer, changes: Sequence[Change]) -> str:
    inside = [one for one in answer.proposals if one.result is not None and one.result.why == "tolerance"]
    most = max(inside, key=lambda one: one.result.ratio if one.result else 0.0)
    assert most.result is not None
    ratio = most.result.again[1] if most.result.again else most.result.ratio
    band = scene.band.up if ratio > 1.0 else scene.band.down
    acts = next((f"; it acts at {each.value}" for each in changes if each.kind == "metric"), "")
    value = amount(most.metric, most.result.value)
    within = f"that is within the tolerance of {percent(band)}"
    return f"{most.metric.said} is {value}, {_against(most)}, and {within}{acts}"


def changes(scene: Scene, answer: Answer) -> list[Change]:
    """All that would do, each by itself. Where a quota refuses, nothing else does."""
    if answer.outcome == refused.OUTCOME:
        return remedies.of_quota(answer.steps[0].text, max(answer.desired, answer.current + 1))
    return remedies.in_terms_of_keda(scene.hpa, scene.objects, _changes(scene, answer))


def _changes(scene: Scene, answer: Answer) -> list[Change]:
    wanted = max(answer.current, answer.desired) + 1
    if finished := list(_finished(scene, wanted)):
        return finished
    found = [*_of_the_hpa(scene, wanted)]
    for one in answer.proposals:
        if one.result is not None:
            found += [*_value(scene, one, wanted), *_target(scene, one, wanted), *_other_tolerance(scene, one, wanted)]
    if answer.outcome == "tolerance":
        text = f"one more metric that asks for {wanted}, as the largest count of all metrics wins: {wanted} replicas"
        found.append(Change("another-metric", text, str(wanted), wanted))
    order = ("metric", "target", "tolerance", "another-metric", "max-replicas", "window", "policies")
    return sorted(found, key=lambda each: order.index(each.kind))


def _finished(scene: Scene, wanted: int) -> Iterator[Change]:
    """Pods that have finished count as pods without a metric."""
    left = tuple(pod for pod in scene.pods if at(pod, "status", "phase") != SUCCEEDED)
    gone = len(scene.pods) - len(left)
    if gone and (after := decide(replace(scene, pods=left)).desired) >= wanted:
        text = f"delete the {gone} pods that have finished: {after} replicas"
        yield Change("finished-pods", text, str(gone), after)


def _value(scene: Scene, one: Proposal, wanted: int) -> Iterator[Change]:
    assert one.result is not None
    name, now = one.metric.said, one.result.value

    def does(value: int) -> bool:
        return decide(scene, {name: value}).desired >= wanted

    if (found := least(does, max(now, 1))) is None:
        return
    after = decide(scene, {name: found}).desired
    shown, before = amount(one.metric, found), amount(one.metric, now)
    how = "" if one.metric.type in ("Resource", "ContainerResource") else ", or a query that gives that"
    yield Change("metric", f"{name} at {shown} (it is {before}){how}: {after} replicas", shown, after)


def _target(scene: Scene, one: Proposal, wanted: int) -> Iterator[Change]:
    metric = one.metric

    def aimed(target: int) -> Scene:
        hpa = copy.deepcopy(scene.hpa)
        if not hpa["spec"].get("metrics"):
            return scene
        aim = hpa["spec"]["metrics"][metric.number][metric.field]["target"]
        if metric.measure == "Utilization":
            aim["averageUtilization"] = target
        else:
            aim[metric.measure[0].lower() + metric.measure[1:]] = f"{target}m"
        return replace(scene, hpa=hpa)

    def does(lowered: int) -> bool:
        return lowered >= metric.target or decide(aimed(metric.target - lowered)).desired >= wanted

    if (lowered := least(does)) is None or lowered >= metric.target:
        return
    target = metric.target - lowered
    after = decide(aimed(target)).desired
    shown = amount(metric, target)
    yield Change("target", f"a target of {shown} for {metric.said}: {after} replicas", shown, after)


def _other_tolerance(scene: Scene, one: Proposal, wanted: int) -> Iterator[Change]:
    """The largest with at most two places, if there is one, that lets the ratio through."""
    assert one.result is not None
    ratio = one.result.again[1] if one.result.again else one.result.ratio
    if not 1.0 < ratio <= 1.0 + scene.band.up:
        return
    for places in (100, 1000, 10000):
        up = (math.ceil((ratio - 1.0) * places - 1e-9) - 1) / places
        after = decide(at_tolerance(scene, up)).desired
        if up >= 0 and after >= wanted:
            text = f"behavior.scaleUp.tolerance: {up:g} (Kubernetes 1.35 or later): {after} replicas"
            yield Change("tolerance", text, f"{up:g}", after)
            return


def _of_the_hpa(scene: Scene, wanted: int) -> Iterator[Change]:
    """Its own fields, one at a time."""

    def tried(change: Callable[[Tree], None]) -> int:
        hpa = copy.deepcopy(scene.hpa)
        change(hpa["spec"])
        return decide(replace(scene, hpa=hpa)).desired

    if (after := tried(lambda spec: spec.update(maxReplicas=wanted))) >= wanted:
        yield Change("max-replicas", f"maxReplicas: {wanted}: {after} replicas", str(wanted), after)
    if not (rules := (scene.hpa["spec"].get("behavior") or {}).get("scaleUp")):
        return
    window = rules.get("stabilizationWindowSeconds")
    if (
        window
        and (after := tried(lambda spec: spec["behavior"]["scaleUp"].update(stabilizationWindowSeconds=0))) >= wanted
    ):
        text = f"the window of {window} s for scaling up (stabilizationWindowSeconds) at 0: {after} replicas"
        yield Change("window", text, "0", after)
    open_rules = {
        "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": wanted - scene.target.asked, "periodSeconds": 15}],
    }
    if (after := tried(lambda spec: spec["behavior"]["scaleUp"].update(open_rules))) >= wanted:
        yield Change("policies", f"policies for scaling up that allow a larger step: {after} replicas", "", after)
