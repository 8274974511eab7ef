"""Who may create whom, and whether an object is what its owner made (docs/design.md rule 8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from extauthz.core.model import Kind, Labels, Observed, OwnerRef, WorkloadRef
from extauthz.core.objects.workloads import labels_dict

DEPLOYMENTS: Final = ("apps", "deployments")
STATEFUL_SETS: Final = ("apps", "statefulsets")
REPLICA_SETS: Final = ("apps", "replicasets")
REVISIONS: Final = ("apps", "controllerrevisions")
PODS: Final = ("", "pods")
CLAIMS: Final = ("", "persistentvolumeclaims")

CREATORS: Mapping[Kind, Mapping[tuple[str, str], str]] = {
    REPLICA_SETS: {("apps", "Deployment"): "deployments"},
    REVISIONS: {("apps", "StatefulSet"): "statefulsets"},
    PODS: {
        ("apps", "ReplicaSet"): "replicasets",
        ("apps", "StatefulSet"): "statefulsets",
        ("", "ReplicationController"): "replicationcontrollers",
        ("batch", "Job"): "jobs",
    },
}
"""Kind of a child to the owners known to create it: (group, kind) to the owner's resource."""

CREATED_BY_CUSTOM: Final = frozenset(
    {
        PODS,
        REPLICA_SETS,
        DEPLOYMENTS,
        STATEFUL_SETS,
        ("", "replicationcontrollers"),
        ("batch", "jobs"),
    }
)
"""What a custom resource with a scale subresource may create. It has to select what it creates, or its pods."""

SHARE_TEMPLATES: Final = frozenset({DEPLOYMENTS, STATEFUL_SETS})
"""Owners whose children are revisions of themselves: each of the owner's replicas may be of any of them."""

PRICED_EACH: Final = frozenset({PODS, CLAIMS})
"""Kinds whose ``count/…`` key is in what one of them costs: what makes them is charged with it."""


class Kinship:
    """The built-in kinds, and custom resources with a scale subresource as they become known."""

    def __init__(self) -> None:
        self._custom: dict[tuple[str, str], str] = {}

    def know(self, group: str, kind: str, resource: str) -> bool:
        """Take note of a custom resource with a scale subresource. True if it was not known."""
        is_new = (group, kind) not in self._custom
        self._custom[group, kind] = resource
        return is_new

    def owner_ref(self, child: WorkloadRef, owner: OwnerRef | None) -> WorkloadRef | None:
        """The workload that ``owner`` names, if it is of a kind known to create ``child``'s kind."""
        if owner is None:
            return None
        group = "apps" if owner.group == "extensions" else owner.group  # as older controllers wrote it
        resource = CREATORS.get(child[:2], {}).get((group, owner.kind))
        if resource is None and child[:2] in CREATED_BY_CUSTOM:
            resource = self._custom.get((group, owner.kind))
        return WorkloadRef(group, resource, child.namespace, owner.name) if resource else None

    def covers(self, head: WorkloadRef, owner: Observed | None, ref: WorkloadRef, child: Observed) -> bool:
        """Whether ``head``, as ``owner``, is live, is the very one that ``child`` names (UID), and selects it.

        A controller lets go of pods that it does not select, so that those of a selector that is not kept (one with
        expressions) are known by the UID. Revisions have no pods of their own, and are never selected.
        """
        if owner is None or child.owner is None or not owner.uid or owner.uid != child.owner.uid:
            return False
        if ref[:2] == REVISIONS or (owner.selector is None and head[:2] in _LET_GO and ref[:2] == PODS):
            return True
        by_its_pods = head[:2] != DEPLOYMENTS and child.selector is not None
        return selects(owner.selector, child.labels) or (by_its_pods and selects(owner.selector, child.selector or ""))


_LET_GO: Final = frozenset((group, resource) for (group, _), resource in CREATORS[PODS].items())
"""Owners whose controllers let go of what they do not select (``PodControllerRefManager.ClaimPods``)."""


def selects(selector: Labels | None, labels: Labels) -> bool:
    """Whether a plain selector selects an object with ``labels``; one that is empty or not plain selects none."""
    if not selector:
        return False
    given = labels_dict(labels)
    return all(given.get(key) == value for key, value in labels_dict(selector).items())
