"""What a Pod holds while it is resized in place: the largest of what it asks for, was given, and runs with.

The three differ until the kubelet is done (KEP-1287). A resize that the node can never do (``Infeasible``) is not
counted, only what is there. But only if the kubelet says that of what the Pod asks for now (``observedGeneration``,
Kubernetes 1.34): what was asked for since may fit the node.

For the rest the rule is that of ``PodRequests`` and ``PodLimits`` with ``UseStatusResources``
(``k8s.io/component-helpers/resource/helpers.go``), by which the scheduler and ResourceQuota (``PodUsageFunc`` in
``pkg/quota/v1/evaluator/core/pods.go``) count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from extauthz.core import quantities
from extauthz.core.model import Tree
from extauthz.core.objects.fields import amounts, items, mapping, text

_KINDS: Final = ("limits", "requests")


def hold(pod: Tree, status: Mapping[str, Tree], generation: Tree) -> None:
    """Put what a Pod holds by its status into its pruned spec, which is of that generation. Raises ObjectError."""
    infeasible = _is_infeasible(status, generation)
    of_pod = _held(status, "status")
    if of_pod is not None and "resources" in pod:
        pod["resources"] = _of_pod(pod["resources"], of_pod, infeasible)
    held = dict(_containers(status))
    for container in _resizable(pod):
        found = held.get(container["name"])
        if found is not None:
            container["resources"] = _largest_of(container.get("resources", {}), found, infeasible)
    for owner in (pod, *pod["containers"], *pod.get("initContainers", ())):
        _drop_empty(owner)


def _drop_empty(owner: Tree) -> None:
    """So that a Pod that holds what it asks for is like one whose status says nothing."""
    kept = {kind: listed for kind, listed in owner.pop("resources", {}).items() if listed}
    if kept:
        owner["resources"] = kept


def _is_infeasible(status: Mapping[str, Tree], generation: Tree) -> bool:
    """Whether the node can never do what is asked; the first condition of the type says it."""
    for condition, at in items(status.get("conditions"), "status.conditions"):
        if condition.get("type") == "PodResizePending":
            is_of_it = generation is not None and condition.get("observedGeneration") == generation
            return text(condition.get("reason"), f"{at}.reason") == "Infeasible" and is_of_it
    return False


def _containers(status: Mapping[str, Tree]) -> Iterator[tuple[str, Tree]]:
    """Names of containers with what they hold, of those that say it."""
    for key in ("containerStatuses", "initContainerStatuses"):
        for one, at in items(status.get(key), f"status.{key}"):
            held = _held(one, at)
            if held is not None:
                yield text(one.get("name"), f"{at}.name"), held


def _held(status: Mapping[str, Tree], path: str) -> Tree:
    """Limits and requests that a status says; ``None``: it says nothing. What was given has no limits."""
    if status.get("resources") is None:
        return None
    given = mapping(status["resources"], f"{path}.resources")
    limits, requests = (amounts(given.get(kind), f"{path}.resources.{kind}") for kind in _KINDS)
    allocated = amounts(status.get("allocatedResources"), f"{path}.allocatedResources")
    return {"limits": limits, "requests": _largest(requests, allocated)}


def _resizable(pod: Tree) -> Iterator[Tree]:
    """Containers and sidecars: an init container that ends is counted by what it asks for."""
    yield from pod["containers"]
    for container in pod.get("initContainers", ()):
        if container.get("restartPolicy") == "Always":
            yield container


def _largest_of(asked: Tree, held: Tree, infeasible: bool) -> Tree:
    """Of a container. The API server has set requests that are absent to the limits."""
    if infeasible:
        return held
    limits = asked.get("limits", {})
    requests = limits | asked.get("requests", {})
    return {"limits": _largest(limits, held["limits"]), "requests": _largest(requests, held["requests"])}


def _of_pod(asked: Tree, held: Tree, infeasible: bool) -> Tree:
    """Of the whole Pod: only of what it asks for at that level."""
    largest = held if infeasible else {kind: _largest(asked.get(kind, {}), held[kind]) for kind in _KINDS}
    return {kind: {name: largest[kind].get(name, "0") for name in asked[kind]} for kind in _KINDS if kind in asked}


def _largest(one: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    largest = dict(one)
    for name, amount in other.items():
        if name not in largest or _is_more(amount, largest[name]):
            largest[name] = amount
    return largest


def _is_more(amount: str, than: str) -> bool:
    """False where one of them cannot be read: the footprint says so of what is kept."""
    try:
        return amount != than and quantities.parse(amount) > quantities.parse(than)
    except quantities.QuantityError:
        return False
