"""What is known of a metric: its value, and what it asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from extauthz.core.model import Tree

from . import pods as podlist
from . import served
from .objects import ExplainError, milli
from .pods import Sample
from .specs import Goal, Metric, Pool, Result, Scene, Tolerances, UnknownError, of_pool, of_share, of_total


class Known(NamedTuple):
    """A metric with a value: what it asks for."""

    result: Callable[[int, Tolerances], Result]
    """Of the current count and a band."""
    at_value: Callable[[int, Tolerances, int], Result]
    """The same if the value were another."""
    value: int
    certain: bool
    """True if the pods and the value are known, not guessed."""
    note: str
    """How the pods count."""
    pods: int | None = None
    """Of pods that the ceiling multiplies."""
    certain_in_band: bool = True
    """Unready pods, and pods without a metric, bring a ratio nearer to 1 or past it: neither leaves the band."""


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
    samples = served.samples(scene, metric)
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
    return _pooled(metric, pool, settled, _said(groups))


def _pooled(metric: Metric, pool: Pool, certain: bool, note: str) -> Known:
    goal = Goal(metric.target, metric.measure == "Utilization")

    def result(current: int, band: Tolerances) -> Result:
        return of_pool(pool, goal, current, band)

    def at_value(current: int, band: Tolerances, value: int) -> Result:
        total = goal.total(value, pool.requested, pool.sampled)
        moved = Pool(pool.ready, pool.sampled, total, pool.requested, pool.missing, pool.unready)
        return of_pool(moved, goal, current, band)

    return Known(result, at_value, goal.value(pool.total, pool.requested, pool.sampled), certain, note, pool.ready)


def _said(groups: podlist.Groups) -> str:
    parts = [
        f"{len(groups.ready)} ready",
        *(f"{len(groups.unready)} unready" for _ in [0] if groups.unready),
        *(f"{len(groups.missing)} without a metric" for _ in [0] if groups.missing),
        *(f"{len(groups.ignored)} failed or ending" for _ in [0] if groups.ignored),
    ]
    return "pods: " + ", ".join(parts)


def _from_status(scene: Scene, metric: Metric, pods: Sequence[Tree]) -> Known:
    """From the HPA's own status: the average, but not of which pods. In the band that does not matter: pods that are
    unready or without a metric only ever bring a ratio nearer to 1, or past it."""
    current = served.status_value(scene.hpa, metric)
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
    return _pooled(metric, pool, False, note)


# Metrics of an object, and external ones


def _of_one_value(scene: Scene, metric: Metric) -> Known:
    usage, exact = served.usage(scene, metric)
    target = scene.target
    if metric.measure == "AverageValue":
        certain = exact or _same_at_both_ends(usage, metric.target, target.observed, scene.band)
        note = "" if exact else "of the HPA's status, which is rounded up"

        def share(_: int, band: Tolerances) -> Result:
            return of_share(usage, metric.target, target.observed, band)

        def share_at(_: int, band: Tolerances, value: int) -> Result:
            return of_share(value * target.observed, metric.target, target.observed, band)

        shown = -(-usage // target.observed) if target.observed else usage
        return Known(share, share_at, shown, certain, note, certain_in_band=False)
    pods = scene.pods
    ready = sum(map(podlist.is_ready, pods)) if pods else target.asked
    note = f"pods: {ready} ready" if pods else f"the pods are not among the objects; {ready} are taken as ready"

    def whole(current: int, band: Tolerances) -> Result:
        return of_total(usage, metric.target, current, ready, band)

    def whole_at(current: int, band: Tolerances, value: int) -> Result:
        return of_total(value, metric.target, current, ready, band)

    return Known(whole, whole_at, usage, bool(pods), note, ready if target.asked else None)


def _same_at_both_ends(usage: int, target: int, observed: int, band: Tolerances) -> bool:
    """Whether all that the status may stand for gives one result: it shows the share of a pod, rounded up."""
    least = usage - observed + 1
    return of_share(least, target, observed, band).replicas == of_share(usage, target, observed, band).replicas
