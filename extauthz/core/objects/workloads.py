"""Whole Kubernetes objects: what the gate keeps of them, in little memory, and what it reads of a new one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Final
from weakref import WeakValueDictionary

from extauthz.core import numbers, quantities
from extauthz.core.errors import ObjectError
from extauthz.core.kinds import BY_NAME, DEPLOYMENTS, REPLICATION_CONTROLLERS, STATEFUL_SETS, WorkloadKind
from extauthz.core.model import Labels, Observed, Template, Tree, WorkloadRef
from extauthz.core.objects import fields
from extauthz.core.objects.fields import (
    amounts,
    boolean,
    items,
    labels_text,
    mapping,
    plain_selector,
    replicas,
    text,
    wrong,
)

# What a Pod holds while it is resized in place: the largest of what it asks for, was given, and runs with.
#
# The three differ until the kubelet is done (KEP-1287). A resize that the node can never do (``Infeasible``) is not
# counted, only what is there. But only if the kubelet says that of what the Pod asks for now (``observedGeneration``,
# Kubernetes 1.34): what was asked for since may fit the node.
#
# For the rest the rule is that of ``PodRequests`` and ``PodLimits`` with ``UseStatusResources``
# (``k8s.io/component-helpers/resource/helpers.go``), by which the scheduler and ResourceQuota (``PodUsageFunc`` in
# ``pkg/quota/v1/evaluator/core/pods.go``) count.


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


DEFAULT_REPLICAS: Final = 1
"""``pkg/apis/apps/v1/defaults.go`` and ``pkg/apis/core/v1/defaults.go``: the same for all four kinds."""

DEFAULT_SURGE: Final = "25%"
"""``SetDefaults_Deployment``: ``spec.strategy.rollingUpdate.maxSurge``."""

_TEMPLATES: Final = WeakValueDictionary[bytes, Template]()
"""Templates that are in use. Nothing stays of a refused write."""

_CONTROLLERS: Final = REPLICATION_CONTROLLERS[1]
_CLAIMED: Final = ("resourceClaimName", "resourceClaimTemplateName")
_BETA_STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"


def observe(obj: Tree) -> tuple[WorkloadRef, Observed]:
    """One object as the API server prints it (``kubectl get -o json``, an item of a List or a watch event).

    Takes the kinds that are ``GATED``. Raises ObjectError for others, and for fields that no API server prints.
    """
    root = mapping(obj, "(root)")
    group, resource = _gated(root).key
    ref, observed = fields.observed(group, resource, root)
    spec = mapping(root.get("spec"), "spec")
    observed.replicas = replicas(spec.get("replicas"), DEFAULT_REPLICAS)
    observed.template = _template(resource, spec)
    observed.labels = observed.labels or _default_labels(resource, spec)
    observed.selector = _selector(resource, spec.get("selector"))
    observed.acted_on = _acted_on(root)
    return ref, observed


def _acted_on(root: Mapping[str, Tree]) -> bool | None:
    """``status.observedGeneration`` against ``metadata.generation``; ``None``: one of them is not there."""
    given, status = root.get("metadata"), root.get("status")
    generation = given.get("generation") if isinstance(given, Mapping) else None
    seen = status.get("observedGeneration", 0) if isinstance(status, Mapping) else None
    return seen >= generation if type(generation) is int and type(seen) is int else None


def described(resource: str, root: Mapping[str, Tree]) -> Observed:
    """A whole object of one of the four kinds, as an admission webhook is shown it. Raises ObjectError."""
    spec = mapping(root.get("spec"), "spec")
    count = replicas(spec.get("replicas"), DEFAULT_REPLICAS)
    found = fields.described(root, count, _template(resource, spec))
    found.labels = found.labels or _default_labels(resource, spec)
    found.selector = plain_selector(spec.get("selector")) if resource == DEPLOYMENTS[1] else None
    return found


def described_pod(root: Mapping[str, Tree]) -> Observed:
    """A new Pod, as an admission webhook is shown it. Raises ObjectError.

    What a workload's own controller makes is not looked at (``POD_MAKERS``). So who else names a workload as the owner
    is not believed.
    """
    found = fields.described(root, 1, intern({"template": {"spec": _pod(root.get("spec"), "spec")}}))
    found.owner = None if found.owner is not None and found.owner[:2] in BY_NAME else found.owner
    return found


def prune(spec: Tree) -> Tree:
    """``{"template": …, "volumeClaimTemplates": […]}`` with what costs. Amounts become text. Raises ObjectError."""
    spec = mapping(spec, "spec")
    if spec.get("template") is None:
        raise ObjectError("spec.template", "is missing")
    template = mapping(spec["template"], "spec.template")
    pruned: Tree = {"template": {"spec": _pod(template.get("spec"), "spec.template.spec")}}
    claims = [_claim(item, at) for item, at in items(spec.get("volumeClaimTemplates"), "spec.volumeClaimTemplates")]
    if claims:
        pruned["volumeClaimTemplates"] = claims
    return pruned


def pod_template(spec: Tree, status: Tree = None, generation: Tree = None) -> Template:
    """What an existing Pod costs, by its spec, which is of that generation, and its status. Raises ObjectError.

    Of names only those that its claims have are kept: pods of one owner are alike. What its RuntimeClass adds was put
    into its own overhead as it was made.
    """
    pod = _pod(spec, "spec")
    pod.pop("runtimeClassName", None)
    hold(pod, mapping(status, "status"), generation)
    for key in ("containers", "initContainers"):
        if key in pod:
            pod[key] = [{name: value for name, value in item.items() if name != "name"} for item in pod[key]]
    volumes = [volume for volume in pod.pop("volumes", ()) if "ephemeral" in volume]
    return intern({"template": {"spec": pod | ({"volumes": volumes} if volumes else {})}})


def finished_pod(spec: Tree) -> Template:
    """What a Pod leaves that has finished: its object, and the claims of its ephemeral volumes. Raises ObjectError."""
    volumes = [volume for volume in _pod(spec, "spec").get("volumes", ()) if "ephemeral" in volume]
    return intern({"finished": {"volumes": volumes} if volumes else {}})


def has_finished(template: Template) -> bool:
    """Whether it is of a Pod that has finished."""
    return template.text.startswith(b'{"finished"')


def claim_template(root: Mapping[str, Tree]) -> Template:
    """What an existing PersistentVolumeClaim costs. Raises ObjectError.

    While it is expanded the larger size counts (``status.allocatedResources``: ``persistent_volume_claims.go`` in
    ``pkg/quota/v1/evaluator/core``, KEP-1790).
    """
    claim = _claim(root, "")
    claim.pop("metadata", None)
    status = mapping(root.get("status"), "status")
    allocated = amounts(status.get("allocatedResources"), "status.allocatedResources")
    return intern({"claim": claim | ({"allocated": allocated} if allocated else {})})


def intern(tree: Tree) -> Template:
    """The Template of a pruned tree; equal trees give one object."""
    return interned(Template(_text(tree)))


def _text(tree: Tree) -> bytes:
    """The same for the same tree in every gate, as ledgers hold it.

    orjson is ten times as quick, but writes what is not ASCII otherwise, and takes no half of a surrogate pair.
    """
    import orjson  # of no use to commands that read no object

    try:
        quick = orjson.dumps(tree, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        quick = b"\xff"
    return quick if quick.isascii() else json.dumps(tree, sort_keys=True, separators=(",", ":")).encode()


def interned(template: Template) -> Template:
    """The one object that stands for all equal templates."""
    return _TEMPLATES.setdefault(template.text, template)


def _default_labels(resource: str, spec: Mapping[str, Tree]) -> Labels:
    """A ReplicationController without labels takes its pods' (``SetDefaults_ReplicationController``)."""
    if resource != _CONTROLLERS:
        return ""
    template = mapping(spec.get("template"), "spec.template")
    path = "spec.template.metadata"
    return labels_text(mapping(mapping(template.get("metadata"), path).get("labels"), f"{path}.labels"))


