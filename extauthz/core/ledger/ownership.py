"""Which workload covers which: an owner covers the children that it made, and a StatefulSet the claims that are named
after it.

Ownership is attributed, never a reason to exclude: a child counts with its owner up to the owner's grant, and what it
has above that is charged (``envelope``; design.md rule 8).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from extauthz.core.kinds import (
    BY_KEY,
    BY_NAME,
    CLAIMS,
    DEPLOYMENTS,
    DEVICE_CLAIMS,
    LET_GO,
    MADE_BY_CUSTOM,
    PODS,
    REPLICA_SETS,
    REVISIONS,
    STATEFUL_SETS,
)
from extauthz.core.ledger.claims import Claims, split, stem_of, stems
from extauthz.core.ledger.entry import Entry, PendingWrite, Workloads, is_named
from extauthz.core.model import ANY_LABELS, Kind, Observed, OwnerRef, Template, WorkloadRef
from extauthz.core.objects.fields import selects

_CLAIMS = (CLAIMS, DEVICE_CLAIMS)

_POD: Final = ("", "Pod")

_GENERATIONS: Final = 8
"""How many owners of owners are looked at. A pod of a custom resource's Deployment has three."""

_HASH: Final = "pod-template-hash="
"""The label that a Deployment's controller gives to what it makes, and by nobody else."""


