"""Rule 10 by search: limits that move, growth past the gate, writes that land late; the model knows no ledger.

Whatever is allowed while a quota is over raises no workload above what is observed of it, and what is charged does not
rise: an open grant is a bound, and no licence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from extauthz.core.ledger.entry import Event
from extauthz.core.model import Decision, Request, Verdict, WorkloadRef
from extauthz.core.objects.workloads import observe
from extauthz.core.quota.tree import QuotaTree
from extauthz.testing import Asker, create, gate, owned_by, patch, path, quota, scale, workload

WEB = WorkloadRef("apps", "deployments", "team-a", "web")
NAMES = ("a", "b")
NANO = 10**9
W = 90.0


@dataclass
class Thing:
    """One Deployment: its count and the cost of a pod."""

    replicas: int
    cpu: int
    version: int = 1

    @property
    def cost(self) -> int:
        return self.replicas * self.cpu


@dataclass
class Flight:
    """An allowed write under way."""

    decision: Decision
    name: str
    replicas: int | None
    cpu: int | None
    deadline_s: float


class OverIsOver(RuleBasedStateMachine):
    """One quota, whose limit moves; every write is one of the count, of the template, or of both."""

    @initialize()
    def start(self) -> None:
        self.hard = 10
        self.real = {name: Thing(1, 1) for name in NAMES}
        self.seen = {name: Thing(1, 1) for name in NAMES}
        self.ask = Asker(gate([self.quota()], *(workload(name, 1) for name in NAMES)))
        self.flights: list[Flight] = []

    def quota(self) -> object:
        return quota("acme", {"requests.cpu": str(self.hard)})

    def send(self, name: str, request: Request, replicas: int | None, cpu: int | None) -> None:
        before, seen = self.total(), self.seen[name]
        count, each = seen.replicas if replicas is None else replicas, seen.cpu if cpu is None else cpu
        own, while_it_rolls_out = count * each, count * max(each, seen.cpu)
        decision = self.ask(request)
        if decision.verdict is not Verdict.ALLOW:
            alone = not self.ask.gate.ledger.pending_writes
            assert while_it_rolls_out > seen.cost or not alone, "less is never refused"
            if decision.evidence.fits is not None and cpu is None:
                assert self.ask(scale(name, decision.evidence.fits), charge=False).verdict is Verdict.ALLOW
                assert self.ask(scale(name, decision.evidence.fits + 1), charge=False).verdict is Verdict.DENY
            return
        if before > self.hard:
            assert own <= seen.cost, "over is over"
            assert self.total() <= before, "nor does what may land rise"
        assert self.total() <= max(before, self.hard)
        if decision.pending_write is not None:
            self.flights.append(Flight(decision, name, replicas, cpu, self.ask.now_s + W))

    def total(self) -> int:
        return sum(row.used + row.reserved for row in self.ask.gate.usage()) // NANO

    @rule(name=st.sampled_from(NAMES), replicas=st.integers(0, 9))
    def scale(self, name: str, replicas: int) -> None:
        self.send(name, scale(name, replicas), replicas, None)

    @rule(name=st.sampled_from(NAMES), cpu=st.integers(1, 3), replicas=st.sampled_from([None, 0, 1, 2, 4]))
    def change(self, name: str, cpu: int, replicas: int | None) -> None:
        spec: dict = {
            "template": {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": str(cpu)}}}]}}
        }
        spec |= {} if replicas is None else {"replicas": replicas}
        self.send(name, patch(path(name), {"spec": spec}, "strategic"), replicas, cpu)

    @rule(hard=st.integers(1, 12))
    def limit(self, hard: int) -> None:
        self.hard = hard
        self.ask.gate.load_quotas(QuotaTree.build([self.quota()]), self.ask.now_s)  # type: ignore[list-item]

    @rule(name=st.sampled_from(NAMES), replicas=st.integers(0, 6), cpu=st.integers(1, 3))
    def past_the_gate(self, name: str, replicas: int, cpu: int) -> None:
        thing = self.real[name]
        self.real[name] = Thing(replicas, cpu, thing.version + 1)
        self.show(name)

    @rule(name=st.sampled_from(NAMES))
    def show(self, name: str) -> None:
        thing = self.seen[name] = self.real[name]
        self.ask.gate.observe(
            *observe(workload(name, thing.replicas, {"cpu": str(thing.cpu)}, version=str(thing.version)))
        )

    @precondition(lambda self: self.flights)
    @rule(data=st.data(), answered=st.booleans())
    def land(self, data: st.DataObject, answered: bool) -> None:
        flight = data.draw(st.sampled_from(self.flights))
        self.flights.remove(flight)
        thing = self.real[flight.name]
        replicas = thing.replicas if flight.replicas is None else flight.replicas
        self.real[flight.name] = Thing(replicas, thing.cpu if flight.cpu is None else flight.cpu, thing.version + 1)
        if answered:
            self.ask.now_s += 0.25
            self.ask.gate.ledger.pending.settle(flight.decision.pending_write or "", Event.ANSWERED_OK, self.ask.now_s)
            self.ask.now_s += 0.25
            self.show(flight.name)
            self.ask.gate.ledger.pending.read(observe(workload(flight.name))[0], self.ask.now_s)

    @rule(seconds=st.sampled_from([1.0, 60.0]))
    def time_passes(self, seconds: float) -> None:
        self.ask.now_s += seconds
        self.flights = [flight for flight in self.flights if flight.deadline_s > self.ask.now_s]
        self.ask.gate.tick(self.ask.now_s)

    @rule()
    def read_everything(self) -> None:
        for name in NAMES:
            self.show(name)
        self.ask.gate.ledger.pending.consistent_read(self.ask.now_s)

    @invariant()
    def what_may_land_is_charged(self) -> None:
        if hasattr(self, "ask"):
            assert self.ask.gate.ledger.drift() == {}
            assert sum(thing.cost for thing in self.seen.values()) <= self.total()


TestOverIsOver = OverIsOver.TestCase
TestOverIsOver.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


def test_over_a_limit_that_was_cut_an_object_that_is_not_there_yet_is_not_raised_either():
    """A larger count that pends at another gate, from before the object was deleted, is no licence."""
    first = Asker(gate([quota("acme", {"requests.cpu": "9"})], workload("web", 3)))
    assert first(scale("web", 5)).verdict is Verdict.ALLOW
    first.gate.observe(WEB, None)
    assert first(create(workload("web", 2))).verdict is Verdict.ALLOW
    ask = Asker(gate([quota("acme", {"requests.cpu": "9"})]))
    for ref, pending_write in first.gate.ledger.pending:
        ask.gate.ledger.adopt(ref, replace(pending_write, id=f"first-{pending_write.id}"))
    ask.gate.load_quotas(QuotaTree.build([quota("acme", {"requests.cpu": "2"})]), 0.0)
    assert ask(scale("web", 4)).reason == "exceeded-quota"
    assert ask(scale("web", 0)).verdict is Verdict.ALLOW
    ask.gate.load_quotas(QuotaTree.build([quota("acme", {"requests.cpu": "9"})]), 0.0)
    assert ask(scale("web", 4)).verdict is Verdict.ALLOW


def test_over_a_limit_that_was_cut_what_pends_on_a_replica_set_is_no_licence_for_its_deployment():
    """Seed 710689186."""
    labels = {"labels": {"app": "web"}, "ownerReferences": owned_by("web")}
    sets = [workload(name, count, kind="ReplicaSet", **labels) for name, count in (("web-1", 2), ("web-2", 0))]
    ask = Asker(gate([quota("acme", {"requests.cpu": "9"})], workload("web", 2), *sets))
    assert ask(scale("web-2", 2, resource="replicasets")).verdict is Verdict.ALLOW
    ask.gate.load_quotas(QuotaTree.build([quota("acme", {"requests.cpu": "2"})]), 0.0)
    assert ask(scale("web", 3)).reason == "exceeded-quota", "of the four one is a surge, which is not charged"
    assert ask(scale("web", 1)).verdict is Verdict.ALLOW
    ask.gate.load_quotas(QuotaTree.build([quota("acme", {"requests.cpu": "9"})]), 0.0)
    assert ask(scale("web", 3)).verdict is Verdict.ALLOW


def test_over_a_limit_that_was_cut_what_pends_on_a_deployment_is_no_licence_for_its_replica_set():
    labels = {"labels": {"app": "web"}, "ownerReferences": owned_by("web")}
    set_of_two = workload("web-1", 2, kind="ReplicaSet", **labels)
    ask = Asker(gate([quota("acme", {"requests.cpu": "9"})], workload("web", 2), set_of_two))
    assert ask(scale("web", 4)).verdict is Verdict.ALLOW
    ask.gate.load_quotas(QuotaTree.build([quota("acme", {"requests.cpu": "3"})]), 0.0)
    assert ask(scale("web-1", 4, resource="replicasets")).reason == "exceeded-quota"
    assert ask(scale("web-1", 1, resource="replicasets")).verdict is Verdict.ALLOW
