"""Rule 1 by search, where news comes late: watches lag, lists are old, reads take their time, answers come or do not.

Two Deployments, one limit, and pods of one CPU: what is allowed lands when it pleases within W, and whatever was true
of an object once may be told at any time after.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from extauthz.core.ledger.entry import Event
from extauthz.core.model import WorkloadRef
from extauthz.core.objects.workloads import observe
from extauthz.testing import Asker, gate, quota, scale, workload

HARD = 6
NAMES = ("a", "b")
W = 90.0


@dataclass(frozen=True)
class State:
    """One Deployment as of a version; ``replicas`` is ``None`` where it was gone."""

    version: int
    replicas: int | None


@dataclass(frozen=True)
class Flight:
    """An allowed write under way."""

    name: str
    replicas: int
    pending_write: str
    deadline_s: float


@dataclass(frozen=True)
class Read:
    """A consistent read under way, with what it has found."""

    name: str
    found: State
    started_s: float


class NeverOverLate(RuleBasedStateMachine):
    """Few rules, so that the search goes deep."""

    @initialize()
    def start(self) -> None:
        self.clock = 10
        self.history = {name: [State(1, 1)] for name in NAMES}
        self.ask = Asker(
            gate([quota("acme", {"requests.cpu": str(HARD)})], *(self.tree(n, State(1, 1)) for n in NAMES))
        )
        self.flights: list[Flight] = []
        self.reads: list[Read] = []

    def tree(self, name: str, state: State) -> dict:
        return workload(name, state.replicas, version=str(state.version))

    def ref(self, name: str) -> WorkloadRef:
        return WorkloadRef("apps", "deployments", "team-a", name)

    def become(self, name: str, replicas: int | None) -> None:
        self.clock += 1
        self.history[name].append(State(self.clock, replicas))

    @rule(name=st.sampled_from(NAMES), replicas=st.integers(0, HARD))
    def send(self, name: str, replicas: int) -> None:
        decision = self.ask(scale(name, replicas))
        if decision.pending_write is not None:
            self.flights.append(Flight(name, replicas, decision.pending_write, self.ask.now_s + W))

    @precondition(lambda self: self.flights)
    @rule(data=st.data(), answered=st.booleans())
    def land(self, data: st.DataObject, answered: bool) -> None:
        flight = data.draw(st.sampled_from(self.flights))
        self.flights.remove(flight)
        there = self.history[flight.name][-1].replicas is not None
        if there:
            self.become(flight.name, flight.replicas)
        if answered:
            event = Event.ANSWERED_OK if there else Event.REFUSED
            self.ask.gate.ledger.pending.settle(flight.pending_write, event, self.ask.now_s)

    @rule(name=st.sampled_from(NAMES))
    def delete(self, name: str) -> None:
        """And have it made anew by somebody else: at once, as that costs the most, and with nothing to run yet."""
        self.become(name, None)
        self.become(name, 0)

    @rule(name=st.sampled_from(NAMES), data=st.data())
    def tell_what_was(self, name: str, data: st.DataObject) -> None:
        state = data.draw(st.sampled_from(self.history[name]))
        self.tell(name, state)

    def tell(self, name: str, state: State) -> None:
        observed = observe(self.tree(name, state))[1] if state.replicas is not None else None
        self.ask.gate.observe(self.ref(name), observed, version=str(state.version))

    @rule(behind=st.integers(0, 4))
    def tell_a_list(self, behind: int) -> None:
        version = self.clock - behind
        then = {name: [s for s in states if s.version <= version][-1:] for name, states in self.history.items()}
        listed = [observe(self.tree(name, s)) for name, found in then.items() for s in found if s.replicas is not None]
        self.ask.gate.observe_all(("apps", "deployments"), listed, str(version))

    @rule(at_once=st.booleans())
    def read_what_is_due(self, at_once: bool) -> None:
        for ref in self.ask.gate.ledger.pending.due(self.ask.now_s):
            self.reads.append(Read(ref.name, self.history[ref.name][-1], self.ask.now_s))
        self.ask.now_s += 0.25
        while at_once and self.reads:
            self.finish(self.reads[0])

    @precondition(lambda self: self.reads)
    @rule(data=st.data())
    def finish_a_read(self, data: st.DataObject) -> None:
        self.finish(data.draw(st.sampled_from(self.reads)))

    def finish(self, read: Read) -> None:
        self.reads.remove(read)
        self.tell(read.name, read.found)
        self.ask.gate.ledger.pending.read(self.ref(read.name), read.started_s)

    @rule(seconds=st.sampled_from([0.25, 50.0]))
    def time_passes(self, seconds: float) -> None:
        """What has not landed within W never will."""
        self.ask.now_s += seconds
        self.flights = [flight for flight in self.flights if flight.deadline_s > self.ask.now_s]
        self.ask.gate.tick(self.ask.now_s)

    @invariant()
    def the_world_stays_within_the_limit(self) -> None:
        if hasattr(self, "ask"):
            assert sum(states[-1].replicas or 0 for states in self.history.values()) <= HARD
            assert self.ask.gate.ledger.drift() == {}


TestNeverOverLate = NeverOverLate.TestCase
TestNeverOverLate.settings = settings(
    max_examples=300, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
