"""Makes a picture of the cluster from whole Kubernetes objects, whatever brings them: what is kept of each kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from extauthz.core.footprint import LimitRangeDefaults, parse_limit_range, parse_runtime_class
from extauthz.core.intake import objects
from extauthz.core.intake.faults import ObjectError
from extauthz.core.intake.fields import mapping, text
from extauthz.core.ledger.kinship import covers
from extauthz.core.model import Amounts, Observed, OwnerRef, Tree, WorkloadRef

Workload: TypeAlias = tuple[WorkloadRef, Observed]

_TERMINAL = frozenset({"Succeeded", "Failed"})
"""Phases in which a pod counts no more: ``QuotaV1Pod`` in ``pkg/quota/v1/evaluator/core/pods.go``."""

_IS_DEFAULT = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What is known of the cluster."""

    namespaces: Mapping[str, Mapping[str, str]]
    """Name to labels."""
    limit_ranges: Mapping[str, Sequence[LimitRangeDefaults]]
    """By namespace."""
    workloads: Sequence[Workload]
    """Pods too that no listed workload covers; each is a workload ``pods`` of one replica."""
    overheads: Mapping[str, Amounts]
    """RuntimeClass to what it adds to each of its pods, nano-units."""
    default_storage_class: str
    """Of claims that name none; empty where there is none."""
    not_counted: Mapping[str, int]
    """``Kind.group`` of objects that bear on nothing here, and how many there were."""


class Picture:
    """Takes objects one by one, in any order."""

    def __init__(self) -> None:
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._limit_ranges: dict[str, list[LimitRangeDefaults]] = {}
        self._workloads: dict[WorkloadRef, Observed] = {}
        self._pods: dict[WorkloadRef, Observed] = {}
        self._overheads: dict[str, Amounts] = {}
        self._defaults: list[tuple[str, str]] = []
        self._not_counted: Counter[str] = Counter()

    def add(self, obj: Tree) -> str | None:
        """Take one object. Returns the namespace if it is a workload.

        Raises:
            ObjectError: it is not as an API server prints it, or was taken before (code ``listed-twice``).
            FootprintError: an amount of a LimitRange or RuntimeClass cannot be read.
        """
        root = mapping(obj, "(root)")
        group, _, _ = text(root.get("apiVersion"), "apiVersion").rpartition("/")
        kind = text(root.get("kind"), "kind")
        if not kind:
            raise ObjectError("kind", "is missing")
        take = _TAKERS.get((group, kind))
        if take is None:
            self._not_counted[f"{kind}.{group}" if group else kind] += 1
            return None
        return take(self, root)

    def state(self) -> ClusterState:
        """What was taken so far."""
        bare = (pod for pod in self._pods.items() if not self._is_covered(*pod))
        return ClusterState(
            namespaces=self._namespaces,
            limit_ranges={name: tuple(ranges) for name, ranges in self._limit_ranges.items()},
            workloads=(*self._workloads.items(), *bare),
            overheads=self._overheads,
            default_storage_class=self._default_storage_class(),
            not_counted=dict(self._not_counted),
        )

    def _take_namespace(self, root: Tree) -> None:
        metadata = mapping(root.get("metadata"), "metadata")
        labels = mapping(metadata.get("labels"), "metadata.labels")
        name = _required(metadata, "name")
        _once(name not in self._namespaces, f"namespace {name}")
        self._namespaces[name] = {key: text(labels[key], f"metadata.labels[{key}]") for key in labels}

    def _take_limit_range(self, root: Tree) -> None:
        namespace = _required(mapping(root.get("metadata"), "metadata"), "namespace")
        self._limit_ranges.setdefault(namespace, []).append(parse_limit_range(root))

    def _take_runtime_class(self, root: Tree) -> None:
        name = _required(mapping(root.get("metadata"), "metadata"), "name")
        self._overheads[name] = parse_runtime_class(root)

    def _take_storage_class(self, root: Tree) -> None:
        metadata = mapping(root.get("metadata"), "metadata")
        annotations = mapping(metadata.get("annotations"), "metadata.annotations")
        if any(annotations.get(key) == "true" for key in _IS_DEFAULT):
            created = text(metadata.get("creationTimestamp"), "metadata.creationTimestamp")
            self._defaults.append((created, _required(metadata, "name")))

    def _take_workload(self, root: Tree) -> str:
        ref, observed = objects.observe(root)
        _once(ref not in self._workloads, str(ref))
        self._workloads[ref] = observed
        return ref.namespace

    def _take_pod(self, root: Tree) -> str | None:
        status = mapping(root.get("status"), "status")
        if status.get("phase") in _TERMINAL:
            return None
        metadata = mapping(root.get("metadata"), "metadata")
        ref = WorkloadRef("", "pods", _required(metadata, "namespace"), _required(metadata, "name"))
        _once(ref not in self._pods, str(ref))
        self._pods[ref] = Observed(
            replicas=1,
            template=objects.intern(objects.prune({"template": {"spec": root.get("spec")}})),
            labels=objects.labels_text(mapping(metadata.get("labels"), "metadata.labels")),
            uid=text(metadata.get("uid"), "metadata.uid"),
            resource_version=text(metadata.get("resourceVersion"), "metadata.resourceVersion"),
            owner=objects.controller(metadata.get("ownerReferences")),
        )
        return ref.namespace

    def _is_covered(self, ref: WorkloadRef, pod: Observed) -> bool:
        """Whether a pod is charged with a workload that is listed too (DESIGN rule 8): by UID and selector.

        What is owned by a Job, a DaemonSet or something unknown is growth that no gate sees, and counts by itself.
        """
        return pod.owner is not None and covers(self._workloads.get(_owner_ref(ref, pod.owner)), pod)

    def _default_storage_class(self) -> str:
        """The newest default class, of equally new ones the first by name: ``GetDefaultClass``, volume/util."""
        newest = max((created for created, _ in self._defaults), default="")
        return min((name for created, name in self._defaults if created == newest), default="")


_TAKERS: Mapping[tuple[str, str], Callable[[Picture, Tree], str | None]] = {
    ("", "Namespace"): Picture._take_namespace,
    ("", "LimitRange"): Picture._take_limit_range,
    ("", "Pod"): Picture._take_pod,
    ("node.k8s.io", "RuntimeClass"): Picture._take_runtime_class,
    ("storage.k8s.io", "StorageClass"): Picture._take_storage_class,
    **dict.fromkeys(objects.RESOURCES, Picture._take_workload),
}
"""(API group, kind) to what is done with such an object."""


def _owner_ref(child: WorkloadRef, owner: OwnerRef) -> WorkloadRef:
    resource = objects.RESOURCES.get((owner.group, owner.kind), "")
    return WorkloadRef("apps" if owner.group else "", resource, child.namespace, owner.name)


def _required(metadata: Mapping[str, Tree], key: str) -> str:
    value = text(metadata.get(key), f"metadata.{key}")
    if not value:
        raise ObjectError(f"metadata.{key}", "is missing")
    return value


def _once(is_new: bool, what: str) -> None:
    if not is_new:
        raise ObjectError("metadata.name", f"{what} is listed twice", "listed-twice")
