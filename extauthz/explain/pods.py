"""Which pods the controller counts as ready, unready, without a metric, or not at all; and what they request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from extauthz.core.model import Tree
from extauthz.core.objects.fields import at

from .objects import ExplainError, Flags, milli, moment

MARGIN_S: Final = 20.0
"""Objects are a little older than the moment at which the controller looks next."""


class Sample(NamedTuple):
    """What a metrics server says of one pod. ``None``: it was not asked, only the HPA's status is known."""

    value: int
    at: float | None = None
    window_s: float = 0.0


class Groups(NamedTuple):
    """Names of pods."""

    ready: frozenset[str]
    unready: frozenset[str]
    missing: frozenset[str]
    """Without a metric."""
    ignored: frozenset[str]
    """Failed, or being deleted."""


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
    return Groups(*(frozenset(names[group]) for group in Groups._fields))


def _is_warming_up(pod: Tree, sample: Sample, flags: Flags, now: float) -> bool:
    """Whether its CPU does not count yet. Only CPU has this rule."""
    ready, since = ready_condition(pod), at(pod, "status", "startTime")
    if ready is None or since is None:
        return True
    started = moment(since)
    # A condition may have no time; in Go that is the year 1.
    changed = moment(ready["lastTransitionTime"]) if ready.get("lastTransitionTime") else 0.0
    is_unready = ready["status"] == "False"
    if started + flags.cpu_initialization_period > now:
        return is_unready or (sample.at is not None and sample.at < changed + sample.window_s)
    return is_unready and started + flags.initial_readiness_delay > changed


def ready_condition(pod: Tree) -> Tree | None:
    """Its condition Ready."""
    return next((one for one in at(pod, "status", "conditions") or [] if one["type"] == "Ready"), None)


def is_ready(pod: Tree) -> bool:
    """It runs and is ready: how metrics of objects and external ones count pods."""
    ready = ready_condition(pod)
    return at(pod, "status", "phase") == "Running" and ready is not None and ready["status"] == "True"


def requests(pods: Iterable[Tree], container: str, resource: str) -> dict[str, int]:
    """What each pod requests of a resource, in thousandths; of one container if it is named.

    Raises:
        ExplainError: one does not say. Then the whole metric fails.
    """
    return {pod["metadata"]["name"]: _request(pod, container, resource) for pod in pods}


def _request(pod: Tree, container: str, resource: str) -> int:
    of_pod = at(pod, "spec", "resources", "requests") or {}
    if resource in of_pod and not container:
        overhead = at(pod, "spec", "overhead", resource)
        return milli(of_pod[resource]) + (milli(overhead) if overhead is not None else 0)
    side = [one for one in at(pod, "spec", "initContainers") or [] if one.get("restartPolicy") == "Always"]
    counted = [one for one in [*pod["spec"]["containers"], *side] if container in ("", one["name"])]
    if not counted:
        raise ExplainError(f"there is no container {container} in pod {pod['metadata']['name']}")
    total = 0
    for one in counted:
        asked = at(one, "resources", "requests", resource)
        if asked is None:
            where = f"container {one['name']} of pod {pod['metadata']['name']}"
            raise ExplainError(f"{where} requests no {resource}, so there is nothing to take a percentage of")
        total += milli(asked)
    return total
