"""What must hold after every step (DESIGN §4), checked against ``truth`` alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from extauthz.core.model import Decision, Verdict

from .server import Key
from .truth import DEPLOYMENTS, Promise, State, Truth, View, state
from .views import UNSEEN_S, Views

States = Mapping[Key, Iterable[State]]


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
        self._granted: list[Asked] = []
        self._last: dict[Key, State] = {}
        """How each workload was last, also where it is gone: a gate that has not seen that prices writes by it."""
        self._answers: set[str] = set()
        self._charged_at: dict[str, States] = {}
        """Decision to what all workloads could come to when it was answered. It only falls where a quota is over its
        limit, so that a write that grew nothing then may land on as much, whenever it does (docs/guarantee.md)."""
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

    def seen(self, now_s: float, key: Key, one: State) -> None:
        """A workload is like this now: what it was before, a gate may not have seen the last of."""
        self._states += [
            Asked(now_s + self._memory_s, key, each.replicas, each.cpu_m, each.tier)
            for each in {self._last.get(key, one), one}
        ]
        was = self._last.get(key, one)
        self._granted.append(Asked(now_s + UNSEEN_S, key, was.replicas, was.cpu_m, was.tier))
        self._last[key] = one

    def asked(self, now_s: float, promise: Promise) -> None:
        """A gate is about to be asked about a write."""
        self._states.append(self._asked(now_s + self._memory_s, promise))

    @staticmethod
    def _asked(until_s: float, promise: Promise) -> Asked:
        return Asked(until_s, promise.key, promise.replicas or 0, promise.cpu_m or 0, promise.tier)

    def _over(
        self, now_s: float, view: View, before: States, after: States, charged: States | None = None
    ) -> dict[tuple[str, str], str]:
        """What has grown beyond its bound, as one sees it who goes by ``view``. The bound: the loosest limit that a
        gate may still believe in, and what grew past it; or what ``charged`` comes to, if that is more."""
        while self._ungated and self._ungated[0][0] < now_s - UNSEEN_S:
            self._ungated.popleft()
        over = {}
        was, now, most = view.total(before), view.total(after), view.total(charged or {})
        for (quota, resource), amount in now.items():
            limits = self._views.limits(now_s, quota, resource)
            if amount <= was[quota, resource] or None in limits:
                continue
            bound = max(one for one in limits if one is not None) + self._past(view, quota, resource, after)
            if amount > max(bound, most[quota, resource]):
                over[quota, resource] = f"{quota} {amount} of {resource}, of {bound}"
        return over

    def _past(self, view: View, quota: str, resource: str, states: States) -> int:
        """What grew past a quota."""
        return sum(
            more.get(resource, 0)
            for _, key, more in self._ungated
            if any(quota in view.covering(key[0], one.tier) for one in states.get(key, ()))
        )

    # Answers.

    def answered(self, at_s: float, now_s: float, decision: Decision, promise: Promise) -> None:
        """A gate that was asked at ``at_s`` has answered. Its promise is not among the truth's yet."""
        self.checked += 1
        if decision.id in self._answers:
            self.broken("once", f"decision {decision.id} was given twice")
        if decision.id:
            self._answers.add(decision.id)
        if decision.verdict is Verdict.ALLOW:
            self._allowed(now_s, decision, promise)
        elif promise.replicas == 0 and promise.cpu_m is None:
            if decision.reason != "not-serving":
                self.broken("less always passes", f"a target of zero was refused: {decision.sentence}")
        elif decision.verdict is Verdict.DENY:
            self._denied(now_s, decision, promise)
            self._states.remove(self._asked(at_s + self._memory_s, promise))
            self._states.append(self._asked(now_s + self._refused_s, promise))

    def _allowed(self, now_s: float, decision: Decision, promise: Promise) -> None:
        """There must be a view that a gate may have, by which it fits everywhere. Where one has changed of late that
        says whom a quota covers, what is within the charge of its workload fits there too."""
        over: list[dict[tuple[str, str], str]] = []
        top: dict[str, int] = {}
        for view in self._views.believable(now_s):
            before = self._truth.reachable(tiers=view.tiers)
            after = self._truth.reachable([*self._truth.promises.values(), promise], view.tiers)
            over.append(self._over(now_s, view, before, after))
            top = _top(after[promise.key])
            if not over[-1]:
                break
        else:
            charged = self._charged(now_s, promise.key)
            within = {resource for resource, amount in top.items() if amount <= charged[resource]}
            changed = self._views.changed(now_s)
            if not any(all(quota in changed and resource in within for quota, resource in one) for one in over):
                self.broken("never over", f"{decision.id} was allowed, and may come to: {'; '.join(over[0].values())}")
        self._granted.append(self._asked(now_s + self._memory_s, promise))
        self._charged_at[decision.id] = self._truth.reachable([*self._truth.promises.values(), promise])

    def _charged(self, now_s: float, key: Key) -> Mapping[str, int]:
        """The most that a workload may be charged already, by what it is and all that was allowed of it."""
        self._granted = [one for one in self._granted if one.until_s >= now_s]
        some = [(one.replicas, one.cpu_m) for one in self._granted if one.key == key]
        if key in self._last:
            some.append((self._last[key].replicas, self._last[key].cpu_m))
        return State(max((one[0] for one in some), default=0), max((one[1] for one in some), default=0), "").amounts()

    def landed(
        self, now_s: float, before: Mapping[Key, State], after: Mapping[Key, State], promise: Promise, decision_id: str
    ) -> None:
        """A write that a gate has allowed is in the API server. Each quota must have room for it by some view: that of
        the gate that allowed it, or of one that has given away since what was free by another."""
        if promise.tier is not None:
            self._views.granted(promise.key)
        left: dict[tuple[str, str], str] | None = None
        for view in self._views.believable(now_s):
            charged = self._charged_at.get(decision_id)
            over = self._over(now_s, view, _as_seen(before, view), _as_seen(after, view), charged)
            left = over if left is None else {at: left[at] for at in left.keys() & over.keys()}
            if not left:
                return
        what = f"{decision_id} ({promise.key[1]} to {promise.replicas}) landed"
        self.broken("never over", f"{what}, and in use is: {'; '.join((left or {}).values())}")

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
        if collection == DEPLOYMENTS and after is not None:
            self.seen(now_s, key, state(after))


def _top(states: Iterable[State]) -> dict[str, int]:
    top: dict[str, int] = {}
    for one in states:
        for name, amount in one.amounts().items():
            top[name] = max(amount, top.get(name, 0))
    return top


def _as_seen(states: Mapping[Key, State], view: View) -> States:
    return {key: [one._replace(tier=view.tiers.get(key, one.tier))] for key, one in states.items()}
