"""Who may create whom, and whether an object is what its owner made (DESIGN rule 8)."""

from __future__ import annotations

from extauthz.core.intake.objects import labels_dict
from extauthz.core.model import Labels, Observed, OwnerRef, WorkloadRef

CREATORS: dict[tuple[str, str], dict[tuple[str, str], str]] = {
    ("apps", "replicasets"): {("apps", "Deployment"): "deployments"},
}
"""(group, resource) of a child to the owners known to create it: (group, kind) to the owner's resource."""


def owner_ref(child: WorkloadRef, owner: OwnerRef | None) -> WorkloadRef | None:
    """The workload that ``owner`` names, if it is of a kind known to create ``child``'s kind."""
    if owner is None:
        return None
    resource = CREATORS.get((child.group, child.resource), {}).get((owner.group, owner.kind))
    return WorkloadRef(owner.group, resource, child.namespace, owner.name) if resource else None


def covers(owner: Observed | None, child: Observed) -> bool:
    """Whether ``owner`` is live, is the very one that the child names (UID), and selects it."""
    if owner is None or child.owner is None or not owner.uid or owner.uid != child.owner.uid:
        return False
    return selects(owner.selector, child.labels)


def selects(selector: Labels | None, labels: Labels) -> bool:
    """Whether a plain selector selects an object with ``labels``; one that is empty or not plain selects none."""
    if not selector:
        return False
    given = labels_dict(labels)
    return all(given.get(key) == value for key, value in labels_dict(selector).items())
