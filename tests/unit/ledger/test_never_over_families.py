"""Rule 1 by search, with families: Deployments and ReplicaSets, created, deleted, freed, adopted, and moved.

The world is a few records and a sum; it shares nothing with the ledger. Writes land late, in any order or never. Each
object is observed on its own, when it pleases, in any of the states that it ever had; lists are as old as they please,
and consistent reads take their time. The controller is taken to be at once where it costs most: a Deployment
costs what it asks for, at the dearest of its own template and those of ReplicaSets that have pods, or what its
ReplicaSets have, whichever is more. What a deletion leaves is collected at once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import cycle

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from extauthz import testing as builders
from extauthz.core.decision.policy import Policy
from extauthz.core.intake import admission
from extauthz.core.ledger.entry import Event
from extauthz.core.model import Decision, Request, Verdict, WorkloadRef
from extauthz.core.objects.workloads import observe
from extauthz.testing import Asker, gate, owned_by, path, quota, workload

HARD = {"root": 14, "a": 10, "b": 8}
DEPLOYMENTS = ("d0", "d1")
SETS = ("r0", "r1", "r2")
RESOURCE = {"Deployment": "deployments", "ReplicaSet": "replicasets"}
ALL = [("Deployment", name) for name in DEPLOYMENTS] + [("ReplicaSet", name) for name in SETS]
W = 90.0
MOST = 6
"""Writes of one source that are followed."""


@dataclass
class Thing:
    """An object as the API server holds it."""

    kind: str
    name: str
    uid: str
    version: int
    replicas: int
    cpu: int
    tier: str
    app: str
    owner: str = ""
    """UID of its controller."""

    def tree(self) -> dict:
        made = workload(
            self.name,
            self.replicas,
            {"cpu": str(self.cpu)},
            kind=self.kind,
            labels={"app": self.app, "tier": self.tier},
            version=str(self.version),
            uid=self.uid,
            ownerReferences=owned_by(self.owner.partition(":")[0], self.owner) if self.owner else [],
        )
        made["spec"]["strategy"] = {"type": "Recreate"}
        return made


@dataclass
class Flight:
    """An allowed write under way: what it does to the world, and when it can no longer."""

    kind: str
    name: str
    act: Callable[[Thing], None] | None
    born: Thing | None
    version: int | None
    admitted: bool = False
    """By the webhook."""
    pending_write: str | None = None
    deadline_s: float = 0.0


@dataclass
class Read:
    """A consistent read under way: what it found is on its way."""

    at: tuple[str, str]
    found: Thing | None
    version: int
    started_s: float


@dataclass
class World:
    things: dict[tuple[str, str], Thing] = field(default_factory=dict)
    clock: int = 10
    history: dict[tuple[str, str], list[tuple[int, Thing | None]]] = field(default_factory=dict)
    """Every state that an object ever had, with the version as of which it had it; ``None``: it was gone."""

    def note(self) -> None:
        """Write down what has changed."""
        for at in {*self.things, *self.history}:
            now, states = self.things.get(at), self.history.setdefault(at, [])
            if not states or states[-1][1] != now:
                states.append((now.version if now is not None else self.tick(), now and replace(now)))

    def as_of(self, version: int, kind: str) -> list[Thing]:
        """All objects of a kind as they were then."""
        then = {at: [one for v, one in states if v <= version] for at, states in self.history.items() if at[0] == kind}
        return [states[-1] for states in then.values() if states and states[-1] is not None]

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    def deployment(self, uid: str) -> Thing | None:
        return next((one for one in self.things.values() if one.uid == uid and one.kind == "Deployment"), None)

    def head(self, thing: Thing) -> Thing:
        owner = self.deployment(thing.owner) if thing.owner else None
        return owner if owner is not None and thing.app == owner.name else thing

    def costs(self) -> dict[str, int]:
        result = dict.fromkeys(HARD, 0)
        for head in self.things.values():
            if self.head(head) is not head:
                continue
            children = [one for one in self.things.values() if one is not head and self.head(one) is head]
            dearest = max([head.cpu, *(one.cpu for one in children if one.replicas)])
            cost = max(head.replicas * dearest, sum(one.replicas * one.cpu for one in children))
            result[head.tier] += cost
            result["root"] += cost
        return result

    def land(self, flight: Flight) -> bool:
        at = (flight.kind, flight.name)
        thing = self.things.get(at)
        if flight.born is not None:
            if thing is not None:
                return False
            flight.born.version = self.tick()
            if not flight.born.owner or self.deployment(flight.born.owner) is not None:
                self.things[at] = flight.born
            return True
        if thing is None or (flight.version is not None and flight.version != thing.version):
            return False
        assert flight.act is not None
        flight.act(thing)
        thing.version = self.tick()
        return True

    def delete(self, kind: str, name: str) -> None:
        gone = self.things.pop((kind, name), None)
        for at, one in list(self.things.items()):
            if gone is not None and one.owner == gone.uid:
                del self.things[at]


def containers(cpu: int) -> list[dict]:
    return [{"name": "main", "resources": {"requests": {"cpu": str(cpu)}}}]


class NeverOver(RuleBasedStateMachine):
    """Any interleaving of decisions, landings, answers, deletions, observations and time."""

    @initialize()
    def start(self) -> None:
        self.world = World()
        self.put_thing(Thing("Deployment", "d0", "d0:0", 1, 2, 1, "a", "d0"))
        self.put_thing(Thing("ReplicaSet", "r0", "r0:0", 1, 2, 1, "a", "d0", "d0:0"))
        self.put_thing(Thing("ReplicaSet", "r1", "r1:0", 1, 1, 3, "b", "d0"))
        self.put_thing(Thing("Deployment", "d1", "d1:0", 1, 1, 1, "b", "d1"))
        quotas = [
            quota("root", {"requests.cpu": str(HARD["root"])}, namespaces={"no": "such"}),
            *(
                quota(tier, {"requests.cpu": str(HARD[tier])}, parent="root", namespaces={}, workloads={"tier": tier})
                for tier in ("a", "b")
            ),
        ]
        quotas.append(quota("elsewhere", {"requests.cpu": "6"}, namespaces={"in": "elsewhere"}))
        policy = Policy(window_s=W, max_intents_per_source=MOST)
        self.world.note()
        self.ask = Asker(gate(quotas, *(thing.tree() for thing in self.world.things.values()), policy=policy))
        self.flights: list[Flight] = []
        self.reads: list[Read] = []
        self.sources = cycle(["a", "b", "b", ""])

    def totals(self) -> dict[str, tuple[int, int]]:
        return {row.quota: (row.used + row.reserved, row.hard) for row in self.ask.gate.usage()}

    def put_thing(self, thing: Thing) -> None:
        self.world.things[thing.kind, thing.name] = thing

    def send(
        self, request: Request, at: tuple[str, str], act: Callable[[Thing], None], version: int | None
    ) -> Decision:
        """A count comes to Envoy."""
        source = next(self.sources)
        return self.decided(lambda: self.ask(request._replace(source=source)), Flight(*at, act, None, version))

    def admit(self, old: Thing | None, new: Thing, act: Callable[[Thing], None] | None = None) -> None:
        """The webhook is shown what is about to be stored in place of ``old``. Nobody tells what became of it."""
        resource = {"group": "apps", "version": "v1", "resource": RESOURCE[new.kind]}
        asked = builders.admission(new.tree(), old.tree() if old is not None else None, resource=resource)
        review = admission.read(json.dumps(asked).encode())
        assert isinstance(review, admission.Review)
        reading, source = review.question.reading, next(self.sources)
        self.ask.count += 1
        name = f"w{self.ask.count}"
        flight = Flight(new.kind, new.name, act, new if old is None else None, old.version if old else None, True)
        self.decided(lambda: self.ask.gate.decide(reading, name, self.ask.now_s, source=source), flight)

    def decided(self, ask: Callable[[], Decision], flight: Flight) -> Decision:
        before = self.totals()
        decision = ask()
        for key, (total, hard) in self.totals().items():
            assert total <= hard or total <= before[key][0], f"granted above {key}"
        if decision.verdict is Verdict.ALLOW:
            flight.pending_write, flight.deadline_s = decision.pending_write, self.ask.now_s + W
            self.flights.append(flight)
        return decision

    def change(self, at: tuple[str, str], act: Callable[[Thing], None]) -> None:
        """Somebody changes an object, whose version the API server then holds it to."""
        old = self.world.things.get(at)
        if old is not None:
            new = replace(old)
            act(new)
            self.admit(old, new, act)

    @rule(at=st.sampled_from(ALL), replicas=st.integers(0, 9), behind=st.sampled_from([None, None, 0, 1]))
    def scale(self, at: tuple[str, str], replicas: int, behind: int | None) -> None:
        kind, name = at
        thing = self.world.things.get(at)
        version = thing.version - behind if thing is not None and behind is not None else None

        def request(count: int) -> Request:
            metadata = {"name": name, "namespace": "team-a"}
            metadata |= {"resourceVersion": str(version)} if version else {}
            body = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": {"replicas": count}}
            target = path(name, resource=RESOURCE[kind], sub="scale")
            return Request("PUT", target, {}, json.dumps(body).encode())

        def act(one: Thing) -> None:
            one.replicas = replicas

        decision = self.send(request(replicas), at, act, version)
        if decision.evidence.fits is not None:
            assert self.ask(request(decision.evidence.fits), charge=False).verdict is Verdict.ALLOW
            assert self.ask(request(decision.evidence.fits + 1), charge=False).verdict is Verdict.DENY

    @rule(name=st.sampled_from(DEPLOYMENTS), cpu=st.integers(1, 4))
    def change_template(self, name: str, cpu: int) -> None:
        def act(one: Thing) -> None:
            one.cpu = cpu

        self.change(("Deployment", name), act)

    @rule(name=st.sampled_from(DEPLOYMENTS), tier=st.sampled_from(["a", "b"]))
    def move(self, name: str, tier: str) -> None:
        def act(one: Thing) -> None:
            one.tier = tier

        self.change(("Deployment", name), act)

    @rule(
        name=st.sampled_from(DEPLOYMENTS),
        replicas=st.integers(0, 6),
        cpu=st.integers(1, 3),
        tier=st.sampled_from(["a", "b"]),
    )
    def change_all(self, name: str, replicas: int, cpu: int, tier: str) -> None:
        def act(one: Thing) -> None:
            one.replicas, one.cpu, one.tier = replicas, cpu, tier

        self.change(("Deployment", name), act)

    @rule(name=st.sampled_from(DEPLOYMENTS), replicas=st.integers(0, 6), tier=st.sampled_from(["a", "b"]))
    def create_deployment(self, name: str, replicas: int, tier: str) -> None:
        born = Thing("Deployment", name, f"{name}:{self.world.tick()}", 0, replicas, 1, tier, name)
        self.admit(None, born)

    @rule(
        name=st.sampled_from(SETS),
        of=st.sampled_from(DEPLOYMENTS),
        replicas=st.integers(0, 6),
        cpu=st.integers(1, 3),
        tier=st.sampled_from(["a", "b"]),
        owned=st.booleans(),
    )
    def create_set(self, name: str, of: str, replicas: int, cpu: int, tier: str, owned: bool) -> None:
        owner = self.world.things.get(("Deployment", of))
        uid = owner.uid if owner is not None and owned else ""
        born = Thing("ReplicaSet", name, f"{name}:{self.world.tick()}", 0, replicas, cpu, tier, of, uid)
        self.admit(None, born)

    @rule(name=st.sampled_from(SETS), tier=st.sampled_from(["a", "b"]), by=st.sampled_from(["labels", "owner"]))
    def free(self, name: str, tier: str, by: str) -> None:
        def act(one: Thing) -> None:
            one.tier = tier
            if by == "labels":
                one.app = "freed"
            else:
                one.owner = ""

        self.change(("ReplicaSet", name), act)

    @rule(name=st.sampled_from(SETS), of=st.sampled_from(DEPLOYMENTS), owned=st.booleans(), labelled=st.booleans())
    def adopt(self, name: str, of: str, owned: bool, labelled: bool) -> None:
        owner = self.world.things.get(("Deployment", of))

        def act(one: Thing) -> None:
            one.app = of if labelled or not owned else one.app
            one.owner = owner.uid if owned and owner is not None else one.owner

        self.change(("ReplicaSet", name), act)

    @rule(at=st.sampled_from([("Deployment", "d1"), ("ReplicaSet", "r0"), ("ReplicaSet", "r1"), ("Deployment", "d0")]))
    def delete(self, at: tuple[str, str]) -> None:
        self.world.delete(*at)
        self.world.note()

    @precondition(lambda self: self.flights)
    @rule(data=st.data(), answered=st.booleans())
    def land(self, data: st.DataObject, answered: bool) -> None:
        flight = data.draw(st.sampled_from(self.flights))
        self.flights.remove(flight)
        landed = self.world.land(flight)
        self.world.note()
        self.ask.now_s += 0.25
        if not answered or flight.admitted or flight.pending_write is None:
            return
        event = Event.ANSWERED_OK if landed else Event.REFUSED
        self.ask.gate.ledger.pending.settle(flight.pending_write, event, self.ask.now_s)

    @precondition(lambda self: self.flights)
    @rule(data=st.data())
    def never_forwarded(self, data: st.DataObject) -> None:
        flight = data.draw(st.sampled_from(self.flights))
        self.flights.remove(flight)
        if flight.pending_write is not None and not flight.admitted:
            self.ask.gate.ledger.pending.settle(flight.pending_write, Event.NOT_FORWARDED, self.ask.now_s)

    @rule(at=st.sampled_from(ALL))
    def observe_one(self, at: tuple[str, str]) -> None:
        self.show(at, self.world.things.get(at), self.world.clock)

    @rule(at=st.sampled_from(ALL), data=st.data())
    def observe_what_was(self, at: tuple[str, str], data: st.DataObject) -> None:
        states = self.world.history.get(at)
        if states:
            version, then = data.draw(st.sampled_from(states))
            self.show(at, then, version)

    @rule(kind=st.sampled_from(sorted(RESOURCE)), behind=st.integers(0, 6))
    def observe_a_list(self, kind: str, behind: int) -> None:
        version = self.world.clock - behind
        listed = [observe(one.tree()) for one in self.world.as_of(version, kind)]
        self.ask.gate.observe_all(("apps", RESOURCE[kind]), listed, str(version))

    def show(self, at: tuple[str, str], thing: Thing | None, version: int) -> None:
        ref = WorkloadRef("apps", RESOURCE[at[0]], "team-a", at[1])
        self.ask.gate.observe(ref, observe(thing.tree())[1] if thing else None, version=str(version))

    @rule(inside=st.booleans())
    def move_the_namespace(self, inside: bool) -> None:
        labels = {"workspace": "acme", "in": "elsewhere"} if inside else {"workspace": "acme"}
        self.ask.gate.observe_namespace("team-a", labels)

    @rule()
    def begin_what_is_due(self) -> None:
        for ref in self.ask.gate.ledger.pending.due(self.ask.now_s):
            at = next(kind for kind, plural in RESOURCE.items() if plural == ref.resource), ref.name
            found = self.world.things.get(at)
            self.reads.append(Read(at, found and replace(found), self.world.clock, self.ask.now_s))
        self.ask.now_s += 0.25

    @precondition(lambda self: self.reads)
    @rule(data=st.data())
    def finish_a_read(self, data: st.DataObject) -> None:
        read = data.draw(st.sampled_from(self.reads))
        self.reads.remove(read)
        self.show(read.at, read.found, read.version)
        self.ask.gate.ledger.pending.read(
            WorkloadRef("apps", RESOURCE[read.at[0]], "team-a", read.at[1]), read.started_s
        )

    @rule(seconds=st.sampled_from([1.0, 50.0, 100.0]))
    def time_passes(self, seconds: float) -> None:
        self.ask.now_s += seconds
        self.flights = [flight for flight in self.flights if flight.deadline_s > self.ask.now_s]
        self.ask.gate.tick(self.ask.now_s)

    @invariant()
    def pending_writes_of_sources_are_counted_exactly(self) -> None:
        if hasattr(self, "ask"):
            ledger = self.ask.gate.ledger
            live = Counter(pending_write.source for _, pending_write in ledger.pending)
            assert all(ledger.pending.of_source(source) == live[source] for source in ("a", "b", ""))
            assert max(live["a"], live["b"]) <= MOST + len(ALL), "beside these one lower count of each workload"

    @invariant()
    def the_world_stays_within_every_limit(self) -> None:
        if hasattr(self, "world"):
            costs = self.world.costs()
            assert all(costs[name] <= HARD[name] for name in HARD), f"{costs}: {list(self.world.things.values())}"

    @invariant()
    def what_is_kept_equals_what_is_recounted(self) -> None:
        if hasattr(self, "ask"):
            assert self.ask.gate.ledger.drift() == {}


TestNeverOverFamilies = NeverOver.TestCase
TestNeverOverFamilies.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
