"""Checks what must hold after every step (design.md), against ``reference`` alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import NamedTuple

from extauthz.core.model import COMMIT, Decision, Verdict
from tests.worlds import judge
from tests.worlds.excuses import CLOCKS_S, PENDING_PER_TREE, Excuses, Grant, Lately
from tests.worlds.judge import At, Key, Promise, State, States, View
from tests.worlds.objects import REPLICA_SET, word_of, workload_of
from tests.worlds.reference import COUNTED, ReferenceModel
from tests.worlds.views import Horizon, Past, Views, known_of
from tests.worlds.wire import Question

ALONE = frozenset({"deploy", "rs", "tin"})
"""Kinds of workloads for which no controller makes anything that costs."""

UNDECIDED = frozenset({"not-a-count", "left-to-webhook", "not-gated"})
"""Reasons of answers that decide nothing."""

BY_POLICY = frozenset({"policy-refused", "policy-not-yet", "policy-unknown"})
"""Reasons of refusals by policies."""

FAILURE = "no failure"
"""The rule that nothing fails inside a gate, and no decision either."""


class Violation(NamedTuple):
    """A rule is broken."""

    rule: str
    what: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}"


class Checks:
    """Receives everything that happens. Keeps the first broken rule in ``found``.

    Args:
        memory_s: for how long a write that a gate was asked about may hold room.
        refused_s: the same, if it was refused for quota: it may have been in a ledger object before.
        heard_s: after what time a gate must have heard of a write that another one allowed where no quota was.
        objects: the reason of the answers to objects at Envoy.
        alone: there is one gate. Else the answer to a dry run may lack what others have just granted or seen.
    """

    def __init__(
        self, reference: ReferenceModel, memory_s: float, refused_s: float, heard_s: float, objects: str, *, alone: bool
    ) -> None:
        self.found: Violation | None = None
        self._reference = reference
        self._objects = objects
        self._alone = alone
        self.most: Callable[[str], int | None] = lambda name: None
        """The highest count that policies let a workload be raised to, by its name; ``None``: any."""
        self._views = Views(reference)
        self._excuses = Excuses(reference, heard_s)
        self._lately = Lately(reference, self._views, memory_s, refused_s)
        self._been: dict[Key, Past[State | None]] = {}
        """What each workload was lately; ``None``: gone."""
        self._answers: set[str] = set()
        self.checked = 0

    def broken(self, rule: str, what: str) -> None:
        """Keep the first."""
        if self.found is None:
            self.found = Violation(rule, what)

    # What bears on the limits.

    def begins(self) -> None:
        """The gates are about to start on the present state."""
        self._views.all_known()

    def grew_ungated(self, now_s: float, version: int, before: States, after: States, by: str = "") -> None:
        """Something has grown past the gates, or ``by`` one of them, which knew of no quota for it."""
        self._excuses.grew(now_s, version, before, after, by)

    def asked(self, now_s: float, question: Question) -> None:
        """A gate is about to be asked about a write. A dry run takes no room, nor does an object at Envoy."""
        if not question.dry and not question.is_undecided:
            self._lately.asked(now_s, question.promise)

    def _bound(self, horizon: Horizon, by: str, view: View, states: States, quota: str, resource: str) -> int | None:
        """The highest limit that a gate may believe in, plus what has grown unseen; ``None``: no limit.

        ``by``: the gate, which has seen all that it allowed itself; empty: any.
        """
        limits = self._views.limits(horizon, quota, resource)
        if None in limits:
            return None
        covered = {
            key: some for key, some in states.items() if any(quota in view.covering(key[0], one.tier) for one in some)
        }
        made = sum(self._views.unseen(horizon, key, some).get(resource, 0) for key, some in covered.items())
        grown = self._excuses.grown(horizon, by, covered, resource)
        return max(one for one in limits if one is not None) + grown + made

    def _beyond(self, horizon: Horizon, view: View, after: States) -> dict[At, str]:
        """Quotas where the states exceed their bound, for a gate that decides by ``view``."""
        found = {}
        for (quota, resource), amount in view.total(after).items():
            bound = self._bound(horizon, "", view, after, quota, resource)
            if bound is not None and amount > bound:
                found[quota, resource] = f"{quota} {amount} of {resource}, of {bound}"
        return found

    # Answers.

    def answered(
        self, at_s: float, now_s: float, by: str, decision: Decision, question: Question, known: Horizon
    ) -> None:
        """A gate that was asked at ``at_s``, when it knew ``known``, has answered. Its promise is not recorded yet.

        ``by``: its name, in this life.
        """
        self.checked += 1
        promise = question.promise
        self._once(decision.id)
        if question.is_undecided or decision.reason in UNDECIDED:
            self._object(at_s, decision, question, known)
        elif decision.verdict is Verdict.ALLOW:
            if question.dry and not self._alone:
                return
            late = self._views.horizon(at_s)
            self._allowed(at_s, by, decision, promise, lambda collection: max(known(collection), late(collection)))
        elif promise.replicas == 0 and promise.cpu_m is None:
            if decision.reason != "not-serving":
                self.broken("less always passes", f"a target of zero was refused: {decision.sentence}")
        elif decision.reason in BY_POLICY and self._raises_nothing(at_s, now_s, question, known):
            self.broken("never in the way of less", f"a policy was asked about no growth: {decision.sentence}")
        elif decision.reason == "too-many-intents-in-tree":
            self._crowded(now_s, decision, promise)
        elif decision.verdict is Verdict.DENY:
            for what in self._lately.refused(at_s, now_s, decision, question):
                self.broken("never in the way of less", what)

    def _object(self, at_s: float, decision: Decision, question: Question, known: Horizon) -> None:
        """At Envoy an object is passed on undecided or refused, as the setting says, and nothing else is. Where no
        quota covers anything in its namespace it passes anyway."""
        if not question.is_undecided:
            self.broken("on Envoy a write is a count", f"{decision.id} is decided, and got {decision.reason}")
        elif decision.todo is COMMIT:
            self.broken("on Envoy a write is a count", f"{decision.id} is an object, and is followed")
        elif decision.reason == "no-quota":
            late = self._views.horizon(at_s)
            views = self._views.believable(lambda collection: max(known(collection), late(collection)))
            if all(view.covers(question.promise.key[0]) for view in views):
                self.broken("on Envoy a write is a count", f"{decision.id} passed, and quotas cover its namespace")
        elif decision.reason not in (self._objects, "not-serving"):
            self.broken("on Envoy a write is a count", f"{decision.id} is an object, and got {decision.reason}")

    def _crowded(self, now_s: float, decision: Decision, promise: Promise) -> None:
        asks = self._lately.asks_beside(now_s, promise)
        if asks <= PENDING_PER_TREE:
            what = f"{decision.id} was refused for {asks} writes under its quotas"
            self.broken("a flood ends for its sender alone", what)

    def _once(self, decision_id: str) -> None:
        if decision_id in self._answers:
            self.broken("once", f"decision {decision_id} was given twice")
        if decision_id:
            self._answers.add(decision_id)

    def _allowed(self, at_s: float, by: str, decision: Decision, promise: Promise, horizon: Horizon) -> None:
        """There must be a view, and a state of the workload, that this gate may have known. By these each quota that
        the write grows has room, and no workload of a quota over its limit is raised above what it was."""
        own = promise.key
        known = known_of(own, horizon)
        been: list[State | None] = self._been[own].since(known) if own in self._been else [None]
        pending = self._excuses.charged_by(by, at_s)
        if not promise.creates and not self._lately.is_made(at_s, own):
            been = [one for one in been if one is not None] or been  # a gate refuses to scale what it has not seen
        over: list[dict[At, str]] = []
        views, near = list(self._views.believable(horizon)), self._reference.views_near(CLOCKS_S)
        views += [view.promising(near) for view in views if near]
        for view, first in product(views, been):
            over.append(self._wrong_by(horizon, by, view, pending, promise, been, first))
            if not over[-1]:
                break
        else:
            self.broken("never over", f"{decision.id} was allowed, and may come to: {'; '.join(over[0].values())}")
        tiers, most = _tiers(promise, been), self.most(own[1])
        if (
            most is not None
            and (promise.replicas or 0) > most
            and _raises(promise, been)
            and all(view.always_covers(own[0], tiers) for view in self._views.believable(horizon))
        ):
            self.broken("no policy is passed over", f"{decision.id} was allowed, and policies forbid it")
        was = frozenset(one for one in been if one is not None)
        self._excuses.grants[decision.id] = Grant(at_s, by, decision.evidence.afterwards, known, was)

    def _wrong_by(
        self,
        horizon: Horizon,
        by: str,
        view: View,
        pending: Sequence[Promise],
        promise: Promise,
        been: Iterable[State | None],
        first: State | None,
    ) -> dict[At, str]:
        """Quotas where the write must not have been allowed, for a gate that decides by ``view`` and to which its
        workload is as in ``first``."""
        key = promise.key
        was = [one and one._replace(tier=view.tiers.get(key, one.tier)) for one in been]
        before = self._reference.reachable(pending, view.tiers)
        before[key] = before.get(key, set()) | {one for one in was if one is not None}
        after = self._reference.reachable([*pending, promise], view.tiers)
        if first != self._reference.workload(key):
            known = first and first._replace(tier=view.tiers.get(key, first.tier))
            others = [one for one in pending if one.key == key]
            before[key] |= judge.reachable(known, promise.only_on, others)
            after[key] = judge.reachable(known, promise.only_on, [*others, promise])
        charged = [{**before, key: {*before[key], one}} for one in self._charged_still(promise, before[key])]
        charged += [{**before, key: {one}} for one in before[key]]
        bound = partial(self._bound, horizon, by, view, after)
        wrong = judge.wrong(view, before, after, promise, was, bound, charged)
        return {at: f"{at[0]} {amount} of {at[1]}, of {bound}" for at, (amount, bound) in wrong.items()}

    def _charged_still(self, promise: Promise, states: Iterable[State]) -> set[State]:
        others = self._lately.beside(self._views.last[0], promise)
        known = {*states, self._lately.last(promise.key)}  # also of one that is gone
        ends = (judge.landed(one, other) for one in known for other in others)
        return {one for one in ends if one is not None}

    def landed(
        self, before: Mapping[Key, State], after: Mapping[Key, State], promise: Promise, decision_id: str
    ) -> None:
        """A write that a gate has allowed is in the API server. Each quota must have room for it by some view, and by
        some limit since it was decided: a cut comes too late for what was granted before it, and so does a template or
        a count that was changed past the gates. Where there was no room already, it comes to no more than its workload
        was."""
        if promise.tier is not None:
            self._views.granted(promise.key)
        grant = self._excuses.grants.pop(decision_id)
        if grant.uncovered:
            was, now = ({key: [one] for key, one in some.items()} for some in (before, after))
            self.grew_ungated(*self._views.last, was, now, grant.by)
        left: dict[At, str] | None = None
        horizon = self._views.horizon(grant.at_s)
        own = promise.key
        been = () if promise.creates else self._been[own].since(grant.known)
        ends = dict.fromkeys([after.get(own), *(judge.landed(one, promise) for one in been)])
        for view, end in product(self._views.believable(horizon), ends):
            then = {**after, own: end} if end is not None else after
            over = self._landed_over(own, grant, horizon, view, _as_seen(before, view), _as_seen(then, view))
            left = over if left is None else {at: left[at] for at in left.keys() & over.keys()}
            if not left:
                return
        what = f"{decision_id} ({promise.key[1]} to {promise.replicas}) landed"
        self.broken("never over", f"{what}, and in use is: {'; '.join((left or {}).values())}")

    def _landed_over(
        self, own: Key, grant: Grant, horizon: Horizon, view: View, before: States, after: States
    ) -> dict[At, str]:
        beyond = self._beyond(horizon, view, after)
        if not beyond:
            return beyond
        seen = {one._replace(tier=view.tiers.get(own, one.tier)) for one in grant.was}
        was, now, most = view.total(before), view.total(after), view.total({**after, own: seen})
        return {at: why for at, why in beyond.items() if now[at] > max(was[at], most[at])}

    def _raises_nothing(self, at_s: float, now_s: float, question: Question, known: Horizon) -> bool:
        """Whether no gate can see growth in this count: nothing else is under way, nothing that gates may still take to
        be under way adds to it, and no controller makes objects for the workload."""
        promise = question.promise
        others = any(one.key == promise.key for one in self._reference.promises.values())
        if promise.replicas is None or promise.changes or promise.key not in self._been or others:
            return False
        if word_of(promise.key[1]) not in ALONE:
            return False
        late = self._views.horizon(at_s)
        since = known_of(promise.key, lambda collection: max(known(collection), late(collection)))
        per_pod_m = self._lately.dearest_m(now_s, promise.key)
        return all(
            one is not None
            and promise.replicas <= one.replicas
            and promise.replicas * per_pod_m <= one.replicas * (one.cpu_m + one.side_m)
            for one in self._been[promise.key].since(since)
        )

    def wrote(self, now_s: float, version: int, collection: str, key: Key) -> None:
        """The API server has stored something."""
        if collection in COUNTED:
            key = workload_of(key)
            one = self._reference.workload(key)
            self._been.setdefault(key, Past()).is_now(version, one)
            self._lately.wrote(now_s, key, one, is_replica_set=collection == REPLICA_SET.collection)
        self._views.wrote(now_s, version, collection, key)


def _raises(promise: Promise, been: Iterable[State | None]) -> bool:
    """Whether it raises its workload's count above all that this may be taken to be.

    What is there and is no workload by itself is charged with its owner, and no policy is asked about its count.
    """
    counts = [max(one.replicas, sum(count for count, _ in one.members.sets)) for one in been if one is not None]
    if not counts and not promise.creates:
        return False
    return promise.replicas is not None and promise.replicas > max(counts, default=0)


def _tiers(promise: Promise, been: Iterable[State | None]) -> set[str]:
    """Labels that it may have, before the write and after it."""
    return {one.tier for one in been if one is not None} | ({promise.tier} if promise.tier is not None else set())


def _as_seen(states: Mapping[Key, State], view: View) -> States:
    return {key: [one._replace(tier=view.tiers.get(key, one.tier))] for key, one in states.items()}
