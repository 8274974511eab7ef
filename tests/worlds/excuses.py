"""What a gate need not have counted when it allowed a write: the cuts of docs/guarantee.md, and nothing else."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from extauthz.core.model import Decision
from tests.worlds.judge import Key, Members, Promise, State, States, is_left, left_by
from tests.worlds.objects import CLAIM_GI, kind_of
from tests.worlds.reference import ReferenceModel
from tests.worlds.views import KEPT_S, UNSEEN_S, Horizon, Views, known_of
from tests.worlds.wire import Question


class Ungated(NamedTuple):
    """Growth that gates only observe."""

    at_s: float
    version: int
    key: Key
    by: str
    """The gate that allowed it where no quota was; empty: none."""
    more: Mapping[str, int]
    """By how much."""
    per_pod_m: int
    """By how much CPU each of its pods, in thousandths. A gate that has not seen it may allow more pods afterwards."""


class Grant(NamedTuple):
    """The state when a gate allowed a write."""

    at_s: float
    """When it was asked."""
    by: str
    """The gate, by its name in that life."""
    uncovered: bool
    """No quota could cover it, so the gate told the other ones afterwards."""
    known: int
    """The version of the workload that it knew at least."""
    was: frozenset[State]
    """What the workload was to it: one of these."""


class Excuses:
    """Keeps growth past the gates, and what gates have allowed.

    Args:
        heard_s: after what time a gate must have heard of a write that another one allowed where no quota was.
    """

    def __init__(self, reference: ReferenceModel, heard_s: float) -> None:
        self.grants: dict[str, Grant] = {}
        """By decision."""
        self._reference = reference
        self._heard_s = heard_s
        self._ungated: deque[Ungated] = deque()

    def grew(self, now_s: float, version: int, before: States, after: States, by: str) -> None:
        """Something has grown past the gates, or ``by`` one of them, which knew of no quota for it."""
        for key, some in after.items():
            was, now = _top(before.get(key, ())), _top(some)
            more = {one: amount - was.get(one, 0) for one, amount in now.items() if amount > was.get(one, 0)}
            per_pod_m = max(_per_pod_m(some) - _per_pod_m(before.get(key, ())), 0) if key in before else 0
            if more or per_pod_m:
                self._ungated.append(Ungated(now_s, version, key, by, more, per_pod_m))
        while self._ungated and self._ungated[0].at_s < now_s - UNSEEN_S - KEPT_S:
            self._ungated.popleft()

    def grown(self, horizon: Horizon, by: str, covered: States, resource: str) -> int:
        """What has grown unseen of these workloads: of each at most what it costs.

        ``by``: the gate, which has seen all that it allowed itself; empty: any.
        """
        past: Counter[Key] = Counter()
        for one in self._ungated:
            if one.key not in covered or (by and one.by == by):
                continue
            if one.version > _seen_up_to(horizon, one.key, covered[one.key]):
                per_pod = one.per_pod_m if resource == "requests.cpu" else 0
                pods = max((state.replicas for state in covered[one.key]), default=0)
                past[one.key] += max(one.more.get(resource, 0), per_pod * pods)
        return sum(min(amount, _top(covered[key]).get(resource, 0)) for key, amount in past.items())

    def charged_by(self, by: str, at_s: float) -> list[Promise]:
        """What may still land, as far as a gate must charge it.

        It may not have heard yet what another gate has allowed where no quota was.
        """
        charged = []
        for id_, one in self._reference.promises.items():
            grant = self.grants[id_]
            if grant.by == by or not grant.uncovered or at_s >= grant.at_s + self._heard_s:
                charged.append(one)
        return charged


def _seen_up_to(horizon: Horizon, key: Key, states: Iterable[State]) -> int:
    """Of claims that were left behind a gate has to see that their owner is gone, and themselves; of an owner also the
    ReplicaSets that were given to it."""
    in_parts = is_left(key) or any(one.members.given for one in states)
    return known_of(key, horizon) if in_parts else horizon(kind_of(key).collection)


def _per_pod_m(states: Iterable[State]) -> int:
    return max((one.cpu_m + one.side_m for one in states), default=0)


def _top(states: Iterable[State]) -> dict[str, int]:
    top: dict[str, int] = {}
    for one in states:
        for name, amount in one.amounts().items():
            top[name] = max(amount, top.get(name, 0))
    return top


# What gates were asked, and what was stored, of late. A refusal for quota is right only if all of it together would
# not fit.

PENDING_PER_TREE = 16
"""How many allowed writes may be under way under one root quota: few, so that a flood meets the bound."""


CLOCKS_S = 8.0
"""How near to the beginning or the end of an override a gate may go by either: the margin, and how far its clock may be
off."""


class Top(NamedTuple):
    """What a workload may have come to, field by field. It may take room for a landing window."""

    until_s: float
    """When it takes no more room, whatever happened."""
    key: Key
    replicas: int
    cpu_m: int
    side_m: int
    tier: str | None
    claims: int
    promise: Promise | None = None
    """The write; ``None``: it is what was seen."""


class Lately:
    """Keeps what may still take room. ``at_s`` is the time by which gates let writes end.

    Args:
        memory_s: for how long a write that a gate was asked about may hold room.
        refused_s: the same, if it was refused for quota: it may have been in a ledger object before.
    """

    def __init__(self, reference: ReferenceModel, views: Views, memory_s: float, refused_s: float) -> None:
        self._reference = reference
        self._views = views
        self._memory_s = memory_s
        self._refused_s = refused_s
        self._tops: list[Top] = []
        self._asks: deque[tuple[float, Key]] = deque()
        """When a write was asked for, and of what."""
        self._last: dict[Key, State] = {}
        """The last state of each workload, also of deleted ones: a gate that has not seen the deletion prices writes by
        it."""
        self._families: dict[tuple[Key, Key], float] = {}
        """ReplicaSets and owners that they were given to, or may be: until when a gate may count them so."""

    def asked(self, at_s: float, promise: Promise) -> None:
        """A gate is about to be asked about a write that may land."""
        if promise.joins is not None:
            self._families[promise.key, promise.joins] = at_s + self._memory_s
        self._note_families(at_s)
        self._asks.append((at_s, promise.key))
        self._tops.append(_asked(at_s + self._memory_s, promise))

    def wrote(self, at_s: float, key: Key, one: State | None, *, is_replica_set: bool) -> None:
        """The API server has stored something of a workload, which is like ``one`` now."""
        if is_replica_set:
            self._note_families(at_s)
        left = self._reference.left(key)
        until_s = at_s + self._memory_s
        if one is not None:  # a gate may not have seen its last state before
            self._tops += [_most(until_s, key, each) for each in {self._last.get(key, one), one}]
            self._last[key] = one
            if one.members.claims and self._is_new(at_s, key):  # claims that are seen before it count by themselves
                self._tops.append(_most(until_s, left_by(key), one._replace(replicas=0, cpu_m=0, side_m=0)))
        elif left is not None:  # a gate may count them by themselves for a while after they are found
            self._tops.append(_most(until_s, left_by(key), left))

    def _note_families(self, at_s: float) -> None:
        for pair in self._reference.given().items():
            self._families[pair] = at_s + self._memory_s

    def dearest_m(self, at_s: float, key: Key) -> int:
        """What a pod of a workload may come to cost, by all that was asked and seen, in thousandths of a CPU."""
        tops = [one for one in self._tops if one.key == key and one.until_s >= at_s]
        return max((one.cpu_m for one in tops), default=0) + max((one.side_m for one in tops), default=0)

    def is_made(self, at_s: float, key: Key) -> bool:
        """Whether a write was asked that makes it where it is not. A gate may follow that although it was refused."""
        asked = (one.promise for one in self._tops if one.promise and one.key == key and one.until_s >= at_s)
        return any(one.creates for one in asked)

    def _is_new(self, at_s: float, key: Key) -> bool:
        """Whether a gate may know of its claims and not of itself: it was made, or was not there, of late."""
        return self.is_made(at_s, key) or any(one.key == left_by(key) and one.until_s >= at_s for one in self._tops)

    def last(self, key: Key) -> State | None:
        """How a workload was last; ``None``: it has never been there."""
        return self._last.get(key)

    def beside(self, at_s: float, promise: Promise) -> list[Promise]:
        """What else was asked of its workload. A gate may charge it still, although it can land no more."""
        found = [one.promise for one in self._tops if one.promise and one.key == promise.key and one.until_s >= at_s]
        if promise in found:
            found.remove(promise)
        return found

    def refused(self, asked_s: float, now_s: float, decision: Decision, question: Question) -> Iterator[str]:
        """What is wrong with a refusal for quota. The write, asked at ``asked_s``, counts for itself, and from now on
        for less long."""
        asked = _asked(asked_s + self._memory_s, question.promise)
        if question.dry:
            self._tops.append(asked)
        yield from self._fits(now_s, decision)
        self._tops.remove(asked)
        if not question.dry:
            self._tops.append(_asked(now_s + self._refused_s, question.promise))

    def _fits(self, now_s: float, decision: Decision) -> Iterator[str]:
        """Quotas that were short by the decision, and where all that was asked lately would fit."""
        self._tops = [one for one in self._tops if one.until_s >= now_s]
        tops: dict[Key, State] = {}
        tiers: dict[Key, set[str]] = {}
        last = {**self._last, **self._reference.workloads()}
        for one in self._tops + [_most(now_s, key, state) for key, state in last.items()]:
            claim_gi = CLAIM_GI if is_left(one.key) else last[one.key].claim_gi
            top = tops.get(one.key, State(0, 0, "", claim_gi))
            tops[one.key] = top._replace(
                replicas=max(top.replicas, one.replicas),
                cpu_m=max(top.cpu_m, one.cpu_m),
                side_m=max(top.side_m, one.side_m),
                members=Members(claims=max(top.members.claims, one.claims)),
            )
            tiers.setdefault(one.key, set()).update([one.tier] if one.tier is not None else [])
        self._join(now_s, tops, tiers)
        horizon = self._views.horizon(now_s)
        near = self._reference.views_near(CLOCKS_S)
        views = [*self._views.believable(horizon), *near]
        promising = [view.promising(near) for view in views]
        shortages = decision.evidence.shortages
        for quota, resource, kept in [(one.quota, one.resource, one.kept) for one in shortages]:
            soon = [view.quotas[quota].hard.get(resource) for view in near if quota in view.quotas]
            least = min(limit or 0 for limit in (*self._views.limits(horizon, quota, resource), *soon))
            total = sum(
                top.amounts()[resource]
                for key, top in tops.items()
                if any(quota in view.covering(key[0], tier) for view in views for tier in tiers[key])
            )
            promised = max(view.kept({(quota, resource): 0})[quota, resource] for view in promising) if kept else 0
            if total + promised <= least:
                what = f"where {total} of {least} can be in use, and {promised} kept"
                yield f"{decision.id} was refused for {resource} of {quota}, {what}"

    def _join(self, at_s: float, tops: dict[Key, State], tiers: dict[Key, set[str]]) -> None:
        """What is given to an owner may count where that does, and the owner where it does. The owner's pods may cost
        as much as its pods."""
        self._families = {pair: until for pair, until in self._families.items() if until >= at_s}
        for key, owner in self._families:
            if key in tops and owner in tops:
                tiers[key] = tiers[owner] = tiers[key] | tiers[owner]
                dearest = max(tops[owner].cpu_m, tops[key].cpu_m + tops[key].side_m)
                tops[owner] = tops[owner]._replace(cpu_m=dearest)

    def asks_beside(self, now_s: float, promise: Promise) -> int:
        """How many writes were asked under quotas that cover this workload too."""
        while self._asks and self._asks[0][0] < now_s - self._memory_s:
            self._asks.popleft()
        asks = Counter(key for _, key in self._asks)
        near: set[Key] = set()
        for view in self._views.believable(self._views.horizon(now_s)):
            above = {key: view.covering(key[0], view.tiers.get(key, self._last[key].tier)) for key in self._last}
            near.update(key for key in asks if above[key] & above[promise.key])
        return sum(asks[key] for key in near)


def _asked(until_s: float, promise: Promise) -> Top:
    count, cpu_m, side_m = promise.replicas or 0, promise.cpu_m or 0, promise.side_m or 0
    return Top(until_s, promise.key, count, cpu_m, side_m, promise.tier, 0, promise)


def _most(until_s: float, key: Key, one: State) -> Top:
    """The maximum of states, field by field."""
    claims, running = one.members.claims, one.members.sets
    count = max(one.replicas, sum(count for count, _ in running))
    dearest = max([one.cpu_m, *(cpu_m for _, cpu_m in running)])
    return Top(until_s, key, count, dearest, one.side_m, one.tier, claims)
