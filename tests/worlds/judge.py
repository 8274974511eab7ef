"""A second judge: the rules of the guarantee by themselves, over a small model that shares nothing with the core.

A quota covers workloads by labels, counts with all quotas above it, and has limits. A write that was allowed is a
*promise* until it has landed or no longer can. To allow one more was right if

- whatever lands in whatever order, no quota ends above its limit (never over), or
- where one may, the write adds nothing to that, and raises its workload above nothing that it was (over is over), and
- what ends in a quota, with what is kept of it for guarantees below, is within its limit, or no higher than before.

So a write to zero is always right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

Key: TypeAlias = tuple[str, str]
"""Namespace and name of a workload."""

Labels: TypeAlias = Mapping[str, str]

At: TypeAlias = tuple[str, str]
"""Quota and resource."""

Charges: TypeAlias = dict[At, int]

Amounts: TypeAlias = Mapping[str, int]
"""Quota key to an amount: CPU in thousandths, storage in GiB, pods by count."""


_LEFT = "-left"


def left_by(key: Key) -> Key:
    """What stands for the claims that a StatefulSet has left behind when it was deleted."""
    return key[0], f"{key[1]}{_LEFT}"


def is_left(key: Key) -> bool:
    """Whether it stands for such claims."""
    return key[1].endswith(_LEFT)


class Members(NamedTuple):
    """What a controller has created for a workload. It stays for a while after its workload has shrunk."""

    claims: int = 0
    """Volume claims of a StatefulSet: as many as ordinals ever had one."""
    running: tuple[tuple[int, int], ...] = ()
    """Replicas and CPU of each ReplicaSet that a Deployment's controller has made."""
    given: tuple[tuple[int, int], ...] = ()
    """The same of those that were given to it by writes."""

    @property
    def sets(self) -> tuple[tuple[int, int], ...]:
        """Of all ReplicaSets."""
        return self.running + self.given


class State(NamedTuple):
    """A workload, as far as it costs."""

    replicas: int
    cpu_m: int
    tier: str
    """Its own label, by which quotas select."""
    claim_gi: int = 0
    """What the volume claim of each replica asks for."""
    members: Members = Members()
    side_m: int = 0
    """CPU of a sidecar, in thousandths. Some patches leave it as it is."""

    def amounts(self) -> Amounts:
        """Its cost: all replicas at the most expensive template that runs, or the sum of its ReplicaSets."""
        claims, running = self.members.claims, self.members.sets
        dearest = max([self.cpu_m + self.side_m, *(cpu_m for _, cpu_m in running)])
        return {
            "pods": max(self.replicas, sum(count for count, _ in running)),
            "requests.cpu": max(self.replicas * dearest, sum(count * cpu_m for count, cpu_m in running)),
            "requests.storage": max(self.replicas, claims) * self.claim_gi,
        }


class Promise(NamedTuple):
    """A write that was allowed and may still land. ``None``: it leaves that as it is."""

    key: Key
    replicas: int | None
    cpu_m: int | None
    tier: str | None = None
    creates: bool = False
    side_m: int | None = None
    only_on: str = ""
    """The resourceVersion that it needs; else it is refused."""
    joins: Key | None = None
    """The owner that it gives its workload to, or takes it from. It counts for nothing until it has landed. Then what
    is there counts."""
    claim_gi: int = 0
    """What the claim of each replica asks for, where it is created."""

    @property
    def changes(self) -> bool:
        """It leaves another template."""
        return self.cpu_m is not None


class Quota(NamedTuple):
    """A WorkspaceQuota."""

    name: str
    parent: str
    namespaces: Mapping[str, str] | None
    workloads: Mapping[str, str]
    hard: Amounts
    guaranteed: Amounts = MappingProxyType({})


