"""Whole Kubernetes objects: what the gate keeps of them, in little memory, and what it reads from a new one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from extauthz.core.errors import ObjectError
from extauthz.core.model import (
    Labels,
    Observed,
    OwnerRef,
    Template,
    Tree,
    WorkloadRef,
)
from extauthz.core.objects.fields import (
    boolean,
    items,
    mapping,
    replicas,
    text,
    wrong,
)

RESOURCES: Final[Mapping[tuple[str, str], str]] = {
    ("apps", "Deployment"): "deployments",
    ("apps", "StatefulSet"): "statefulsets",
    ("apps", "ReplicaSet"): "replicasets",
    ("extensions", "Deployment"): "deployments",
    ("extensions", "ReplicaSet"): "replicasets",
    ("", "ReplicationController"): "replicationcontrollers",
}
"""(API group, kind) to the plural, for the kinds whose pod template the gate reads."""

DEFAULT_REPLICAS: Final = 1
"""``pkg/apis/apps/v1/defaults.go`` and ``pkg/apis/core/v1/defaults.go``: the same for all four kinds."""

DEFAULT_SURGE: Final = "25%"
"""``SetDefaults_Deployment``: ``spec.strategy.rollingUpdate.maxSurge``."""

_TEMPLATES: Final = WeakValueDictionary[bytes, Template]()
"""Those that somebody holds: nothing stays of a write that was refused."""

_BETA_STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_SHARED_TEXTS, _SHARED_CHARS = 16_384, 512
"""Texts that are kept for sharing, and the longest. They recur close together, as the labels of one object do."""


class Described(NamedTuple):
    """What a whole object says, as far as it counts."""

    replicas: int
    template: Template
    labels: Labels
    owner: OwnerRef | None


def observe(obj: Tree) -> tuple[WorkloadRef, Observed]:
    """One object as the API server prints it (``kubectl get -o json``, an item of a List or a watch event).

    Takes the kinds of ``RESOURCES``. Raises ObjectError for others, and for fields that no API server prints.
    """
    root = mapping(obj, "(root)")
    group, resource = _resource(root)
    metadata = mapping(root.get("metadata"), "metadata")
    spec = mapping(root.get("spec"), "spec")
    ref = WorkloadRef(group, resource, _name(metadata, "namespace"), _name(metadata, "name"))
    described = describe(resource, root)
    return ref, Observed(
        replicas=described.replicas,
        template=described.template,
        labels=described.labels,
        uid=text(metadata.get("uid"), "metadata.uid"),
        resource_version=text(metadata.get("resourceVersion"), "metadata.resourceVersion"),
        owner=described.owner,
        selector=_selector(resource, spec.get("selector")),
        max_surge=_surge(resource, spec.get("strategy")),
    )


def describe(resource: str, root: Mapping[str, Tree]) -> Described:
    """What an object of one of the four kinds says, defaulted as the API server does it. Raises ObjectError."""
    metadata = mapping(root.get("metadata"), "metadata", "metadata")
    spec = mapping(root.get("spec"), "spec", "spec")
    return Described(
        replicas=replicas(spec.get("replicas"), DEFAULT_REPLICAS),
        template=intern(prune(spec)),
        labels=labels_of(resource, metadata, spec),
        owner=controller(metadata.get("ownerReferences")),
    )


def prune(spec: Tree) -> Tree:
    """``{"template": …, "volumeClaimTemplates": […]}`` with what costs, and what patches address it by.

    ``spec`` is an object's spec, or a pruned tree, which stays as it is. Amounts become text. Raises ObjectError.
    """
    spec = mapping(spec, "spec", "spec")
    if spec.get("template") is None:
        raise ObjectError("spec.template", "is missing")
    template = mapping(spec["template"], "spec.template", "template")
    pruned: Tree = {"template": {"spec": _pod(template.get("spec"), "spec.template.spec")}}
    claims = [
        _claim(item, at) for item, at in items(spec.get("volumeClaimTemplates"), "spec.volumeClaimTemplates", "claim")
    ]
    if claims:
        pruned["volumeClaimTemplates"] = claims
    if start := replicas(mapping(spec.get("ordinals"), "spec.ordinals").get("start"), 0, "spec.ordinals.start"):
        pruned["ordinals"] = {"start": start}
    return pruned


def pod_template(spec: Tree) -> Template:
    """What a Pod that is there costs. Raises ObjectError.

    No patch of it is ever read, so that of names only those that its claims have are kept: pods of one owner are alike.
    """
    pod = _pod(spec, "spec")
    for key in ("containers", "initContainers"):
        if key in pod:
            pod[key] = [{name: value for name, value in item.items() if name != "name"} for item in pod[key]]
    volumes = [volume for volume in pod.pop("volumes", ()) if "ephemeral" in volume]
    return intern({"template": {"spec": pod | ({"volumes": volumes} if volumes else {})}})


def claim_template(root: Mapping[str, Tree]) -> Template:
    """What a PersistentVolumeClaim that is there costs. Raises ObjectError.

    While it is expanded the larger size counts (``status.allocatedResources``: ``persistent_volume_claims.go`` in
    ``pkg/quota/v1/evaluator/core``, KEP-1790).
    """
    claim = _claim(root, "")
    claim.pop("metadata", None)
    status = mapping(root.get("status"), "status")
    allocated = _amounts(status.get("allocatedResources"), "status.allocatedResources")
    return intern({"claim": claim | ({"allocated": allocated} if allocated else {})})


def intern(tree: Tree) -> Template:
    """The Template of a pruned tree; equal trees give one object."""
    text = json.dumps(tree, sort_keys=True, separators=(",", ":")).encode()
    return _TEMPLATES.setdefault(text, Template(text))


def labels_of(resource: str, metadata: Mapping[str, Tree], spec: Mapping[str, Tree]) -> Labels:
    """An object's labels; a ReplicationController without any takes its pods'. Raises ObjectError."""
    labels = mapping(metadata.get("labels"), "metadata.labels")
    if not labels and resource == "replicationcontrollers":  # SetDefaults_ReplicationController
        template = mapping(spec.get("template"), "spec.template", "template")
        path = "spec.template.metadata"
        labels = mapping(mapping(template.get("metadata"), path).get("labels"), f"{path}.labels")
    return labels_text(labels)


def labels_text(labels: Mapping[str, Tree]) -> Labels:
    """``a=1,b=2``, sorted by key. Raises ObjectError for what no label can be."""
    if not labels:
        return ""
    pairs = [f"{_label(key)}={_label(text(value, 'labels'))}" for key, value in sorted(labels.items())]
    return _shared(",".join(pairs))


def labels_dict(labels: Labels) -> dict[str, str]:
    """The mapping that ``labels_text`` was given."""
    return dict(pair.split("=", 1) for pair in labels.split(",")) if labels else {}


def controller(references: Tree) -> OwnerRef | None:
    """The owner with ``controller: true``, if there is one. Raises ObjectError."""
    for item, path in items(references, "metadata.ownerReferences"):
        if boolean(item.get("controller"), f"{path}.controller"):
            group, _, _ = text(item.get("apiVersion"), f"{path}.apiVersion").rpartition("/")
            kind, name, uid = (text(item.get(key), f"{path}.{key}") for key in ("kind", "name", "uid"))
            return OwnerRef(_shared(group), _shared(kind), name, uid)
    return None


def _resource(root: Mapping[str, Tree]) -> tuple[str, str]:
    group, _, _ = text(root.get("apiVersion"), "apiVersion").rpartition("/")
    kind = text(root.get("kind"), "kind")
    resource = RESOURCES.get((group, kind))
    if resource is None:
        raise ObjectError(
            "kind", f"{kind or '(none)'} of group {group or '(core)'} has no replicas that the gate reads"
        )
    return ("apps" if group else ""), resource


def _name(metadata: Mapping[str, Tree], key: str) -> str:
    name = text(metadata.get(key), f"metadata.{key}")
    if not name:
        raise ObjectError(f"metadata.{key}", "is missing")
    return _shared(name) if key == "namespace" else name


def _selector(resource: str, selector: Tree) -> Labels | None:
    given = mapping(selector, "spec.selector")
    if resource != "replicationcontrollers":
        if given.get("matchExpressions"):
            return None
        given = mapping(given.get("matchLabels"), "spec.selector.matchLabels")
    return labels_text(given) or None


def _surge(resource: str, strategy: Tree) -> int | str | None:
    """A Deployment's maxSurge, defaulted; None where a rollout stays within the replicas. Raises ObjectError."""
    if resource != "deployments":
        return None
    path = "spec.strategy"
    given = mapping(strategy, path)
    if text(given.get("type"), f"{path}.type") not in ("", "RollingUpdate"):
        return None
    value = mapping(given.get("rollingUpdate"), f"{path}.rollingUpdate").get("maxSurge")
    if value is None:
        return DEFAULT_SURGE
    if type(value) is not int and not isinstance(value, str):
        wrong(value, f"{path}.rollingUpdate.maxSurge", "a whole number or a percentage")
    return value


