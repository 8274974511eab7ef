"""What must hold after every step (docs/design.md), checked against ``truth`` alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple

from extauthz.core.model import Decision, Verdict

from . import judge
from .judge import At, Key, Promise, State, States, View
from .truth import DEPLOYMENTS, Truth, state
from .views import KEPT_S, UNSEEN_S, Past, Views


class Violation(NamedTuple):
    """A rule is broken."""

    rule: str
    what: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}"


class Asked(NamedTuple):
    """A write that some gate was asked about: it may hold room until its W."""

    until_s: float
    """When it no longer does, whatever happened."""
    key: Key
    replicas: int
    cpu_m: int
    tier: str | None


class Grant(NamedTuple):
    """What was so when a gate allowed a write."""

    at_s: float
    """When it was asked."""
    charged: States
    """What all workloads could come to, but its own: that as it had been of late."""


class Checks:
    """Told of all that happens; keeps in ``found`` the first rule that is broken.

    Args:
        memory_s: for how long a write that a gate was asked about may hold room.
        refused_s: the same, if it was refused for quota: it may have been in a ledger object before.
    """

    def __init__(self, truth: Truth, memory_s: float, refused_s: float) -> None:
        self.found: Violation | None = None
        self._truth = truth
        self._memory_s = memory_s
        self._refused_s = refused_s
        self._views = Views(truth)
        self._ungated: deque[tuple[float, Key, Mapping[str, int]]] = deque()
        self._states: list[Asked] = []
        self._been: dict[Key, Past[State | None]] = {}
        """What each workload was of late; ``None``: gone."""
        self._last: dict[Key, State] = {}
        """How each workload was last, also where it is gone: a gate that has not seen that prices writes by it."""
        self._answers: set[str] = set()
        self._grants: dict[str, Grant] = {}
        """By decision."""
        self.checked = 0

    def broken(self, rule: str, what: str) -> None:
        """Keep the first."""
        if self.found is None:
            self.found = Violation(rule, what)

    # What bears on the limits.

    def begins(self) -> None:
        """The gates will start on what there is."""
        self._views.all_known()

    def grew_ungated(self, now_s: float, before: States, after: States) -> None:
        """Something has grown that no gate was asked about."""
        for key, some in after.items():
            was, now = _top(before.get(key, ())), _top(some)
            if more := {one: amount - was.get(one, 0) for one, amount in now.items() if amount > was.get(one, 0)}:
                self._ungated.append((now_s, key, more))
        while self._ungated and self._ungated[0][0] < now_s - UNSEEN_S - KEPT_S:
            self._ungated.popleft()

    def seen(self, now_s: float, key: Key, one: State) -> None:
        """A workload is like this now: what it was before, a gate may not have seen the last of."""
        self._states += [
            Asked(now_s + self._memory_s, key, each.replicas, each.cpu_m, each.tier)
            for each in {self._last.get(key, one), one}
        ]
        self._last[key] = one

    def asked(self, now_s: float, promise: Promise) -> None:
        """A gate is about to be asked about a write."""
        self._states.append(self._asked(now_s + self._memory_s, promise))

    @staticmethod
    def _asked(until_s: float, promise: Promise) -> Asked:
        return Asked(until_s, promise.key, promise.replicas or 0, promise.cpu_m or 0, promise.tier)

    def _bound(self, since_s: float, view: View, states: States, quota: str, resource: str) -> int | None:
        """The loosest limit that a gate may have believed in since then, and what grew past it; ``None``: no limit."""
        limits = self._views.limits(since_s, quota, resource)
        if None in limits:
            return None
        past = sum(
            more.get(resource, 0)
            for at_s, key, more in self._ungated
            if at_s >= since_s - UNSEEN_S
            and any(quota in view.covering(key[0], one.tier) for one in states.get(key, ()))
        )
        return max(one for one in limits if one is not None) + past

    def _beyond(self, since_s: float, view: View, after: States) -> dict[At, str]:
        """Where the states come to more than their bound, as one sees it who goes by ``view``."""
        found = {}
        for (quota, resource), amount in view.total(after).items():
            bound = self._bound(since_s, view, after, quota, resource)
            if bound is not None and amount > bound:
                found[quota, resource] = f"{quota} {amount} of {resource}, of {bound}"
        return found

    # Answers.

    def answered(self, at_s: float, now_s: float, decision: Decision, promise: Promise) -> None:
        """A gate that was asked at ``at_s`` has answered. Its promise is not among the truth's yet."""
        self.checked += 1
        if decision.id in self._answers:
            self.broken("once", f"decision {decision.id} was given twice")
        if decision.id:
            self._answers.add(decision.id)
        if decision.verdict is Verdict.ALLOW:
            self._allowed(at_s, decision, promise)
        elif promise.replicas == 0 and promise.cpu_m is None:
            if decision.reason != "not-serving":
                self.broken("less always passes", f"a target of zero was refused: {decision.sentence}")
        elif decision.verdict is Verdict.DENY:
            self._denied(now_s, decision, promise)
            self._states.remove(self._asked(at_s + self._memory_s, promise))
            self._states.append(self._asked(now_s + self._refused_s, promise))

    def _allowed(self, at_s: float, decision: Decision, promise: Promise) -> None:
        """There must be a view that a gate may have, by which each quota that it grows in has room, and no workload of
        a quota beyond its limit is raised above what it was of late."""
        been = self._been[promise.key].since(at_s - UNSEEN_S) if promise.key in self._been else [None]
        over: list[dict[At, str]] = []
        for view in self._views.believable(at_s):
            over.append(self._wrong_by(at_s, view, promise, been))
            if not over[-1]:
                break
        else:
            self.broken("never over", f"{decision.id} was allowed, and may come to: {'; '.join(over[0].values())}")
        charged = {**self._truth.reachable(), promise.key: {one for one in been if one is not None}}
        self._grants[decision.id] = Grant(at_s, charged)

    def _wrong_by(self, at_s: float, view: View, promise: Promise, been: Iterable[State | None]) -> dict[At, str]:
        """Where a write that was allowed must not have been, as one sees it who goes by ``view``."""
        key = promise.key
        was = [one and one._replace(tier=view.tiers.get(key, one.tier)) for one in been]
        before = self._truth.reachable(tiers=view.tiers)
        before[key] = before.get(key, set()) | {one for one in was if one is not None}
        after = self._truth.reachable([*self._truth.promises.values(), promise], view.tiers)
        wrong = judge.wrong(view, before, after, promise, was, partial(self._bound, at_s, view, after))
        return {at: f"{at[0]} {amount} of {at[1]}, of {bound}" for at, (amount, bound) in wrong.items()}

    def landed(
        self, before: Mapping[Key, State], after: Mapping[Key, State], promise: Promise, decision_id: str
    ) -> None:
        """A write that a gate has allowed is in the API server. Each quota must have room for it by some view, and by
        some limit since it was decided: a cut comes too late for what was granted before it. Where there was no room
        already, it comes to no more than its workload was then."""
        if promise.tier is not None:
            self._views.granted(promise.key)
        grant = self._grants.pop(decision_id)
        left: dict[At, str] | None = None
        for view in self._views.believable(grant.at_s):
            over = self._landed_over(grant, view, _as_seen(before, view), _as_seen(after, view))
            left = over if left is None else {at: left[at] for at in left.keys() & over.keys()}
            if not left:
                return
        what = f"{decision_id} ({promise.key[1]} to {promise.replicas}) landed"
        self.broken("never over", f"{what}, and in use is: {'; '.join((left or {}).values())}")

    def _landed_over(self, grant: Grant, view: View, before: States, after: States) -> dict[At, str]:
        beyond = self._beyond(grant.at_s, view, after)
        if not beyond:
            return beyond
        was, now, charged = view.total(before), view.total(after), view.total(grant.charged)
        return {at: why for at, why in beyond.items() if now[at] > max(was[at], charged[at])}

    def _denied(self, now_s: float, decision: Decision, promise: Promise) -> None:
        """Even if all that was asked of late might land, it must not fit; and it must grow something."""
        self._states = [one for one in self._states if one.until_s >= now_s]
        tops: dict[Key, list[int]] = {}
        tiers: dict[Key, set[str]] = {}
        last = {**self._last, **self._truth.workloads()}
        known = [Asked(now_s, key, one.replicas, one.cpu_m, one.tier) for key, one in last.items()]
        for _, key, replicas, cpu_m, tier in self._states + known:
            top = tops.setdefault(key, [0, 0])
            top[0], top[1] = max(top[0], replicas), max(top[1], cpu_m)
            tiers.setdefault(key, set()).update([tier] if tier is not None else [])
        views = list(self._views.believable(now_s))
        for quota, resource in [(one.quota, one.resource) for one in decision.shortages]:
            limits = [limit or 0 for limit in self._views.limits(now_s, quota, resource)]
            total = sum(
                State(top[0], top[1], "").amounts()[resource]
                for key, top in tops.items()
                if any(quota in view.covering(key[0], tier) for view in views for tier in tiers[key])
            )
            if total <= min(limits):
                what = (
                    f"{decision.id} was refused for {resource} of {quota}, where {total} of {min(limits)} can be in use"
                )
                self.broken("never in the way of less", what)

    def wrote(self, now_s: float, collection: str, key: Key, after: object) -> None:
        """The API server has stored something."""
        self._views.wrote(now_s, collection, key)
        if collection == DEPLOYMENTS:
            one = state(after) if after is not None else None
            self._been.setdefault(key, Past()).is_now(now_s, one)
            if one is not None:
                self.seen(now_s, key, one)


def _top(states: Iterable[State]) -> dict[str, int]:
    top: dict[str, int] = {}
    for one in states:
        for name, amount in one.amounts().items():
            top[name] = max(amount, top.get(name, 0))
    return top


def _as_seen(states: Mapping[Key, State], view: View) -> States:
    return {key: [one._replace(tier=view.tiers.get(key, one.tier))] for key, one in states.items()}
