"""A snapshot of the cluster at one moment, made of whole Kubernetes objects in any order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from extauthz.core.decision.cluster_state import Snapshot
from extauthz.core.errors import ObjectError
from extauthz.core.kinds import STATEFUL_SETS
from extauthz.core.model import Observed, Tree, WorkloadRef
from extauthz.core.objects.custom import TEMPLATE, Where
from extauthz.core.objects.fields import kind_of, mapping, place_of, required
from extauthz.core.objects.groups import Groups
from extauthz.inputs.cluster import object_readers
from extauthz.inputs.cluster.object_readers import Workload
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
        self._noted: dict[tuple[str, str], dict[tuple[str, str], Any]] = {name: {} for name in object_readers.NOTED}
        """By API group and kind, what counts of objects that change the cost of others: by namespace and name."""
        self._workloads: dict[WorkloadRef, Observed] = {}
        self._revisions: dict[WorkloadRef, Observed] = {}
        self._old_revisions: set[tuple[str, str]] = set()
        """Namespace and name of revisions that StatefulSets may still run."""
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
        if (group, kind) in self._noted:
            self._note((group, kind), root)
        elif (group, kind) == DEFINITION:
            self._take_definition(root)
        elif (group, kind) == _REVISION:
            self._take_revision(root)
        else:
            self._not_counted[f"{kind}.{group}" if group else kind] += 1
        return None

    def state(self) -> Snapshot:
        old = [one for one in self._revisions.items() if (one[0].namespace, one[0].name) in self._old_revisions]
        return Snapshot(
            namespaces=self._by_name(*_NAMESPACE),
            limit_ranges={name: tuple(there.values()) for name, there in self._by_namespace(*_LIMIT_RANGE).items()},
            workloads=(*self._workloads.items(), *old),
            overheads=self._by_name("node.k8s.io", "RuntimeClass"),
            claim_templates=self._by_namespace(*_CLAIM_TEMPLATE),
            device_classes=self._by_name("resource.k8s.io", "DeviceClass"),
            default_storage_class=object_readers.default_class(self._by_name(*_STORAGE_CLASS).values()),
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

    def _note(self, what: tuple[str, str], root: Tree) -> None:
        place, there = place_of(root), self._noted[what]
        if what in (_LIMIT_RANGE, _CLAIM_TEMPLATE):
            required(root["metadata"], "namespace")
        _once(what != _NAMESPACE or place not in there, f"namespace {place[1]}")
        there[place] = object_readers.NOTED[what](root)

    def _by_name(self, group: str, kind: str) -> dict[str, Any]:
        return {name: value for (_, name), value in self._noted[group, kind].items()}

    def _by_namespace(self, group: str, kind: str) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for (namespace, name), value in sorted(self._noted[group, kind].items()):
            found.setdefault(namespace, {})[name] = value
        return found


DEFINITION = (resource.DEFINITIONS.group, resource.DEFINITIONS.kind)
_REVISION = ("apps", "ControllerRevision")
_NAMESPACE, _LIMIT_RANGE = ("", "Namespace"), ("", "LimitRange")
_CLAIM_TEMPLATE = ("resource.k8s.io", "ResourceClaimTemplate")
_STORAGE_CLASS = ("storage.k8s.io", "StorageClass")


def _once(is_new: bool, what: str) -> None:
    if not is_new:
        raise ObjectError("metadata.name", f"{what} is listed twice", "listed-twice")