def _pod(tree: Tree, path: str) -> Tree:
    spec = mapping(tree, path, "pod")
    pod: Tree = {
        "containers": [
            _container(item, at) for item, at in items(spec.get("containers"), f"{path}.containers", "container")
        ]
    }
    if inits := [
        _init(item, at) for item, at in items(spec.get("initContainers"), f"{path}.initContainers", "container")
    ]:
        pod["initContainers"] = inits
    if volumes := [_volume(item, at) for item, at in items(spec.get("volumes"), f"{path}.volumes", "volume")]:
        pod["volumes"] = volumes
    if overhead := _amounts(spec.get("overhead"), f"{path}.overhead"):
        pod["overhead"] = overhead
    if runtime := text(spec.get("runtimeClassName"), f"{path}.runtimeClassName"):
        pod["runtimeClassName"] = runtime
    return pod | _resources(spec, path)


def _container(item: Mapping[str, Tree], path: str) -> Tree:
    return {"name": text(item.get("name"), f"{path}.name")} | _resources(item, path)


def _init(item: Mapping[str, Tree], path: str) -> Tree:
    policy = text(item.get("restartPolicy"), f"{path}.restartPolicy")
    return _container(item, path) | ({"restartPolicy": policy} if policy else {})


def _volume(item: Mapping[str, Tree], path: str) -> Tree:
    """All are named, so that patches find theirs; a generic ephemeral volume is a claim per pod (KEP-1698)."""
    volume: Tree = {"name": text(item.get("name"), f"{path}.name")}
    ephemeral = mapping(item.get("ephemeral"), f"{path}.ephemeral")
    if ephemeral.get("volumeClaimTemplate") is not None:
        at = f"{path}.ephemeral.volumeClaimTemplate"
        volume["ephemeral"] = {
            "volumeClaimTemplate": _claim(mapping(ephemeral["volumeClaimTemplate"], at, "claim"), at)
        }
    return volume


