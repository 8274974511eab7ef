"""What must hold after every step (DESIGN §4), checked against ``truth`` alone."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from extauthz.core.model import Decision, Verdict

from .server import Key
from .truth import DEPLOYMENTS, Promise, State, Truth, state

Charges = dict[tuple[str, str], int]

UNSEEN_S = 14.0
"""How long a gate may take to see what no gate has granted: the time after which it takes a watch for stalled, and a
little. Within it a cut, or growth at another door, may not bear on grants yet."""


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
        self._limits: deque[tuple[float, Charges]] = deque()
        self._ungated: deque[tuple[float, Charges]] = deque()
        self._states: list[Asked] = []
        self._last: dict[Key, State] = {}
        """How each workload was last, also where it is gone: a gate that has not seen that prices writes by it."""
        self._answers: set[str] = set()
        self.checked = 0

    def broken(self, rule: str, what: str) -> None:
        """Keep the first."""
        if self.found is None:
            self.found = Violation(rule, what)

    # What bears on the limits.

    def limits_are(self, now_s: float) -> None:
        """The quotas have changed."""
        hard = {(name, key): amount for name, one in self._truth.quotas().items() for key, amount in one.hard.items()}
        self._limits.append((now_s, hard))

    def grew_ungated(self, now_s: float, before: Charges, after: Charges) -> None:
        """Something has grown, or come under other quotas, that no gate was asked about."""
        more = {one: amount - before.get(one, 0) for one, amount in after.items() if amount > before.get(one, 0)}
        if more:
            self._ungated.append((now_s, more))

    def seen(self, now_s: float, key: Key, one: State) -> None:
        """A workload is like this now: what it was before, a gate may not have seen the last of."""
        self._states += [
            Asked(now_s + self._memory_s, key, each.replicas, each.cpu_m) for each in {self._last.get(key, one), one}
        ]
        self._last[key] = one

    def asked(self, now_s: float, promise: Promise) -> None:
        """A gate is about to be asked about a write."""
        self._states.append(self._asked(now_s + self._memory_s, promise))

    @staticmethod
    def _asked(until_s: float, promise: Promise) -> Asked:
        return Asked(until_s, promise.key, promise.replicas or 0, promise.cpu_m or 0)

    def _bound(self, now_s: float, quota: str, key: str) -> int | None:
        """What the charge may come to: the loosest limit that a gate may still believe in, and what grew past it."""
        while len(self._limits) > 1 and self._limits[1][0] < now_s - UNSEEN_S:
            self._limits.popleft()
        while self._ungated and self._ungated[0][0] < now_s - UNSEEN_S:
            self._ungated.popleft()
        limits = [hard.get((quota, key)) for _, hard in self._limits]
        if None in limits:
            return None
        past = sum(more.get((quota, key), 0) for _, more in self._ungated)
        return max(one for one in limits if one is not None) + past

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
        before = self._truth.worst()
        after = self._truth.worst([*self._truth.promises.values(), promise])
        for (quota, key), amount in after.items():
            bound = self._bound(now_s, quota, key)
            if amount > before[quota, key] and bound is not None and amount > bound:
                what = f"{decision.id} was allowed, and {quota} may come to {amount} of {key}, of {bound}"
                self.broken("never over", what)

    def landed(self, now_s: float, before: Charges, after: Charges, what: str) -> None:
        """A write that a gate has allowed is in the API server."""
        for (quota, key), amount in after.items():
            bound = self._bound(now_s, quota, key)
            if amount > before.get((quota, key), 0) and bound is not None and amount > bound:
                self.broken("never over", f"{what} landed, and {quota} has {amount} of {key} in use, of {bound}")

    def _denied(self, now_s: float, decision: Decision, promise: Promise) -> None:
        """Even if all that was asked of late might land, it must not fit; and it must grow something."""
        self._states = [one for one in self._states if one.until_s >= now_s]
        tops: dict[Key, list[int]] = {}
        for one in self._states:
            top = tops.setdefault(one.key, [0, 0])
            top[0], top[1] = max(top[0], one.replicas), max(top[1], one.cpu_m)
        for key, now in {**self._last, **self._truth.workloads()}.items():
            top = tops.setdefault(key, [0, 0])
            top[0], top[1] = max(top[0], now.replicas), max(top[1], now.cpu_m)
        quotas = self._truth.quotas()
        short = [(one.quota, one.resource) for one in decision.shortages]
        for quota, resource in short:
            if quota not in quotas or resource not in quotas[quota].hard:
                continue
            members = [key for key in tops if quota in self._truth.covering(key, quotas)]
            total = sum(State(*tops[key]).amounts()[resource] for key in members)
            limits = [hard.get((quota, resource), 0) for at_s, hard in self._limits]
            if total <= min(limits):
                what = (
                    f"{decision.id} was refused for {resource} of {quota}, where {total} of {min(limits)} can be in use"
                )
                self.broken("never in the way of less", what)

    def wrote(self, now_s: float, collection: str, key: Key, after: object) -> None:
        """The API server has stored something."""
        if collection == DEPLOYMENTS and after is not None:
            self.seen(now_s, key, state(after))
