"""Who may create whom, and whether an object is what its owner made (docs/design.md rule 8)."""

from __future__ import annotations

from extauthz.core.kinds import BY_KEY, BY_NAME, DEPLOYMENTS, LET_GO, PODS, REVISIONS
from extauthz.core.model import Observed, OwnerRef, WorkloadRef
from extauthz.core.objects.metadata import selects


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
        kind, creator = BY_KEY.get(child[:2]), BY_NAME.get(owner[:2])
        if kind is None:
            return None
        if creator is not None and creator.key in kind.created_by:
            return WorkloadRef(*creator.key, child.namespace, owner.name)
        resource = self._custom.get(owner[:2]) if kind.created_by_custom else None
        return WorkloadRef(owner.group, resource, child.namespace, owner.name) if resource else None

    def covers(self, head: WorkloadRef, owner: Observed | None, ref: WorkloadRef, child: Observed) -> bool:
        """Whether ``head``, as ``owner``, is live, is the very one that ``child`` names (UID), and selects it.

        A controller lets go of pods that it does not select, so that those of a selector that is not kept (one with
        expressions) are known by the UID. Revisions have no pods of their own, and are never selected.
        """
        if owner is None or child.owner is None or not owner.uid or owner.uid != child.owner.uid:
            return False
        if ref[:2] == REVISIONS or (owner.selector is None and ref[:2] == PODS and head[:2] in LET_GO):
            return True
        by_its_pods = head[:2] != DEPLOYMENTS and child.selector is not None
        return selects(owner.selector, child.labels) or (by_its_pods and selects(owner.selector, child.selector or ""))