class View(NamedTuple):
    """What decides in which quotas a workload counts, now or earlier."""

    quotas: Mapping[str, Quota]
    namespaces: Mapping[str, Labels]
    tiers: Mapping[Key, str]
    """Labels of workloads, where they are not what they are now."""

    def covering(self, namespace: str, tier: str) -> set[str]:
        """Names of the quotas that a workload counts in: those that select it, and all above them."""
        found: set[str] = set()
        labels = self.namespaces.get(namespace)
        for one in self.quotas.values():
            if labels is None or one.namespaces is None or not _meets(labels, one.namespaces):
                continue
            name = one.name if _meets({"tier": tier}, one.workloads) else ""
            while name and name not in found:
                found.add(name)
                name = self.quotas[name].parent if self.quotas[name].parent in self.quotas else ""
        return found

    def promising(self, others: Iterable[View]) -> View:
        """The same with the largest guarantees of all."""
        quotas = dict(self.quotas)
        for view in others:
            for name, other in view.quotas.items():
                if name in quotas:
                    most = {
                        key: max(other.guaranteed.get(key, 0), quotas[name].guaranteed.get(key, 0))
                        for key in other.hard
                    }
                    quotas[name] = quotas[name]._replace(guaranteed=most)
        return self._replace(quotas=quotas)

    def covers(self, namespace: str) -> bool:
        """Whether a quota covers a workload in a namespace, under some labels."""
        return any(self.covering(namespace, tier) for tier in ("", "web", "job"))

    def always_covers(self, namespace: str, tiers: Iterable[str]) -> bool:
        """Whether a quota covers a workload in a namespace, whichever of these labels it has."""
        return all(self.covering(namespace, tier) for tier in tiers)

    def total(self, states: Mapping[Key, Iterable[State]]) -> Charges:
        """(quota, key) to the most that may be in use, in any possible state of each workload.

        A StatefulSet that is made finds the claims that one of its name has left: they are not there twice.
        """
        totals = {(name, resource): 0 for name, one in self.quotas.items() for resource in one.hard}
        tops = {key: self._top(key[0], some) for key, some in states.items()}
        for key, top in tops.items():
            found = tops.get(left_by(key), {})
            for at, amount in top.items():
                totals[at] += amount - min(amount, found.get(at, 0))
        return totals

    def _top(self, namespace: str, states: Iterable[State]) -> Charges:
        top: Charges = {}
        for one in states:
            amounts = one.amounts()
            for name in self.covering(namespace, one.tier):
                for resource in self.quotas[name].hard:
                    at = name, resource
                    top[at] = max(amounts.get(resource, 0), top.get(at, 0))
        return top

    def kept(self, charges: Charges) -> Charges:
        """(quota, key) to what is kept of it for guarantees of quotas below, where so much is in use."""
        below: dict[str, list[Quota]] = {}
        for one in self.quotas.values():
            below.setdefault(one.parent, []).append(one)
        return {(name, resource): self._kept(below, [name], resource, charges) for name, resource in charges}

    def with_kept(self, states: Mapping[Key, Iterable[State]]) -> Charges:
        """(quota, key) to the most that may be in use with what is kept beside it. A workload is in one place."""
        places: list[list[tuple[Key, list[State]]]] = []
        for key, some in states.items():
            by_place: dict[frozenset[str], list[State]] = {}
            for one in some:
                by_place.setdefault(frozenset(self.covering(key[0], one.tier)), []).append(one)
            places.append([(key, each) for each in by_place.values()])
        most: Charges = {}
        for chosen in product(*(one for one in places if one)):
            charges = self.total(dict(chosen))
            for at, amount in self.kept(charges).items():
                most[at] = max(most.get(at, 0), charges[at] + amount)
        return most

    def _kept(self, below: Mapping[str, list[Quota]], path: list[str], resource: str, charges: Charges) -> int:
        """Of the last of ``path``. Quotas may hang in a circle for a moment."""
        idle = 0
        for child in below.get(path[-1], ()):
            if child.name not in path:
                unused = child.guaranteed.get(resource, 0) - charges.get((child.name, resource), 0)
                idle += max(0, unused, self._kept(below, [*path, child.name], resource, charges))
        return idle


States: TypeAlias = Mapping[Key, Iterable[State]]
"""The possible states of each workload."""


def reachable(first: State | None, version: str, promises: Iterable[Promise]) -> set[State]:
    """Every state that some order of landings leads through."""
    here: set[State | None] = {first}
    for one in promises:
        if one.only_on and one.only_on == version:  # it can only be the first to land
            here.add(landed(first, one))
    free = [one for one in promises if not one.only_on]
    todo = list(here)
    while todo:
        at = todo.pop()
        for one in free:
            after = landed(at, one)
            if after not in here:
                here.add(after)
                todo.append(after)
    return {one for one in here if one is not None}


def landed(at: State | None, promise: Promise) -> State | None:
    """The workload after a write has landed on it; ``None``: there is none."""
    if at is None or promise.creates:
        if at is not None or not promise.creates:
            return at
        count, cpu_m, tier = promise.replicas or 0, promise.cpu_m or 0, promise.tier or ""
        return State(count, cpu_m, tier, promise.claim_gi, side_m=promise.side_m or 0)
    return at._replace(
        replicas=at.replicas if promise.replicas is None else promise.replicas,
        cpu_m=at.cpu_m if promise.cpu_m is None else promise.cpu_m,
        tier=at.tier if promise.tier is None else promise.tier,
        side_m=at.side_m if promise.side_m is None else promise.side_m,
    )


def wrong(
    view: View,
    before: States,
    after: States,
    write: Promise,
    was: Iterable[State | None],
    bound: Callable[[str, str], int | None],
    charged: Iterable[States] = (),
) -> dict[At, tuple[int, int]]:
    """Where it was wrong to allow ``write``: what may be in use, and of how much.

    Args:
        before: what each workload may be like, whichever promises land.
        after: the same with the write.
        was: what its workload was lately; each counts as seen. ``None``: it was not there.
        bound: the limit of a quota's resource; ``None``: there is none.
        charged: what it may also be taken for before: with what can land no more, and may still be charged.
    """
    now = view.total(after)
    bounds = {at: bound(*at) for at in now}
    beyond = {at: (amount, most) for at, amount in now.items() if (most := bounds[at]) is not None and amount > most}
    promised = [at for at, amount in view.kept(dict.fromkeys(now, 0)).items() if amount]
    if not (beyond or promised):
        return {}
    could = view.total(before)
    claims = {left_by(write.key): after[left_by(write.key)]} if left_by(write.key) in after else {}
    raised = [_raised(view, write.key, one, landed(one, write), claims) for one in was] if beyond else []
    found = {at: what for at, what in beyond.items() if now[at] > could[at] or all(at in one for one in raised)}
    with_kept = view.with_kept(after) if promised else {}
    taken = {at: (with_kept[at], most) for at in promised if (most := bounds[at]) is not None and with_kept[at] > most}
    for states in (before, *charged):
        if taken:
            there = view.with_kept(states)
            taken = {at: what for at, what in taken.items() if what[0] > there[at]}
    return {**taken, **found}


def _raised(view: View, key: Key, was: State | None, now: State | None, claims: States) -> set[At]:
    """Where a workload is larger than it was. ``claims`` that it has left are there before and after."""
    before, after = (view.total({key: [one] if one is not None else [], **claims}) for one in (was, now))
    return {at for at, amount in after.items() if amount > before[at]}


def _meets(labels: Labels, wanted: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in wanted.items())
