"""Values of metrics: what metrics servers say, or else the HPA's own status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from extauthz.core.model import Tree
from extauthz.core.objects.fields import at

from .objects import POD_METRICS, ExplainError, condition, milli, moment, seconds
from .pods import Sample
from .specs import Metric, Scene, UnknownError
from .target import Target, labelled, selects


def usage(scene: Scene, metric: Metric) -> tuple[int, bool]:
    values = _external(scene, metric) if metric.type == "External" else _described(scene, metric)
    _not_empty(scene, metric.name, values)
    if values:
        return sum(values), True
    current = status_value(scene.hpa, metric)
    if metric.measure == "AverageValue":
        return milli(current["averageValue"]) * scene.target.observed, False
    return milli(current["value"]), True


def _external(scene: Scene, metric: Metric) -> list[int]:
    wanted = labelled(at(metric.spec, "metric", "selector"))
    named = [one for one in scene.objects.of("ExternalMetricValue") if one["metricName"] == metric.name]
    return [milli(one["value"]) for one in named if selects(wanted, one.get("metricLabels") or {})]


def _described(scene: Scene, metric: Metric) -> list[int]:
    ref = metric.spec["describedObject"]
    return [
        milli(one["value"])
        for one in _custom(scene, metric)
        if (one["describedObject"].get("kind"), one["describedObject"].get("name")) == (ref["kind"], ref["name"])
    ][:1]


def samples(scene: Scene, metric: Metric) -> dict[str, Sample] | None:
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
    return tree["metadata"]["name"] in names if labels is None else selects(target.selector, labels)


def _amount(containers: Sequence[Tree], metric: Metric) -> int | None:
    """Of a pod, in thousandths. A container that does not say leaves the whole pod without one."""
    if metric.container:
        containers = [one for one in containers if one["name"] == metric.container]
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


def status_value(hpa: Tree, metric: Metric) -> Mapping[str, Tree]:
    """What the HPA's status says of this metric.

    Raises:
        ExplainError: nothing.
    """
    entry = at(hpa, "status", "currentMetrics", metric.number) or {}
    spec = at(entry, metric.type[0].lower() + metric.type[1:]) or {}
    if (spec.get("name") or at(spec, "metric", "name")) == metric.name and spec.get("current"):
        current: Mapping[str, Tree] = spec["current"]
        return current
    failed = condition(hpa, "ScalingActive")
    if len(at(hpa, "status", "currentMetrics") or []) > metric.number and failed.get("status") == "True":
        raise ExplainError("it could not be read when the HPA last looked")
    if failed.get("status") == "False":
        raise ExplainError(f"{failed['reason']}: {failed.get('message', '')}")
    place = hpa["metadata"].get("namespace", "default")
    helps = "what its metrics server answers (kubectl get --raw)"
    if metric.resource:
        helps = f"podmetrics (kubectl get podmetrics -n {place} -o yaml)"
    text = f"the value of {metric.type} {metric.said} is neither among the objects nor in the HPA's status"
    raise UnknownError(f"{text}; add {helps}")
