"""What sources report of objects: one by one or as lists, late, twice, and in any order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Final, TypeVar

from cachetools import FIFOCache

from extauthz.core.kinds import DEVICE_CLAIMS, PODS, RESIZES, STATEFUL_SETS
from extauthz.core.ledger.accounts import NOWHERE
from extauthz.core.ledger.claims import claimed_by, ephemeral
from extauthz.core.ledger.entry import Entry, LeftTemplates, PendingWrite, Workloads, is_newer
from extauthz.core.ledger.ownership import Ownership
from extauthz.core.ledger.pending_writes import PendingWrites
from extauthz.core.ledger.pods import Pods, is_group
from extauthz.core.ledger.rollouts import Rollouts
from extauthz.core.ledger.usage import Usage
from extauthz.core.model import Kind, Observed, WorkloadRef

T = TypeVar("T")

_REMEMBERED = 16_384
"""How many deletions are remembered, and how many of pods. A state from before a deletion that comes after it brings
nothing back."""


_AT_ONCE = 8
"""How many objects of a list are taken in one step. A pod takes about a tenth of a millisecond."""


class Observations:
    """Keeps workloads, ownership, usage and pending writes equal to what is observed."""

    def __init__(self, workloads: Workloads, ownership: Ownership, usage: Usage, pending: PendingWrites) -> None:
        self._workloads = workloads
        self._ownership = ownership
        self._usage = usage
        self._pending = pending
        self._pods = Pods()
        self._ephemeral: dict[WorkloadRef, dict[WorkloadRef, str]] = {}
        """Pods to the claims of their ephemeral volumes. Few have any."""
        self._claiming: dict[WorkloadRef, tuple[WorkloadRef | None, str]] = {}
        """Claims whose pod has come, gone, or changed its group."""
        self._devices: dict[WorkloadRef, dict[WorkloadRef, str]] = {}
        """Pods to the claims of devices that were made for them, and which of theirs each is."""
        self._rollouts = Rollouts()
        """Templates that were left, and may still run."""
        self._passed: dict[WorkloadRef, Callable[[PendingWrite], bool]] = {}
        """Resizes and creates of pods that were seen since, and which writes of them that ends."""
        self._gone: FIFOCache[WorkloadRef, str] = FIFOCache(_REMEMBERED)
        """As of which resourceVersion workloads were gone, of the last that were."""
        self._gone_pods: FIFOCache[WorkloadRef, str] = FIFOCache(_REMEMBERED)
        """The same of pods, which come and go more often than all others."""

    def observe(self, ref: WorkloadRef, observed: Observed | None, version: str = "", *, is_next: bool = True) -> bool:
        """Take the newest state of a workload; ``None``: it is gone, as of resourceVersion ``version``.

        What is older than what is known already came late, on a watch that a consistent read overtook: it is ignored.
        What states no version, or one that cannot be compared, is taken as it comes.

        Args:
            is_next: a watch shows it, state by state. Else it may have had others in between.

        Returns:
            Whether it was taken.
        """
        if self.is_late(ref, observed.resource_version if observed is not None else version):
            return False  # the state only moves forward
        if observed is None and version:
            (self._gone_pods if ref[:2] == PODS else self._gone)[ref] = version
        self._take(ref, observed, version, is_next=is_next)
        self._take_groups()
        return True

    def pod(self, ref: WorkloadRef) -> Entry | None:
        """The entry that a pod counts in: its own, or that of its group."""
        return self._workloads.get(self._pods.group(ref) or ref)

    def pods_in(self, namespace: str) -> Iterator[Observed]:
        """Pods that are there; of those that are alike one."""
        yield from self._pods.alike(namespace)
        for ref in self._workloads.of_unit(PODS, namespace):
            entry = self._workloads.get(ref)
            if entry is not None and entry.observed is not None and not is_group(ref):
                yield entry.observed

    def pods_by_origin(self, namespace: str) -> tuple[dict[str, list[Observed]], list[Observed]]:
        """Pods that are there, of those that are alike one. By the UID of the object that has made them, or what it has
        made has; and those of owners that are not known: an operator may make them through objects that do not count.
        """
        known: dict[str, list[Observed]] = {}
        unknown: list[Observed] = []
        for one in self.pods_in(namespace):
            if one.owner is not None:
                owner, is_known = self._ownership.origin(namespace, one.owner)
                (known.setdefault(owner.uid, []) if is_known else unknown).append(one)
        return known, unknown

    def is_late(self, ref: WorkloadRef, version: str) -> bool:
        """Whether a state of a workload as of ``version`` is older than what is known of it."""
        entry = self._workloads.get(ref)
        held = entry.observed if entry is not None else None
        if held is not None:
            return is_newer(held.resource_version, version)
        if ref[:2] != PODS:
            return is_newer(self._gone.get(ref, ""), version)  # from before its deletion
        return is_newer(self._pods.version(ref) or self._gone_pods.get(ref, ""), version)

    def observe_all(self, kind: Kind, workloads: Iterable[tuple[WorkloadRef, Observed]], version: str) -> None:
        """Take a list of all workloads of a kind, made at resourceVersion ``version``. Objects that are not in it are
        gone."""
        for _ in self.observing_all(kind, workloads, version):
            pass

    def observing_all(
        self, kind: Kind, workloads: Iterable[tuple[WorkloadRef, Observed]], version: str
    ) -> Iterator[None]:
        """``observe_all`` in steps of a few milliseconds. Between two of them decisions may be made, and whatever was
        not taken yet is as it was before, as if watches were behind; what others bring meanwhile stays if it is newer.
        """
        listed: set[WorkloadRef] = set()
        for several in _in_steps(workloads):
            for ref, observed in several:
                listed.add(ref)
                if not self.is_late(ref, observed.resource_version):
                    self._take(ref, observed, is_next=False)
            self._take_groups()
            yield
        for some in _in_steps(self._there(kind)):
            for ref in some:
                if ref not in listed:
                    self.observe(ref, None, version)
            yield

    def replace(self, workloads: Iterable[tuple[WorkloadRef, Observed]]) -> None:
        """Take a whole new state, whatever its versions. Objects not in it are gone. Pending writes stay (L4)."""
        absent = {ref for kind in {*self._workloads.kinds(), PODS} for ref in self._there(kind)}
        for ref, observed in workloads:
            absent.discard(ref)
            self._take(ref, observed)
        for ref in absent:
            self._take(ref, None)
        self._take_groups()
        for ref in self._rollouts.forget():
            self._set_left(ref, ())

    def reached(self, kind: Kind, version: str) -> None:
        """The watch of a kind has shown everything up to ``version``."""
        for ref, left in self._rollouts.reached(kind, version):
            self._set_left(ref, left)

    def _set_left(self, ref: WorkloadRef, left: LeftTemplates) -> None:
        entry = self._workloads.get(ref)
        assert entry is not None, "it is there: what has gone has left nothing"
        self._usage.change(entry.root, partial(setattr, entry, "left", left))
        self._ownership.forget_gone(entry)

    def observe_kind(self, group: str, kind: str, resource: str, *, through_pods: bool = False) -> None:
        """Note a custom resource that counts. It covers what it has created.

        Args:
            through_pods: as ``Groups``.
        """
        if not self._ownership.know(group, kind, resource, through_pods=through_pods):
            return  # what it has created is attributed already
        makers = {(group, kind), ("", "Pod")} if through_pods else {(group, kind)}
        for entry in list(self._workloads):
            owner = entry.observed.owner if entry.observed is not None else None
            if owner is not None and owner[:2] in makers:
                self._move(entry, entry.observed)

    def _there(self, kind: Kind) -> Iterator[WorkloadRef]:
        yield from (ref for ref in self._workloads.observed(kind) if not is_group(ref))
        if kind == PODS:
            yield from self._pods

    def _take(self, ref: WorkloadRef, observed: Observed | None, version: str = "", *, is_next: bool = True) -> None:
        if ref[:2] == PODS:
            self._take_pod(ref, observed, version)
            observed = observed if observed is None or observed.owner is None else None
        elif ref[:2] == DEVICE_CLAIMS:
            self._take_device_claim(ref, observed)
        self._take_one(ref, observed, is_next=is_next)

    def _take_pod(self, ref: WorkloadRef, pod: Observed | None, version: str) -> None:
        resize = WorkloadRef(*RESIZES, ref.namespace, ref.name)
        if self._workloads.get(resize) is not None:
            # Each was for one version of the pod: at a newer one it has landed, or cannot.
            now = pod.resource_version if pod is not None else version
            self._passed[resize] = lambda one: is_newer(now, one.precondition.resource_version or "")
        if pod is not None and pod.owner is not None and self._workloads.get(ref) is not None:
            self._passed[ref] = lambda one: one.passed_by(None, pod)
        self._take_claims(ref, pod)
        self._pods.put(ref, pod)

    def _take_claims(self, ref: WorkloadRef, pod: Observed | None) -> None:
        """Note the claims of a pod's ephemeral volumes, those that it had before among them."""
        known = self._ephemeral.pop(ref, {})
        if after := ephemeral(ref, pod):
            self._ephemeral[ref] = after
        for claim, volume in (known | after).items():
            self._claiming[claim] = ref if claim in after else None, volume
        for claim, name in self._devices.get(ref, {}).items():
            self._claiming[claim] = ref if pod is not None else None, name

    def _take_device_claim(self, ref: WorkloadRef, claim: Observed | None) -> None:
        """Note the pod that a claim was made for, which may be seen before it or after."""
        entry = self._workloads.get(ref)
        known = entry.observed if entry is not None else None
        before, after = (claimed_by(ref, one) if one is not None else None for one in (known, claim))
        if before is not None:
            del self._devices[before[0]][ref]
            if not self._devices[before[0]]:
                del self._devices[before[0]]
        pod, name = after or (None, "")
        if pod is not None:
            self._devices.setdefault(pod, {})[ref] = name
        self._claiming[ref] = pod if pod is not None and self._is_there(pod) else None, name

    def _is_there(self, pod: WorkloadRef) -> bool:
        """It was observed: one that a pending write may make is not kept once that ends."""
        entry = self._workloads.get(pod)
        return self._pods.group(pod) is not None or (entry is not None and entry.observed is not None)

    def _take_groups(self) -> None:
        for ref, observed in self._pods.changes():
            self._take_one(ref, observed)
        for ref in self._pods.renumbered():
            self._set_outside(self._workloads.get(ref))
        passed, self._passed = self._passed, {}
        for ref, is_passed in passed.items():  # once what the pods hold counts
            self._pending.end_passed(self._workloads.get(ref), is_passed)
        claiming, self._claiming = self._claiming, {}
        for claim, (pod, volume) in claiming.items():
            self._ownership.set_pods(claim, (self._pods.group(pod) or pod) if pod is not None else None, volume)
            entry = self._workloads.get(claim)
            if entry is not None:
                self._move(entry, entry.observed)

    def _set_outside(self, entry: Entry | None) -> None:
        outside = self._pods.outside(entry.ref, entry.observed) if entry is not None else 0
        if entry is not None and outside != entry.outside:
            self._usage.change(entry.root, partial(setattr, entry, "outside", outside))

    def _take_one(self, ref: WorkloadRef, observed: Observed | None, *, is_next: bool = True) -> None:
        entry = self._workloads.get(ref) or Entry(ref)
        before = entry.observed
        if before == observed:
            return  # told twice, as by a list after a watch
        between = [] if is_next or observed is None else [*entry.stored_before(observed.resource_version)]
        if _differ_in_version_alone(before, observed) and not between:
            entry.observed = observed
        else:
            self._move(entry, observed, between)
        if entry.pending_writes:
            self._pending.end_passed(entry, lambda one: one.passed_by(before, observed))

    def _place(self, entry: Entry, observed: Observed | None, between: Iterable[PendingWrite]) -> None:
        """Put it where it belongs now, without a count."""
        self._workloads.keep(entry)
        entry.left = self._rollouts.observed(entry.ref, entry.observed, observed, entry.top_count(), between)
        if observed is not None:
            entry.expected = None
        elif entry.pending_writes:
            entry.expected = entry.shown
        entry.observed = observed
        self._ownership.regroup(entry)
        if entry.ref[:2] == STATEFUL_SETS:
            entry.outside = self._pods.outside(entry.ref, observed)

    def _move(self, entry: Entry, observed: Observed | None, between: Iterable[PendingWrite] = ()) -> None:
        """The same, and count it and all whose position it may change. While all is loaded, that is done at its end."""
        if self._usage.is_loading:
            self._place(entry, observed, between)
            self._ownership.forget_gone(entry)
            return  # each object of a family would count all of it anew
        touched = self._ownership.touched(entry, observed)
        before = {one.ref: self._usage.position(one) for one in touched if one.head is None}
        self._place(entry, observed, between)
        for one in touched:
            self._ownership.find_adoptable(one)
        for one in touched:
            old = before.get(one.ref, NOWHERE)
            if one.head is None:
                self._usage.book(one, old, self._usage.add_up(one))
            elif old is not NOWHERE:
                self._usage.shift(one.ref, old, NOWHERE)
        for one in touched:
            self._ownership.forget_gone(one)


def _in_steps(items: Iterable[T]) -> Iterator[list[T]]:
    left = iter(items)
    while several := list(islice(left, _AT_ONCE)):
        yield several


def _differ_in_version_alone(before: Observed | None, observed: Observed | None) -> bool:
    """A write of the status only, as most are: nothing that counts has changed."""
    if before is None or observed is None:
        return False
    return bool(_BESIDE_VERSION(before) == _BESIDE_VERSION(observed))


_BESIDE_VERSION: Final = attrgetter(*(each.name for each in fields(Observed) if each.name != "resource_version"))