class Ownership:
    """Keeps ``Entry.head``, ``Entry.children`` and ``Entry.claims`` of all workloads equal to what is observed."""

    def __init__(self, workloads: Workloads) -> None:
        self._workloads = workloads
        self._custom: dict[tuple[str, str], str] = {}
        """Custom resources that count, as they become known: (group, kind) to the plural."""
        self._through_pods: Kind | None = None
        """The one whose pods own StatefulSets of its own."""
        self._children: dict[WorkloadRef, dict[WorkloadRef, Entry]] = {}
        """Owner named by a child, to the children that name it, covered or not; likewise stem to claims."""
        self._owners: dict[WorkloadRef, WorkloadRef] = {}
        """Child to the owner that it names; claim to its stem."""
        self._stems: dict[WorkloadRef, tuple[WorkloadRef, ...]] = {}
        """Live StatefulSet to the stems of its claims."""
        self._claimants: dict[WorkloadRef, dict[WorkloadRef, None]] = {}
        """Stem to the live StatefulSets that name their claims so: two may, and the first by name has them."""
        self._pods: dict[WorkloadRef, tuple[WorkloadRef, str]] = {}
        """Claim of an ephemeral volume, or of devices, to the group of its pod, and which of its claims it is."""
        self._orphans: dict[str, dict[WorkloadRef, Entry]] = {}
        """By namespace: ReplicaSets that a Deployment has made and left."""

    def know(self, group: str, kind: str, resource: str, *, through_pods: bool = False) -> bool:
        """Note a custom resource that counts. True if it was not known.

        Args:
            through_pods: as ``Groups``. Of one kind at most.
        """
        is_new = (group, kind) not in self._custom
        self._custom[group, kind] = resource
        if through_pods:
            self._through_pods = group, resource
        return is_new

    def touched(self, entry: Entry, observed: Observed | None) -> tuple[Entry, ...]:
        """Every entry whose position may change when ``entry`` becomes ``observed``. Each once, ``entry`` first."""
        named = self._owner(self._named(entry.ref, observed))
        was_named = self._owner(self._owners.get(entry.ref))
        ones = [entry, entry.head, named, was_named, *self._children.get(entry.ref, {}).values()]
        if entry.ref[:2] == CLAIMS:
            ones += self._to_come(entry.ref)
        elif entry.ref[:2] == PODS:
            ones += [*self._adopters_of_pods(entry.head), *self._adopters_of_pods(named)]
        elif _is_orphan(entry.ref, entry.observed) or _is_orphan(entry.ref, observed):
            ones += self._adopters(entry.ref.namespace, observed)
        for stem in {*self._stems.get(entry.ref, ()), *stems(entry.ref, observed)}:
            ones += self._children.get(stem, {}).values()
            ones += map(self._workloads.get, self._claimants.get(stem, ()))
        known = [one for one in ones if one is not None]
        touched: dict[WorkloadRef, Entry] = {}
        for one in (*known, *(one.root for one in known)):
            touched.setdefault(one.ref, one)
        return tuple(touched.values())

    def regroup(self, entry: Entry) -> None:
        """Attach ``entry`` to its owner or detach it, and likewise the children and the claims that name it."""
        self._name_owner(entry)
        self._attach(entry)
        for child in self._children.get(entry.ref, {}).values():
            self._attach(child)
        if entry.ref[:2] == STATEFUL_SETS:
            self._claim(entry)
            self.find_claims(entry)
        elif entry.ref[:2] == CLAIMS:
            for maker in self._to_come(entry.ref):
                self.find_claims(maker)
        elif entry.ref[:2] == REPLICA_SETS:
            self._note_orphan(entry)

    def find_adoptable(self, entry: Entry) -> None:
        """Note of which templates a Deployment may adopt ReplicaSets."""
        if entry.ref[:2] == DEPLOYMENTS:
            entry.adoptable = self.adoptable(entry.ref, entry.observed)

    def find_all_adoptable(self) -> None:
        """Note that of all Deployments."""
        for entry in self._workloads:
            self.find_adoptable(entry)

    def adoptable(self, ref: WorkloadRef, deployment: Observed | None) -> tuple[Template, ...]:
        """Templates of ReplicaSets that a Deployment may adopt: it selects them, they have pods, and a Deployment
        before it has left them as orphans, or one of its name that has gone.

        Its controller may bring such a one to the Deployment's count before it begins a rollout (``_running`` in
        ``envelope``). The pods that are there may hold more than its template says (a resize, a sidecar): what they say
        is told too.
        """
        left, named = self._orphans.get(ref.namespace, {}), self._children.get(ref, {})
        if deployment is None or not (left or named):
            return ()  # nearly always: nothing was orphaned
        found = [
            seen.template
            for one in (*left.values(), *named.values())
            if one.head is None and one.observed is not None and _may_adopt(one.observed, deployment)
            for seen in (one.observed, *(group.observed for group in (one.pods or {}).values()))
            if seen is not None and seen.template is not None
        ]
        return tuple(dict.fromkeys(found))

    def _note_orphan(self, entry: Entry) -> None:
        left = self._orphans.setdefault(entry.ref.namespace, {})
        left.pop(entry.ref, None)
        if _is_orphan(entry.ref, entry.observed):
            left[entry.ref] = entry
        if not left:
            del self._orphans[entry.ref.namespace]

    def _adopters(self, namespace: str, left: Observed | None) -> Iterator[Entry]:
        """Deployments that may adopt some ReplicaSet, or this one."""
        for ref in self._workloads.of_unit(DEPLOYMENTS, namespace):
            entry = self._workloads.get(ref)
            if entry is None or entry.observed is None:
                continue
            if entry.adoptable or (left is not None and selects(entry.observed.selector, left.labels)):
                yield entry

    def _adopters_of_pods(self, owner: Entry | None) -> Iterator[Entry | None]:
        """Deployments that may adopt the ReplicaSet of some pods."""
        if owner is not None and owner.ref[:2] == REPLICA_SETS and owner.head is None:
            yield self._owner(self._named(owner.ref, owner.observed))
            if _is_orphan(owner.ref, owner.observed):
                yield from self._adopters(owner.ref.namespace, owner.observed)

    def find_claims(self, entry: Entry) -> None:
        """Note which claims a StatefulSet finds that a pending write creates: those that are there by its name.

        They count by themselves until it is seen. It may be seen under other quotas.
        """
        if entry.ref[:2] != STATEFUL_SETS or entry.observed is not None:
            return  # one that is there has its claims by ``_claim``
        pending_writes = entry.live_pending_writes()
        creates = any(one.creates for one in pending_writes)
        templates = [template for one in pending_writes if creates for template in one.templates]
        found = Claims()
        for stem in {stem for template in templates for stem in stems(entry.ref, Observed(0, template, ""))}:
            for claim in self._children.get(stem, {}).values():
                by, there = claim.root.shown, claim.shown
                assert by is not None, "what has claims is there"
                assert there is not None, "what names its stem is there"
                found.add(claim.ref, replace(there, labels=by.labels), entry.ref)
        entry.claims = found or None

    def head_of(self, entry: Entry) -> Entry | None:
        """The owner that would cover an entry that is not kept: a workload that a create would make."""
        head, shown = self._owner(self._named(entry.ref, entry.shown)), entry.shown
        is_there = entry.observed is not None
        if head is None or shown is None:
            return None  # it names none that is there
        return head if self._covers(head.ref, head.observed, entry.ref, shown, is_there=is_there) else None

    def joined(self, entry: Entry, pending_write: PendingWrite) -> tuple[Entry, bool] | None:
        """The owner whose family ``pending_write`` may bring ``entry`` into, and whether that very owner is known.

        ``None``: it is in that family already, or comes into none. By its controller, or by labels that this selects.
        """
        shown = entry.shown
        before = shown.owner if shown is not None else None
        owner = pending_write.owner or before
        ref = self._owner_ref(entry.ref, owner)
        if ref is None or owner is None:
            return None  # it has no owner, or one of a kind that covers nothing
        labels = {*entry.all_labels(), *pending_write.labels}
        has_others = labels != {shown.labels if shown is not None else ""}
        may_select = entry.observed is None and ref[:2] != DEPLOYMENTS  # by its own selector, which no write tells
        enters = has_others or may_select
        if entry.head is not None and entry.head.ref == ref:
            enters = entry.may_leave() and not entry.leaves(pending_write)
        if owner == before and not enters:
            return None  # it stays where it is
        head = self._workloads.get(ref) or Entry(ref)
        if head.observed is None or not is_named(ref, head.observed, owner):
            if owner[:2] == _POD:
                return None  # it may be of another kind
            # Another object of that name may still come. Until then it tells nothing of what it would select. Whoever
            # changes neither owner nor labels brings it nowhere.
            return (head, False) if owner != before or has_others else None
        selector = shown.selector if shown is not None else None
        each = (Observed(0, None, one, owner=owner, selector=selector) for one in labels)
        is_covered = (self._covers(ref, head.observed, entry.ref, one) for one in each)
        # Where labels or the selector may be any, it may be selected: what is not known counts.
        return (head, True) if may_select or ANY_LABELS in labels or any(is_covered) else None

    def forget_gone(self, entry: Entry) -> None:
        """Forget an entry of which nothing is known."""
        if entry.idle:
            self._detach(entry)
            self._unname_owner(entry)
            self._workloads.drop(entry)

    def set_pods(self, claim: WorkloadRef, pods: WorkloadRef | None, volume: str) -> None:
        """Note whose claim it is, of an ephemeral volume or of devices; ``None``: no pod's that exists."""
        self._pods.pop(claim, None)
        if pods is not None:
            self._pods[claim] = pods, volume

    def _owner_ref(self, child: WorkloadRef, owner: OwnerRef | None) -> WorkloadRef | None:
        """The workload that ``owner`` names, if it is of a kind known to create ``child``'s kind."""
        if owner is None:
            return None  # it has no owner
        kind, creator = BY_KEY.get(child[:2]), BY_NAME.get(owner[:2])
        if kind is None:
            return None  # a custom resource: what another one has made counts by itself
        if creator is not None and creator.key in kind.created_by:
            return WorkloadRef(*creator.key, child.namespace, owner.name)
        if owner[:2] == _POD and child[:2] == STATEFUL_SETS and self._through_pods is not None:
            stem, _ = split(owner.name)
            return WorkloadRef(*self._through_pods, child.namespace, stem) if stem else None  # else no pod of a set
        if child[:2] != PODS and child[:2] not in MADE_BY_CUSTOM.get(owner[:2], ()):
            return None  # no replica of a custom resource, whatever it says (design.md rule 8)
        resource = self._custom.get(owner[:2])
        return WorkloadRef(owner.group, resource, child.namespace, owner.name) if resource else None

    def origin(self, namespace: str, owner: OwnerRef) -> tuple[OwnerRef, bool]:
        """The owner of the owner, and so on, of what names ``owner``; and whether that is known to be there."""
        for _ in range(_GENERATIONS):
            kind = BY_NAME.get(owner[:2])
            key = kind.key if kind is not None else (owner.group, self._custom.get(owner[:2], ""))
            entry = self._workloads.get(WorkloadRef(*key, namespace, owner.name))
            seen = entry.observed if entry is not None else None
            if seen is None or seen.uid != owner.uid:
                return owner, False  # of a kind that does not count, not seen yet, or another one of that name
            if seen.owner is None:
                return owner, True
            owner = seen.owner
        return owner, True  # a circle, which anybody can write

    def _covers(
        self, head: WorkloadRef, owner: Observed | None, ref: WorkloadRef, child: Observed, *, is_there: bool = True
    ) -> bool:
        """Whether ``head``, as ``owner``, is live, is the very one that ``child`` names (UID), and selects it.

        A controller lets go of what it does not select, so that what it has by a selector that is not kept (one with
        expressions) is known by the UID. Not so what a write is to make: nobody has let go of it yet. Revisions have no
        pods of their own, and are never selected.
        """
        if owner is None or child.owner is None or not owner.uid or not is_named(head, owner, child.owner):
            return False  # not there, or another object of that name: it would collect the child, and not run it
        if ref[:2] == REVISIONS or (is_there and owner.selector is None and head[:2] in LET_GO):
            return True
        by_its_pods = head[:2] != DEPLOYMENTS and child.selector is not None
        return selects(owner.selector, child.labels) or (by_its_pods and selects(owner.selector, child.selector or ""))

    def _named(self, ref: WorkloadRef, shown: Observed | None) -> WorkloadRef | None:
        if shown is None:
            return None
        if ref in self._pods:
            return ref  # a claim of a pod: ``_owner`` knows the pod's group
        return stem_of(ref) if ref[:2] == CLAIMS else self._owner_ref(ref, shown.owner)

    def _owner(self, named: WorkloadRef | None) -> Entry | None:
        if named is None:
            return None
        if named in self._pods:
            return self._workloads.get(self._pods[named][0])
        if named[:2] == CLAIMS:
            named = min(self._claimants.get(named, ()), default=None)
        return self._workloads.get(named) if named is not None else None

    def _name_owner(self, entry: Entry) -> None:
        self._unname_owner(entry)
        named = self._named(entry.ref, entry.shown)
        if named is not None:
            self._children.setdefault(named, {})[entry.ref] = entry
            self._owners[entry.ref] = named

    def _unname_owner(self, entry: Entry) -> None:
        named = self._owners.pop(entry.ref, None)
        if named is None:
            return
        del self._children[named][entry.ref]
        if not self._children[named]:
            del self._children[named]

    def _to_come(self, claim: WorkloadRef) -> Iterator[Entry]:
        """StatefulSets that are not there, and whose claim it would be by its name."""
        tail = split(claim.name)[0]
        while "-" in tail:
            tail = tail.partition("-")[2]
            entry = self._workloads.get(WorkloadRef(*STATEFUL_SETS, claim.namespace, tail))
            if entry is not None and entry.observed is None:
                yield entry

    def _claim(self, entry: Entry) -> None:
        before, after = self._stems.pop(entry.ref, ()), stems(entry.ref, entry.observed)
        if after:
            self._stems[entry.ref] = after
        if not before:
            entry.claims = None  # those that it was to find
        if before == after:
            return  # nearly always: a claim template cannot be changed
        for stem in before:
            del self._claimants[stem][entry.ref]
            if not self._claimants[stem]:
                del self._claimants[stem]
        for stem in after:
            self._claimants.setdefault(stem, {})[entry.ref] = None
        for stem in {*before, *after}:
            for claim in self._children.get(stem, {}).values():
                self._attach(claim)

    def _attach(self, child: Entry) -> None:
        self._detach(child)
        head, shown = self._owner(self._owners.get(child.ref)), child.shown
        if head is None or shown is None:
            return  # it counts by itself
        if child.ref[:2] in _CLAIMS:
            head.claims = head.claims or Claims()
            head.claims.add(child.ref, shown, head.ref, self._pods.get(child.ref, (None, None))[1])
        elif not self._covers(head.ref, head.observed, child.ref, shown, is_there=child.observed is not None):
            return  # it counts by itself, whatever it says
        elif child.ref[:2] == PODS and child.observed is not None:
            head.pods = head.pods or {}
            head.pods[child.ref] = child
        else:
            head.children = head.children or {}
            head.children[child.ref] = child
        child.head = head

    def _detach(self, child: Entry) -> None:
        head, child.head = child.head, None
        if head is None:
            return
        if child.ref[:2] in _CLAIMS:
            assert head.claims is not None, "it was added"
            head.claims.remove(child.ref)
        elif head.pods and child.ref in head.pods:
            head.pods = _without(child, head.pods)
        else:
            head.children = _without(child, head.children)


def _may_adopt(replica_set: Observed, deployment: Observed) -> bool:
    return replica_set.replicas > 0 and _HASH in replica_set.labels and selects(deployment.selector, replica_set.labels)


def _is_orphan(ref: WorkloadRef, observed: Observed | None) -> bool:
    """Whether a Deployment has made a ReplicaSet, and it has no controller (``--cascade=orphan``). One without pods is
    nobody's concern: anybody may have hundreds of them."""
    if ref[:2] != REPLICA_SETS or observed is None or not observed.replicas:
        return False
    return observed.owner is None and _HASH in observed.labels


def _without(child: Entry, members: dict[WorkloadRef, Entry] | None) -> dict[WorkloadRef, Entry] | None:
    assert members is not None, "it was added"
    del members[child.ref]
    return members or None
