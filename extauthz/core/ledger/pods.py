"""Groups of pods.

A cluster has many more pods than workloads, and nearly all cost what their owner is charged for anyway. So a pod that
has a controller is kept as its name alone, and with those like it makes a *group*: an entry of its own, that its owner
covers or that counts by itself.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from extauthz.core.kinds import PODS, STATEFUL_SETS
from extauthz.core.ledger.claims import split
from extauthz.core.ledger.pod_costs import first_ordinal
from extauthz.core.model import Labels, Observed, OwnerRef, Template, WorkloadRef
from extauthz.core.objects.workloads import has_finished

_OF_ONE_POD: Final = (
    "statefulset.kubernetes.io/pod-name=",
    "apps.kubernetes.io/pod-index=",
    "batch.kubernetes.io/job-completion-index=",
)
"""Labels by which controllers tell pods of one owner apart. No useful selector asks for them."""


@dataclass(slots=True, eq=False)
class _Group:
    ref: WorkloadRef
    each: Observed
    count: int = 0

    @property
    def observed(self) -> Observed | None:
        """All of its pods; ``None``: it has none any more."""
        each = self.each
        return Observed(self.count, each.template, each.labels, owner=each.owner) if self.count else None


class Pods:
    """Which group each pod is in, and which groups have changed since they were last asked for."""

    def __init__(self) -> None:
        self._names: dict[str, dict[str, tuple[_Group, str]]] = {}
        """Namespace to names of pods, each with its resourceVersion."""
        self._groups: dict[str, dict[tuple[OwnerRef, Labels, Template | None], _Group]] = {}
        """By namespace."""
        self._changed: dict[WorkloadRef, _Group] = {}
        self._ordinals: dict[tuple[str, OwnerRef], list[int]] = {}
        """Of the pods of each StatefulSet that have not finished, by namespace and owner."""
        self._renumbered: set[WorkloadRef] = set()
        self._made = 0

    def __iter__(self) -> Iterator[WorkloadRef]:
        for namespace in list(self._names):
            for name in list(self._names.get(namespace, ())):
                yield WorkloadRef(*PODS, namespace, name)

    def version(self, ref: WorkloadRef) -> str:
        """The resourceVersion of a pod; empty: it is in no group."""
        found = self._names.get(ref.namespace, {}).get(ref.name)
        return found[1] if found is not None else ""

    def group(self, ref: WorkloadRef) -> WorkloadRef | None:
        """The group that a pod is in."""
        found = self._names.get(ref.namespace, {}).get(ref.name)
        return found[0].ref if found is not None else None

    def alike(self, namespace: str) -> Iterator[Observed]:
        """One pod of each group in a namespace."""
        yield from (group.each for group in self._groups.get(namespace, {}).values())

    def put(self, ref: WorkloadRef, pod: Observed | None) -> None:
        """Take the newest state of a pod; ``None``: it is gone, or has no controller."""
        names = self._names.get(ref.namespace, {})
        before, _ = names.pop(ref.name, (None, ""))
        after = None
        if pod is not None and pod.owner is not None:
            after = self._group(ref, pod, pod.owner)
            self._names.setdefault(ref.namespace, names)[ref.name] = after, pod.resource_version
        elif not names:
            self._names.pop(ref.namespace, None)
        if before is after:
            return  # of the same group as it was: nothing that counts has changed
        if before is not None:
            self._count(before, -1)
            self._number(ref, before, list.remove)
        if after is not None:
            self._count(after, 1)
            self._number(ref, after, insort)

    def outside(self, ref: WorkloadRef, stateful_set: Observed | None) -> int:
        """How many pods of a StatefulSet run outside its range of ordinals: its controller deletes them in the end."""
        if stateful_set is None or stateful_set.template is None:
            return 0
        owner = OwnerRef(STATEFUL_SETS[0], "StatefulSet", ref.name, stateful_set.uid)
        found, start = self._ordinals.get((ref.namespace, owner), []), first_ordinal(stateful_set.template) or 0
        return len(found) - bisect_left(found, start + stateful_set.replicas) + bisect_left(found, start)

    def _number(self, ref: WorkloadRef, group: _Group, put: Callable[[list[int], int], None]) -> None:
        owner, template = group.each.owner, group.each.template
        runs = template is None or not has_finished(template)
        if runs and owner is not None and owner[:2] == (STATEFUL_SETS[0], "StatefulSet"):
            found = self._ordinals.setdefault((ref.namespace, owner), [])
            put(found, split(ref.name)[1])
            if not found:
                del self._ordinals[ref.namespace, owner]
            self._renumbered.add(WorkloadRef(*STATEFUL_SETS, ref.namespace, owner.name))

    def renumbered(self) -> set[WorkloadRef]:
        """StatefulSets whose pods have come or gone since this was last asked for."""
        renumbered, self._renumbered = self._renumbered, set()
        return renumbered

    def changes(self) -> list[tuple[WorkloadRef, Observed | None]]:
        """Every group that has changed, as it is now; ``None``: it has no pod any more."""
        changed, self._changed = self._changed, {}
        return [(group.ref, group.observed) for group in changed.values()]

    def _count(self, group: _Group, step: int) -> None:
        group.count += step
        self._changed[group.ref] = group
        groups = self._groups.setdefault(group.ref.namespace, {})
        if group.count:
            groups[_key(group.each)] = group
        else:
            del groups[_key(group.each)]
            if not groups:
                del self._groups[group.ref.namespace]

    def _group(self, ref: WorkloadRef, pod: Observed, owner: OwnerRef) -> _Group:
        each = Observed(0, pod.template, _common(pod.labels), owner=owner)
        found = self._groups.get(ref.namespace, {}).get(_key(each))
        if found is None:
            self._made += 1
            name = f"{owner.kind}/{owner.name}/{self._made}"  # no object's name has a slash
            found = _Group(WorkloadRef(*PODS, ref.namespace, name), each)
        return found


def _key(each: Observed) -> tuple[OwnerRef, Labels, Template | None]:
    assert each.owner is not None, "pods without a controller are in no group"
    return each.owner, each.labels, each.template


def _common(labels: Labels) -> Labels:
    if not any(label in labels for label in _OF_ONE_POD):
        return labels
    return ",".join(pair for pair in labels.split(",") if not pair.startswith(_OF_ONE_POD))


def is_group(ref: WorkloadRef) -> bool:
    """Whether ``ref`` stands for a group of pods and not for an object."""
    return "/" in ref.name