def _gated(root: Mapping[str, Tree]) -> WorkloadKind:
    group, name = fields.kind_of(root)
    kind = BY_NAME.get((group, name))
    if kind is None or not kind.is_gated:
        raise ObjectError("kind", f"{name} of group {group or '(core)'} has no replicas that the gate reads")
    return kind


def _selector(resource: str, selector: Tree) -> Labels | None:
    if resource == _CONTROLLERS:  # a plain map
        return labels_text(mapping(selector, "spec.selector")) or None
    return plain_selector(selector)


def _template(resource: str, spec: Mapping[str, Tree]) -> Template:
    """With a StatefulSet's first ordinal (KEP-3335), or with a Deployment's ``maxSurge``, unless that is the default
    (0: a rollout stays within the replicas), and whether it is paused. Raises ObjectError.
    """
    pruned, path = prune(spec), "spec.strategy"
    if resource == STATEFUL_SETS[1]:
        start = mapping(spec.get("ordinals"), "spec.ordinals").get("start")
        pruned["ordinals"] = {"start": replicas(start, 0, "spec.ordinals.start")}
    if resource == DEPLOYMENTS[1]:
        if boolean(spec.get("paused"), "spec.paused"):
            pruned["paused"] = True
        given = mapping(spec.get("strategy"), path)
        surge = mapping(given.get("rollingUpdate"), f"{path}.rollingUpdate").get("maxSurge")
        if text(given.get("type"), f"{path}.type") not in ("", "RollingUpdate"):
            surge = 0
        elif surge is not None and type(surge) is not int and not isinstance(surge, str):
            wrong(surge, f"{path}.rollingUpdate.maxSurge", "a whole number or a percentage")
        surge = _bounded(DEFAULT_SURGE if surge is None else surge)
        if surge != DEFAULT_SURGE:
            pruned["maxSurge"] = surge
    return intern(pruned)


