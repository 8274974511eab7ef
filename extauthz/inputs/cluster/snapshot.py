"""A snapshot of the cluster at one moment, made of whole Kubernetes objects in any order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from extauthz.core.decision.cluster_state import Snapshot
from extauthz.core.errors import ObjectError
from extauthz.core.footprint import LimitRangeDefaults, parse_limit_range, parse_runtime_class
from extauthz.core.kinds import STATEFUL_SETS
from extauthz.core.model import Amounts, Observed, Template, Tree, WorkloadRef
from extauthz.core.objects import devices
from extauthz.core.objects.custom import TEMPLATE, Where
from extauthz.core.objects.fields import kind_of, mapping, required
from extauthz.core.objects.groups import Groups
from extauthz.inputs.cluster import object_readers
from extauthz.inputs.cluster.object_readers import ClaimClass, Workload
from extauthz.inputs.kube import resource
from extauthz.inputs.kube.resource import ScaledKind


class SnapshotBuilder:
    """Takes objects one by one, in any order, but definitions of custom resources before these.

    Args:
        templates: as of ``LiveCluster``.
    """

    def __init__(self, templates: Mapping[str, Where] | None = None) -> None:
        self._templates = templates or {}
        self._groups = [kind for kind, where in self._templates.items() if isinstance(where, Groups)]
        self._customs: dict[tuple[str, str], tuple[ScaledKind, Where]] = {}
        """By API group and kind."""
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._limit_ranges: dict[str, list[LimitRangeDefaults]] = {}
        self._workloads: dict[WorkloadRef, Observed] = {}
        self._revisions: dict[WorkloadRef, Observed] = {}
        self._old_revisions: set[tuple[str, str]] = set()
        """Namespace and name of revisions that StatefulSets may still run."""
        self._overheads: dict[str, Amounts] = {}
        self._claim_templates: dict[str, dict[str, Template]] = {}
        self._device_classes: dict[str, str] = {}
        self._classes: list[ClaimClass] = []
        self._not_counted: Counter[str] = Counter()

    def add(self, obj: Tree) -> str | None:
        """Take one object. Returns the namespace if it is a workload.

        Raises:
            ObjectError: it is not as an API server prints it, or was taken before (code ``listed-twice``).
            ObjectError: an amount of a LimitRange or RuntimeClass cannot be read.
        """
        root = mapping(obj, "(root)")
        group, kind = kind_of(root)
        read = object_readers.COUNTED.get((group, kind))
        if read is not None:
            return self._take_workload(read(root), root)
        if (group, kind) in self._customs:
            return self._take_workload(self._custom((group, kind), root), root)
        take = _TAKERS.get((group, kind))
        if take is None:
            self._not_counted[f"{kind}.{group}" if group else kind] += 1
            return None
        return take(self, root)

    def state(self) -> Snapshot:
        old = [one for one in self._revisions.items() if (one[0].namespace, one[0].name) in self._old_revisions]
        return Snapshot(
            namespaces=self._namespaces,
            limit_ranges={name: tuple(ranges) for name, ranges in self._limit_ranges.items()},
            workloads=(*self._workloads.items(), *old),
            overheads=self._overheads,
            claim_templates=self._claim_templates,
            device_classes=self._device_classes,
            default_storage_class=object_readers.default_class(self._classes),
            kinds=tuple(
                (group, kind, scalable.resource.plural, object_readers.shapes(scalable, template))
                for (group, kind), (scalable, template) in self._customs.items()
            ),
            not_counted=dict(self._not_counted),
        )

    def _custom(self, name: tuple[str, str], root: Tree) -> Workload:
        kind, template = self._customs[name]
        replicas = dict(kind.counts).get(str(root.get("apiVersion")).rpartition("/")[2], kind.spec_replicas)
        return object_readers.read(kind._replace(spec_replicas=replicas), template, root)

    def _take_workload(self, workload: Workload | None, root: Tree) -> str | None:
        if workload is None:
            return None
        ref, observed = workload
        _once(ref not in self._workloads, str(ref))
        self._workloads[ref] = observed
        if ref[:2] == STATEFUL_SETS:
            self._old_revisions.add((ref.namespace, object_readers.old_revision(root)))
        return ref.namespace

    def _take_revision(self, root: Tree) -> None:
        if object_readers.is_of_a_stateful_set(root):
            ref, observed = object_readers.revision(root)
            _once(ref not in self._revisions, str(ref))
            self._revisions[ref] = observed

    def _take_definition(self, root: Tree) -> None:
        if not root.get("status"):  # a manifest: nobody has established it, and nobody said that it is not
            root = root | {"status": {"conditions": [{"type": "Established", "status": "True"}]}}
        kind = resource.scaled(root, self._groups)
        if kind is not None and kind.resource.namespaced:
            template = self._templates.get(kind.resource.group_resource, TEMPLATE)
            self._customs[kind.resource.group, kind.resource.kind] = kind, template

    def _take_namespace(self, root: Tree) -> None:
        name = _metadata(root, "name")
        _once(name not in self._namespaces, f"namespace {name}")
        self._namespaces[name] = object_readers.namespace_labels(root)

    def _take_limit_range(self, root: Tree) -> None:
        self._limit_ranges.setdefault(_metadata(root, "namespace"), []).append(parse_limit_range(root))

    def _take_runtime_class(self, root: Tree) -> None:
        self._overheads[_metadata(root, "name")] = parse_runtime_class(root)

    def _take_claim_template(self, root: Tree) -> None:
        there = self._claim_templates.setdefault(_metadata(root, "namespace"), {})
        there[_metadata(root, "name")] = devices.claim_template(root)

    def _take_device_class(self, root: Tree) -> None:
        self._device_classes[_metadata(root, "name")] = devices.extended_name(root)

    def _take_storage_class(self, root: Tree) -> None:
        self._classes.append(object_readers.claim_class(root))


DEFINITION = (resource.DEFINITIONS.group, resource.DEFINITIONS.kind)

_TAKERS: Mapping[tuple[str, str], Callable[[SnapshotBuilder, Tree], str | None]] = {
    DEFINITION: SnapshotBuilder._take_definition,
    ("", "Namespace"): SnapshotBuilder._take_namespace,
    ("", "LimitRange"): SnapshotBuilder._take_limit_range,
    ("apps", "ControllerRevision"): SnapshotBuilder._take_revision,
    ("node.k8s.io", "RuntimeClass"): SnapshotBuilder._take_runtime_class,
    ("resource.k8s.io", "ResourceClaimTemplate"): SnapshotBuilder._take_claim_template,
    ("resource.k8s.io", "DeviceClass"): SnapshotBuilder._take_device_class,
    ("storage.k8s.io", "StorageClass"): SnapshotBuilder._take_storage_class,
}
"""(API group, kind) to the handler of objects that do not count by themselves."""


def _metadata(root: Tree, key: str) -> str:
    """Raises ObjectError: it is missing."""
    return required(mapping(root.get("metadata"), "metadata"), key)


def _once(is_new: bool, what: str) -> None:
    if not is_new:
        raise ObjectError("metadata.name", f"{what} is listed twice", "listed-twice")
