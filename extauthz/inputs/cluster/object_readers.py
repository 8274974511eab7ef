"""Readers of Kubernetes objects, kind by kind: what the gate keeps of each. A file and a watch use the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeAlias

from extauthz.core.footprint import parse_limit_range, parse_runtime_class
from extauthz.core.kinds import BY_KEY, BY_NAME, CLAIMS, DEVICE_CLAIMS, JOBS, PODS, REVISIONS, STATEFUL_SETS
from extauthz.core.model import ANY_LABELS, Observed, Template, Tree, WorkloadRef
from extauthz.core.objects import custom, devices, jobs, workloads
from extauthz.core.objects.custom import Shape, Where
from extauthz.core.objects.fields import (
    EVERYTHING,
    MAX_REPLICAS,
    at,
    controller,
    labels_text,
    mapping,
    observed,
    plain_selector,
    required,
    text,
)
from extauthz.core.objects.fields import observed as observed_as
from extauthz.core.objects.groups import Groups
from extauthz.core.quota.selector_text import parsed
from extauthz.core.quota.selectors import LabelSelector
from extauthz.inputs.kube.resource import ScaledKind

Workload: TypeAlias = tuple[WorkloadRef, Observed]

_TERMINAL = frozenset({"Succeeded", "Failed"})
"""Phases in which of a pod its object alone counts: ``PodUsageFunc`` in ``pkg/quota/v1/evaluator/core/pods.go``."""

_IS_DEFAULT = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")

_STATEFUL_SET = (STATEFUL_SETS[0], BY_KEY[STATEFUL_SETS].name)


class ClaimClass(NamedTuple):
    name: str
    created: str
    """RFC 3339: later ones sort behind."""
    is_default: bool


def unreadable(root: Tree, version: str) -> Observed:
    """What counts of a workload that cannot be read: that it is there, and as far as they can be read, whose it is.
    Raises nothing."""
    metadata = root["metadata"]
    observed = Observed(1, None, resource_version=version)
    with suppress(Exception):
        observed.uid = text(metadata.get("uid"), "metadata.uid")
        observed.labels = labels_text(mapping(metadata.get("labels"), "metadata.labels"))
        observed.owner = controller(metadata.get("ownerReferences"))
    return observed


# What bears on the count of other objects. All raise ObjectError.


def namespace_labels(root: Tree) -> dict[str, str]:
    labels = mapping(mapping(root.get("metadata"), "metadata").get("labels"), "metadata.labels")
    return {key: text(labels[key], f"metadata.labels[{key}]") for key in labels}


def claim_class(root: Tree) -> ClaimClass:
    metadata = mapping(root.get("metadata"), "metadata")
    annotations = mapping(metadata.get("annotations"), "metadata.annotations")
    created = text(metadata.get("creationTimestamp"), "metadata.creationTimestamp")
    return ClaimClass(required(metadata, "name"), created, any(annotations.get(key) == "true" for key in _IS_DEFAULT))


def default_class(classes: Iterable[ClaimClass]) -> str:
    """The newest default class, of equally new ones the first by name: ``GetDefaultClass``, volume/util."""
    defaults = [one for one in classes if one.is_default]
    newest = max((one.created for one in defaults), default="")
    return min((one.name for one in defaults if one.created == newest), default="")


NOTED: Final[Mapping[tuple[str, str], Callable[[Tree], Any]]] = {
    ("", "Namespace"): namespace_labels,
    ("", "LimitRange"): parse_limit_range,
    ("node.k8s.io", "RuntimeClass"): parse_runtime_class,
    ("resource.k8s.io", "DeviceClass"): devices.extended_name,
    ("resource.k8s.io", "ResourceClaimTemplate"): devices.claim_template,
    ("storage.k8s.io", "StorageClass"): claim_class,
}
"""(API group, kind) to the reader of what counts of objects that change the cost of others."""


# What is counted. ``None``: it counts no more.


def pod(root: Tree) -> Workload:
    """A Pod, as a workload of one replica. Raises ObjectError.

    One that is being deleted belongs to no workload any more: its controller makes another in its place. So it
    counts by itself until it is gone. ResourceQuota lets go of it when its grace period is over. But a node that is
    lost may still run it, and hold its devices. A StatefulSet makes none as long as the name is taken.
    """
    status = mapping(root.get("status"), "status")
    metadata = mapping(root.get("metadata"), "metadata")
    if status.get("phase") in _TERMINAL:
        template = workloads.finished_pod(root.get("spec"))
    else:
        template = workloads.pod_template(root.get("spec"), status, metadata.get("generation"))
    ref, observed = observed_as(*PODS, root, 1, template)
    is_of_stateful_set = observed.owner is not None and observed.owner[:2] == _STATEFUL_SET
    if metadata.get("deletionTimestamp") is not None and not is_of_stateful_set:
        observed.owner = None
    return ref, observed


def claim(root: Tree) -> Workload:
    """A PersistentVolumeClaim, as a workload of one replica. Raises ObjectError."""
    return observed_as(*CLAIMS, root, 1, workloads.claim_template(root))


def device_claim(root: Tree) -> Workload:
    """A ResourceClaim, as a workload of one replica. Raises ObjectError.

    One that was made for no pod may be named by pods of any workload there: it counts with all of them.
    """
    ref, observed = observed_as(*DEVICE_CLAIMS, root, 1, devices.claim(root))
    if observed.owner is None or observed.owner[:2] != ("", "Pod"):
        observed.labels = ANY_LABELS
    return ref, observed


def job(root: Tree) -> Workload | None:
    """A Job, as a workload of as many replicas as may run at once; none once it has finished. Raises ObjectError."""
    if jobs.is_finished(root):
        return None
    ref, observed = observed_as(*JOBS, root, jobs.pods(root), jobs.template(root))
    observed.selector = plain_selector(at(root, "spec", "selector"))
    return ref, observed


def revision(root: Tree) -> Workload:
    """A ControllerRevision of a StatefulSet, of which there may be any number of pods. Raises ObjectError.

    ``data`` is a patch of the StatefulSet that replaces its template whole (``getPatch`` in
    ``pkg/controller/statefulset/stateful_set_utils.go``).
    """
    data = mapping(root.get("data"), "data")
    template = _pruned({"template": mapping(data.get("spec"), "data.spec").get("template")})
    return observed_as(*REVISIONS, root, MAX_REPLICAS, template)


def run_revision(root: Tree) -> Observed:
    """The same of any ControllerRevision: that of another owner, and its pods, belong to no StatefulSet. Raises
    ObjectError."""
    return revision(root)[1] if is_of_a_stateful_set(root) else Observed(0, None)


def is_of_a_stateful_set(root: Tree) -> bool:
    """Whether a ControllerRevision is; DaemonSets have them too. Raises ObjectError."""
    owner = controller(mapping(root.get("metadata"), "metadata").get("ownerReferences"))
    return owner is not None and owner[:2] == _STATEFUL_SET


def old_revision(root: Tree) -> str:
    """The name of the ControllerRevision that a StatefulSet may run besides its template's own; empty: none.

    Pods that were not updated yet, and those below a partition, are of ``status.currentRevision``, and are made anew
    from it too (``newVersionedStatefulSetPod``). Until the controller has seen the newest spec, all may be of that one,
    whatever ``updateRevision`` says. Where pods are only updated as somebody deletes them (``OnDelete``), it stays the
    current one after the last (``completeRollingUpdate``), and a partition that is set later has pods made of it again.
    Raises ObjectError.
    """
    status = mapping(root.get("status"), "status")
    generation = mapping(root.get("metadata"), "metadata").get("generation")
    current = text(status.get("currentRevision"), "status.currentRevision")
    is_behind = generation != status.get("observedGeneration")
    return current if is_behind or current != text(status.get("updateRevision"), "status.updateRevision") else ""


def _pruned(spec: Tree) -> Template:
    return workloads.intern(workloads.prune(spec))


COUNTED: Mapping[tuple[str, str], Callable[[Tree], Workload | None]] = {
    name: {PODS: pod, CLAIMS: claim, DEVICE_CLAIMS: device_claim, JOBS: job}.get(kind.key, workloads.observe)
    for name, kind in BY_NAME.items()
    if kind.key != REVISIONS
}
"""(API group, kind) to the reader of objects that count by themselves, for the kinds that every cluster has."""


def read(kind: ScaledKind, template: Where, root: Tree) -> Workload:
    """What counts of one object. ``None``: it declares no template. Raises ObjectError."""
    group, plural = kind.resource.group, kind.resource.plural
    shape = Shape(kind.spec_replicas, template)
    ref, seen = observed(group, plural, root, custom.count(shape, root), custom.template(shape, root))
    seen.selector = EVERYTHING if isinstance(template, Groups) else _plain(selector_of(kind, root))
    return ref, seen


def shapes(kind: ScaledKind, template: Where) -> dict[str, Shape]:
    """By API version, where its objects have what counts."""
    return {version: Shape(replicas, template) for version, replicas in kind.counts}


def selector_text(kind: ScaledKind, root: Tree) -> str:
    """The selector of an object's own pods; empty: it names none. Raises ObjectError."""
    return text(at(root, *kind.selector), ".".join(kind.selector)) if kind.selector else ""


def selector_of(kind: ScaledKind, root: Tree) -> LabelSelector | None:
    """The same, parsed. Raises ObjectError."""
    return parsed(selector_text(kind, root))


def _plain(selector: LabelSelector | None) -> str | None:
    if selector is None or selector.requirements:
        return None
    return labels_text(dict(selector.match_labels)) or None