def _bounded(surge: int | str) -> int | str:
    """Pods, or a part of the replicas. The API server takes any number of digits."""
    if isinstance(surge, int):
        return min(max(surge, 0), numbers.INT32)
    return f"{numbers.capped(surge.removesuffix('%'), numbers.INT32) or 0}%"


def _pod(tree: Tree, path: str) -> Tree:
    spec = mapping(tree, path)
    pod: Tree = {"containers": []}
    for key, read in _PARTS.items():
        if key in spec and (found := read(spec[key], f"{path}.{key}")):
            pod[key] = found
    return pod


def _each(read: Callable[[Mapping[str, Tree], str], Tree]) -> Callable[[Tree, str], list[Tree]]:
    return lambda listed, path: [read(item, at) for item, at in items(listed, path)]


def _device_claim(item: Mapping[str, Tree], path: str) -> Tree:
    """A claim of devices, that there is or that is made for each pod (KEP-4381)."""
    kept = {key: text(item.get(key), f"{path}.{key}") for key in ("name", *_CLAIMED)}
    return {key: value for key, value in kept.items() if value}


def _container(item: Mapping[str, Tree], path: str) -> Tree:
    container: Tree = {"name": text(item.get("name"), f"{path}.name")}
    if "resources" in item and (kept := _resources(item["resources"], f"{path}.resources")):
        container["resources"] = kept
    return container


def _init(item: Mapping[str, Tree], path: str) -> Tree:
    policy = text(item.get("restartPolicy"), f"{path}.restartPolicy")
    return _container(item, path) | ({"restartPolicy": policy} if policy else {})


def _volume(item: Mapping[str, Tree], path: str) -> Tree:
    """A generic ephemeral volume is a claim per pod (KEP-1698)."""
    volume: Tree = {"name": text(item.get("name"), f"{path}.name")}
    ephemeral = mapping(item.get("ephemeral"), f"{path}.ephemeral")
    if ephemeral.get("volumeClaimTemplate") is not None:
        at = f"{path}.ephemeral.volumeClaimTemplate"
        volume["ephemeral"] = {"volumeClaimTemplate": _claim(mapping(ephemeral["volumeClaimTemplate"], at), at)}
    return volume


def _claim(item: Mapping[str, Tree], path: str) -> Tree:
    given = mapping(item.get("metadata"), f"{path}.metadata")
    annotations = mapping(given.get("annotations"), f"{path}.metadata.annotations")
    spec = mapping(item.get("spec"), f"{path}.spec")
    kept = _resources(spec.get("resources"), f"{path}.spec.resources")
    claim: Tree = {"spec": {"resources": kept} if kept else {}}
    if name := text(given.get("name"), f"{path}.metadata.name"):
        claim["metadata"] = {"name": name}
    beta = annotations.get(_BETA_STORAGE_CLASS)
    storage_class = spec.get("storageClassName") if beta is None else beta
    if storage_class is not None:  # an empty name asks for no class, which is not the same as saying nothing
        claim["spec"]["storageClassName"] = text(storage_class, f"{path}.spec.storageClassName")
    return claim


def _resources(tree: Tree, path: str) -> dict[str, dict[str, str]]:
    given = mapping(tree, path)
    return {key: listed for key in _KINDS if key in given and (listed := amounts(given[key], f"{path}.{key}"))}


_PARTS: Final[Mapping[str, Callable[[Tree, str], Tree]]] = {
    "containers": _each(_container),
    "initContainers": _each(_init),
    "volumes": _each(_volume),
    "resourceClaims": _each(_device_claim),
    "overhead": amounts,
    "resources": _resources,
    "runtimeClassName": text,
}
"""What costs of a pod's spec, and what reads it."""