def _claim(item: Mapping[str, Tree], path: str) -> Tree:
    metadata = mapping(item.get("metadata"), f"{path}.metadata", "claim-metadata")
    annotations = mapping(metadata.get("annotations"), f"{path}.metadata.annotations")
    spec = mapping(item.get("spec"), f"{path}.spec", "claim-spec")
    claim: Tree = {"spec": _resources(spec, f"{path}.spec")}
    if name := text(metadata.get("name"), f"{path}.metadata.name"):
        claim["metadata"] = {"name": name}
    beta = annotations.get(_BETA_STORAGE_CLASS)
    storage_class = spec.get("storageClassName") if beta is None else beta
    if storage_class is not None:  # an empty name asks for no class, which is not the same as saying nothing
        claim["spec"]["storageClassName"] = text(storage_class, f"{path}.spec.storageClassName")
    return claim


def _resources(owner: Mapping[str, Tree], path: str) -> Tree:
    path = f"{path}.resources"
    given = mapping(owner.get("resources"), path)
    kept = {key: _amounts(given.get(key), f"{path}.{key}") for key in ("limits", "requests")}
    kept = {key: amounts for key, amounts in kept.items() if amounts}
    return {"resources": kept} if kept else {}


def _amounts(tree: Tree, path: str) -> dict[str, str]:
    """Quantities as text, not checked: ``core.quantities`` does that."""
    return {
        key: value if isinstance(value, str) else _amount(value, f"{path}[{key}]")
        for key, value in mapping(tree, path).items()
    }


def _amount(value: Tree, path: str) -> str:
    """A number as a quantity's text. Null is a zero (``UnmarshalJSON``)."""
    if value is None:
        return "0"
    if isinstance(value, bool) or not isinstance(value, int | float):
        wrong(value, path, "a quantity")
    return getattr(value, "text", None) or repr(value)  # gojson.Number keeps the literal, as UnmarshalJSON sees it


def _label(part: str) -> str:
    if "," in part or "=" in part:
        raise ObjectError("labels", f"{part[:40]!r} is not a label")
    return part


def _shared(value: str) -> str:
    return _kept(value) if len(value) <= _SHARED_CHARS else value


_kept = lru_cache(maxsize=_SHARED_TEXTS)(str)
