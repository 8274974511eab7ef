"""A cluster of any size with quotas over it: the same for the same seed, and built through the gate's own readers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from extauthz.core.decision.cluster_state import Snapshot
from extauthz.core.model import Observed, Template, WorkloadRef
from extauthz.core.objects import fields, workloads
from extauthz.core.quota.selectors import LabelSelector
from extauthz.core.quota.spec import WorkspaceQuota
from extauthz.core.quota.tree import QuotaTree

WORKSPACES_PER_ORGANISATION = 9
"""Every tenth quota is a root with nine below it."""

WORKLOADS_PER_TEMPLATE = 20
"""How many workloads have pods alike in container names and resources: releases of one chart, revisions, stages."""

_PARTS = ("checkout", "search", "billing", "profile", "inventory", "gateway", "mailer", "ranking")
_CPU = ("50m", "100m", "250m", "500m", "1", "2")
_MEMORY = ("64Mi", "128Mi", "256Mi", "512Mi", "1Gi", "4Gi")


@dataclass(frozen=True)
class Population:
    """``workload_count`` Deployments, spread evenly over the namespaces of all workspaces."""

    quota_count: int
    workload_count: int

    @cached_property
    def workspaces(self) -> tuple[str, ...]:
        """The leaves of the quota tree; one namespace each."""
        return tuple(f"workspace-{i:06}" for i in range(self.quota_count) if i % (WORKSPACES_PER_ORGANISATION + 1))

    def quotas(self) -> QuotaTree:
        """``quota_count`` quotas of four keys each, two deep, with room for everything."""
        return QuotaTree.build(_quota(i) for i in range(self.quota_count))

    @cached_property
    def namespaces(self) -> dict[str, dict[str, str]]:
        return {
            namespace: {"kubernetes.io/metadata.name": namespace, "workspace": workspace}
            for namespace, workspace in zip(self._namespaces, self.workspaces, strict=True)
        }

    @cached_property
    def _namespaces(self) -> tuple[str, ...]:
        return tuple(f"team-{i:06}-prod" for i in range(len(self.workspaces)))

    @property
    def state(self) -> Snapshot:
        return Snapshot(self.namespaces, self.workloads)

    @property
    def workloads(self) -> Iterator[tuple[WorkloadRef, Observed]]:
        """Every string of a workload is its own, and templates are shared, as in what a state source reads."""
        templates = [_template(i) for i in range(max(1, self.workload_count // WORKLOADS_PER_TEMPLATE))]
        return (self._workload(i, templates[i % len(templates)]) for i in range(self.workload_count))

    def namespace(self, i: int) -> str:
        """The namespace of workload number ``i``."""
        return self._namespaces[i % len(self._namespaces)]

    def name(self, i: int) -> str:
        """The name of workload number ``i``."""
        return f"{_PARTS[i % len(_PARTS)]}-api-{i:07}"

    def resource_version(self, i: int) -> str:
        """The resourceVersion of workload number ``i``."""
        return str(300_000_000 + i)

    def _workload(self, i: int, template: Template) -> tuple[WorkloadRef, Observed]:
        labels = fields.labels_text({"app": self.name(i)})
        ref = WorkloadRef("apps", "deployments", self._namespaces[i % len(self._namespaces)], self.name(i))
        return ref, Observed(1 + i % 8, template, labels, uid(i), self.resource_version(i), selector=labels)


def uid(i: int) -> str:
    """A UID of the API server's form."""
    return f"736b861c-5232-412a-aff0-{i:012x}"


def _quota(i: int) -> WorkspaceQuota:
    order = i % (WORKSPACES_PER_ORGANISATION + 1)
    hard = {"requests.cpu": 10**15, "requests.memory": 10**25, "limits.memory": 10**25, "pods": 10**18}
    if not order:
        return WorkspaceQuota(f"organisation-{i:06}", hard=hard)
    name = f"workspace-{i:06}"
    selector = LabelSelector((("workspace", name),))
    return WorkspaceQuota(name, f"organisation-{i - order:06}", selector, hard=hard)


def _template(i: int) -> Template:
    pick = random.Random(i)
    memory = pick.choice(_MEMORY)
    resources = {"requests": {"cpu": pick.choice(_CPU), "memory": memory}, "limits": {"memory": memory}}
    containers = [{"name": f"{pick.choice(_PARTS)}-{i}", "resources": resources}]
    return workloads.intern({"template": {"spec": {"containers": containers}}})
