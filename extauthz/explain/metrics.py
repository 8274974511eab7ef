"""What is known of a metric: its value, as metrics servers say, or else the HPA's own status; and what it asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from extauthz.core.model import Tree
from extauthz.core.objects.fields import at
from extauthz.core.quota.selector_text import labelled
from extauthz.core.quota.selectors import LabelSelector

from . import pods as podlist
from .objects import POD_METRICS, ExplainError, condition, milli, moment, namespace_of, seconds
from .pods import Sample
from .specs import (
    Goal,
    Metric,
    Pool,
    Result,
    Scene,
    Tolerances,
    UnknownError,
    UnsureError,
    of_hpa,
    of_pool,
    of_share,
    of_total,
)
from .target import Target


class Known(NamedTuple):
    """A metric with a value: what it asks for."""

    result: Callable[[int, Tolerances, int | None], Result]
    """Of the current count and a band; and if the value were another."""
    value: int
    certain: bool
    """True if the pods and the value are known, not guessed."""
    note: str
    """How the pods count."""
    pods: int | None = None
    """Of pods that the ceiling multiplies."""
    certain_in_band: bool = True
    """Unready pods, and pods without a metric, bring a ratio nearer to 1 or past it: neither leaves the band."""
    of_status: bool = False
    """The value is the one that the HPA saw when it last looked."""


def known(scene: Scene, metric: Metric) -> Known:
    """What is known of a metric.

    Raises:
        ExplainError: the controller cannot use it, or its value is not among the objects.
    """
    if metric.type in ("Resource", "ContainerResource", "Pods"):
        return _of_pods(scene, metric)
    return _of_one_value(scene, metric)


# Metrics of pods


def _of_pods(scene: Scene, metric: Metric) -> Known:
    pods = scene.pods
    samples = _samples(scene, metric)
    no_pods_given = not scene.objects.of("Pod", scene.namespace) and scene.target.observed > 0
    if samples is None or no_pods_given:
        return _from_status(scene, metric, pods)
    if not pods:
        raise ExplainError("no pods match its selector")
    groups, settled = podlist.grouped(pods, samples, metric.resource, scene.flags, scene.now)
    kept = {name: one for name, one in samples.items() if name not in groups.ignored | groups.unready}
    if not kept:
        raise ExplainError("there are no metrics of pods that count (they may be unready)")
    asked = {pod["metadata"]["name"]: 0 for pod in pods}
    if metric.measure == "Utilization":
        asked = podlist.requests(pods, metric.container, metric.resource)
        counted = {name: one for name, one in kept.items() if name in asked}
        total, requested = sum(one.value for one in counted.values()), sum(asked[name] for name in counted)
        if requested == 0:
            raise ExplainError("the pods that count request nothing")
    else:
        total, requested = sum(one.value for one in kept.values()), 0
    pool = Pool(
        ready=len(groups.ready),
        sampled=len(kept),
        total=total,
        requested=requested,
        missing=tuple(asked[name] for name in groups.missing),
        unready=tuple(asked[name] for name in groups.unready),
    )
    return _pooled(metric, pool, settled and not groups.finished, _said(groups), not groups.finished)


def _pooled(metric: Metric, pool: Pool, certain: bool, note: str, certain_in_band: bool = True) -> Known:
    goal = Goal(metric.target, metric.measure == "Utilization")

    def result(current: int, band: Tolerances, value: int | None) -> Result:
        total = pool.total if value is None else goal.total(value, pool.requested, pool.sampled)
        return of_pool(replace(pool, total=total), goal, current, band)

    value = goal.value(pool.total, pool.requested, pool.sampled)
    return Known(result, value, certain, note, pool.ready, certain_in_band)


def _said(groups: podlist.Groups) -> str:
    parts = [
        f"{len(groups.ready)} ready",
        *(f"{len(groups.unready)} unready" for _ in [0] if groups.unready),
        *(f"{len(groups.missing)} without a metric" for _ in [0] if groups.missing),
        *(f"{len(groups.ignored)} failed or ending" for _ in [0] if groups.ignored),
        *(f"{len(groups.finished)} of them have finished, which counts up to 1.37" for _ in [0] if groups.finished),
    ]
    return "pods: " + ", ".join(parts)


def _from_status(scene: Scene, metric: Metric, pods: Sequence[Tree]) -> Known:
    """From the HPA's own status: the average, but not of which pods. In the band that does not matter: pods that are
    unready or without a metric only ever bring a ratio nearer to 1, or past it."""
    current = _status_value(scene.hpa, metric)
    value = current.get("averageUtilization")
    if metric.measure != "Utilization":
        value = milli(current["averageValue"])
    if value is None:
        raise UnknownError(f"the HPA's status has no value of {metric.type} {metric.name}")
    guessed = {pod["metadata"]["name"]: Sample(0) for pod in pods}
    groups, _ = podlist.grouped(pods, guessed, metric.resource, scene.flags, scene.now)
    ready, unready = len(groups.ready), len(groups.unready)
    note = f"{_said(groups)}; of the HPA's status, so which of them have metrics is not known"
    if not pods:
        ready, unready = scene.target.asked, 0
        note = f"the pods are not among the objects; {ready} are taken as ready"
    count = max(ready, 1)
    pool = Pool(ready, count, value * count, 100 * count, unready=(100,) * unready)
    return _pooled(metric, pool, False, note)._replace(of_status=True)


# Metrics of an object, and external ones


def _of_one_value(scene: Scene, metric: Metric) -> Known:
    usage, exact = _usage(scene, metric)
    target = scene.target
    if metric.measure == "AverageValue":
        certain = exact or _same_at_both_ends(usage, metric.target, target.observed, scene.band)
        note = "" if exact else "of the HPA's status, which is rounded up"

        def share(_: int, band: Tolerances, value: int | None) -> Result:
            used = usage if value is None else value * target.observed
            return of_share(used, metric.target, target.observed, band)

        shown = -(-usage // target.observed) if target.observed else usage
        return Known(share, shown, certain, note, certain_in_band=False)
    pods = scene.pods
    ready = sum(map(podlist.is_ready, pods)) if pods else target.asked
    note = f"pods: {ready} ready" if pods else f"the pods are not among the objects; {ready} are taken as ready"

    def whole(current: int, band: Tolerances, value: int | None) -> Result:
        return of_total(usage if value is None else value, metric.target, current, ready, band)

    return Known(whole, usage, bool(pods), note, ready if target.asked else None)


def _same_at_both_ends(usage: int, target: int, observed: int, band: Tolerances) -> bool:
    """Whether all that the status may stand for gives one result: it shows the share of a pod, rounded up."""
    least = usage - observed + 1
    return of_share(least, target, observed, band).replicas == of_share(usage, target, observed, band).replicas


# Values: what metrics servers say, or else the HPA's own status


def _usage(scene: Scene, metric: Metric) -> tuple[int, bool]:
    values = _external(scene, metric) if metric.type == "External" else _described(scene, metric)
    _not_empty(scene, metric.name, values)
    if values:
        return sum(values), True
    current = _status_value(scene.hpa, metric)
    if metric.measure == "AverageValue":
        return milli(current["averageValue"]) * scene.target.observed, False
    return milli(current["value"]), True


def _external(scene: Scene, metric: Metric) -> list[int]:
    wanted = labelled(at(metric.spec, "metric", "selector"))
    named = [one for one in scene.objects.of("ExternalMetricValue") if one["metricName"] == metric.name]
    return [milli(one["value"]) for one in named if _may_be_selected(wanted, one.get("metricLabels") or {})]


def _may_be_selected(wanted: LabelSelector, labels: Mapping[str, str]) -> bool:
    """The API has filtered already, and an adapter need not repeat labels (KEDA's prints none)."""
    is_equal = all(labels.get(key, value) == value for key, value in wanted.match_labels)
    return is_equal and all(one.key not in labels or one.matches(labels) for one in wanted.requirements)


def _described(scene: Scene, metric: Metric) -> list[int]:
    ref = metric.spec["describedObject"]
    return [
        milli(one["value"])
        for one in _custom(scene, metric)
        if (one["describedObject"].get("kind"), one["describedObject"].get("name")) == (ref["kind"], ref["name"])
    ][:1]


def _samples(scene: Scene, metric: Metric) -> dict[str, Sample] | None:
    """By pod; ``None`` if no such answer is among the objects."""
    if metric.type == "Pods":
        of_pods = [one for one in _custom(scene, metric) if one["describedObject"].get("kind") == "Pod"]
        _not_empty(scene, metric.name, of_pods)
        return {one["describedObject"]["name"]: _custom_sample(one) for one in of_pods} or None
    listed = scene.objects.of(POD_METRICS, scene.namespace)
    _not_empty(scene, POD_METRICS, listed)
    if not listed:
        return None
    names = {pod["metadata"]["name"] for pod in scene.pods}
    chosen = [one for one in listed if _is_of(one, scene.target, names)]
    if not chosen:
        raise ExplainError("there are no metrics of its pods")
    found = ((one, _amount(one.get("containers") or [], metric)) for one in chosen)
    return {
        one["metadata"]["name"]: Sample(amount, moment(one["timestamp"]), seconds(one["window"]))
        for one, amount in found
        if amount is not None
    }


def _not_empty(scene: Scene, name: str, found: Sequence[object]) -> None:
    """Raises ExplainError if a metrics server was asked and had nothing: the metric fails."""
    if not found and name in scene.objects.asked:
        raise ExplainError("the metrics server has no value of it")


def _is_of(tree: Tree, target: Target, names: Iterable[str]) -> bool:
    labels = tree["metadata"].get("labels")
    return tree["metadata"]["name"] in names if labels is None else target.selector.matches(labels)


def _amount(containers: Sequence[Tree], metric: Metric) -> int | None:
    """Of a pod, in thousandths. A container that does not say leaves the whole pod without one."""
    if metric.container:
        containers = [one for one in containers if one["name"] == metric.container]
        if not containers:
            raise ExplainError(f"the metrics of a pod have no container {metric.container}")
    if not containers or any(metric.name not in (one.get("usage") or {}) for one in containers):
        return None
    return sum(milli(one["usage"][metric.name]) for one in containers)


def _custom(scene: Scene, metric: Metric) -> list[Tree]:
    wanted = at(metric.spec, "metric", "selector")

    def fits(one: Tree) -> bool:
        name = at(one, "metric", "name") or one.get("metricName")
        place = one["describedObject"].get("namespace", scene.namespace)
        return name == metric.name and place == scene.namespace and at(one, "metric", "selector") in (None, wanted)

    return [one for one in scene.objects.of("MetricValue") if fits(one)]


def _custom_sample(one: Tree) -> Sample:
    window = one.get("windowSeconds")
    return Sample(milli(one["value"]), moment(one["timestamp"]), 60.0 if window is None else float(window))


def _status_value(hpa: Tree, metric: Metric) -> Mapping[str, Tree]:
    """What the HPA's status says of this metric.

    Raises:
        ExplainError: nothing.
    """
    entry = at(hpa, "status", "currentMetrics", metric.number) or {}
    spec = at(entry, metric.field) or {}
    if (spec.get("name") or at(spec, "metric", "name")) == metric.name and spec.get("current"):
        current: Mapping[str, Tree] = spec["current"]
        return current
    failed = condition(hpa, "ScalingActive")
    if len(at(hpa, "status", "currentMetrics") or []) > metric.number and failed.get("status") == "True":
        raise ExplainError("it could not be read when the HPA last looked")
    if failed.get("status") == "False":
        raise _failure(hpa, metric, failed)
    helps = "what its metrics server answers (kubectl get --raw)"
    if metric.resource:
        helps = f"podmetrics (kubectl get podmetrics -n {namespace_of(hpa)} -o yaml)"
    text = f"the value of {metric.type} {metric.said} is neither among the objects nor in the HPA's status"
    raise UnknownError(f"{text}; add {helps}")


def _failure(hpa: Tree, metric: Metric, failed: Tree) -> ExplainError:
    """``computeReplicasForMetrics`` keeps the error of the first metric that fails, and no other."""
    reason, entries = str(failed.get("reason")), at(hpa, "status", "currentMetrics") or []
    of_type = [one for one in of_hpa(hpa) if reason == f"FailedGet{one.type}Metric"]
    without = [one for one in of_type if len(entries) <= one.number or entries[one.number].get("type") != one.type]
    if of_type and (not without or without[0].number != metric.number):
        text = "the condition names only the first metric that fails, so why this one does is not known"
        return ExplainError(text) if len(entries) > metric.number else UnsureError(text)
    return ExplainError(f"{reason}: {failed.get('message', '')}")
