"""Which pods the controller counts as ready, unready, without a metric, or not at all; and what they request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from extauthz.core.footprint import per_pod
from extauthz.core.model import Tree
from extauthz.core.objects.fields import at

from .objects import ExplainError, Flags, condition, milli, moment

MARGIN_S: Final = 20.0
"""Objects are a little older than the moment at which the controller looks next."""


SUCCEEDED: Final = "Succeeded"

POD_LEVEL: Final = ("cpu", "memory", "hugepages-")
"""Resources that may be set on a whole pod (``IsPodLevelRequestsSet`` of ``component-helpers/resource``)."""


class Sample(NamedTuple):
    """What a metrics server says of one pod. ``None``: it was not asked, only the HPA's status is known."""

    value: int
    at: float | None = None
    window_s: float = 0.0


class Groups(NamedTuple):
    ready: frozenset[str]
    unready: frozenset[str]
    missing: frozenset[str]
    """Without a metric."""
    ignored: frozenset[str]
    """Failed, or being deleted."""
    finished: frozenset[str]
    """Of those without a metric: they have succeeded. Up to Kubernetes 1.37 the controller counts them so
    (kubernetes#141298)."""


def grouped(
    pods: Iterable[Tree], samples: Mapping[str, Sample], resource: str, flags: Flags, now: float
) -> tuple[Groups, bool]:
    """The groups; false if a pod is about to change its group."""
    listed = list(pods)
    found = _grouped(listed, samples, resource, flags, now)
    around = (_grouped(listed, samples, resource, flags, now + shift) for shift in (-MARGIN_S, MARGIN_S))
    return found, all(found == other for other in around)


def _grouped(pods: list[Tree], samples: Mapping[str, Sample], resource: str, flags: Flags, now: float) -> Groups:
    names: dict[str, set[str]] = {group: set() for group in Groups._fields}
    for pod in pods:
        name = pod["metadata"]["name"]
        phase = at(pod, "status", "phase")
        if "deletionTimestamp" in pod["metadata"] or phase == "Failed":
            group = "ignored"
        elif phase == "Pending":
            group = "unready"
        elif name not in samples:
            group = "missing"
        elif resource == "cpu" and _is_warming_up(pod, samples[name], flags, now):
            group = "unready"
        else:
            group = "ready"
        names[group].add(name)
        if group == "missing" and phase == SUCCEEDED:
            names["finished"].add(name)
    return Groups(*(frozenset(names[group]) for group in Groups._fields))


def _is_warming_up(pod: Tree, sample: Sample, flags: Flags, now: float) -> bool:
    """Whether its CPU does not count yet. Only CPU has this rule."""
    ready, since = condition(pod, "Ready"), at(pod, "status", "startTime")
    if not ready or since is None:
        return True
    started = moment(since)
    # A condition may have no time; in Go that is the year 1.
    changed = moment(ready["lastTransitionTime"]) if ready.get("lastTransitionTime") else 0.0
    is_unready = ready["status"] == "False"
    if started + flags.cpu_initialization_period > now:
        return is_unready or (sample.at is not None and sample.at < changed + sample.window_s)
    return is_unready and started + flags.initial_readiness_delay > changed


def is_ready(pod: Tree) -> bool:
    """It runs and is ready: how metrics of objects and external ones count pods."""
    return bool(at(pod, "status", "phase") == "Running" and condition(pod, "Ready").get("status") == "True")


def requests(pods: Iterable[Tree], container: str, resource: str) -> dict[str, int]:
    """What each pod requests of a resource, in thousandths; of one container if it is named.

    Raises:
        ExplainError: one does not say. Then the whole metric fails.
    """
    return {pod["metadata"]["name"]: _request(pod, container, resource) for pod in pods}


def _request(pod: Tree, container: str, resource: str) -> int:
    """As ``calculateRequests`` of the controller. A container of another name requests nothing, and is no error."""
    of_pod = at(pod, "spec", "resources", "requests") or {}
    if not container and any(name.startswith(POD_LEVEL) for name in of_pod):
        asked = per_pod({"template": {"spec": pod["spec"]}}).get(f"requests.{resource}")
        return _known(None if asked is None else f"{asked}n", f"pod {pod['metadata']['name']}", resource)
    beside = [one for one in at(pod, "spec", "initContainers") or [] if one.get("restartPolicy") == "Always"]
    return sum(
        _known(
            at(one, "resources", "requests", resource),
            f"container {one['name']} of pod {pod['metadata']['name']}",
            resource,
        )
        for one in [*pod["spec"]["containers"], *beside]
        if container in ("", one["name"])
    )


def _known(asked: str | None, where: str, resource: str) -> int:
    if asked is None:
        raise ExplainError(f"{where} requests no {resource}, so there is nothing to take a percentage of")
    return milli(asked)
