"""Rule 1 by search, with families: Deployments and their ReplicaSets, created, deleted, freed and moved between quotas.

The world is a few records and a sum; it shares nothing with the ledger. Writes land late, in any order or never; each
object is observed on its own, when it pleases. The controller is taken to be at once where it costs most: a Deployment
costs what it asks for or what its ReplicaSets have, whichever is more. What a deletion leaves is collected at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from extauthz.core.intake.objects import observe
from extauthz.core.ledger.intents import Event
from extauthz.core.model import Decision, Request, Verdict, WorkloadRef
from extauthz.testing.builders import Asker, create, gate, owned_by, patch, path, pod, quota, workload

HARD = {"root": 14, "a": 10, "b": 8}
DEPLOYMENTS = ("d0", "d1")
SETS = ("r0", "r1", "r2")
RESOURCE = {"Deployment": "deployments", "ReplicaSet": "replicasets"}
W = 90.0


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

    decision: Decision
    kind: str
    name: str
    act: Callable[[Thing], None] | None
    born: Thing | None
    version: int | None
    deadline_s: float


@dataclass
class World:
    things: dict[tuple[str, str], Thing] = field(default_factory=dict)
    clock: int = 10

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
            cost = max(head.replicas * head.cpu, sum(one.replicas * one.cpu for one in children))
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
        self.put_thing(Thing("Deployment", "d1", "d1:0", 1, 1, 1, "b", "d1"))
        quotas = [
            quota("root", {"requests.cpu": str(HARD["root"])}, namespaces={"no": "such"}),
            *(
                quota(tier, {"requests.cpu": str(HARD[tier])}, parent="root", namespaces={}, workloads={"tier": tier})
                for tier in ("a", "b")
            ),
        ]
        self.ask = Asker(gate(quotas, *(thing.tree() for thing in self.world.things.values())))
        self.flights: list[Flight] = []

    def put_thing(self, thing: Thing) -> None:
        self.world.things[thing.kind, thing.name] = thing

    def send(
        self,
        request: Request,
        kind: str,
        name: str,
        act: Callable[[Thing], None] | None = None,
        born: Thing | None = None,
        version: int | None = None,
    ) -> Decision:
        decision = self.ask(request)
        if decision.verdict is Verdict.ALLOW:
            self.flights.append(Flight(decision, kind, name, act, born, version, self.ask.now_s + W))
        return decision

    def change(self, kind: str, name: str, body: object, how: str, act: Callable[[Thing], None]) -> None:
        self.send(patch(path(name, resource=RESOURCE[kind]), body, how), kind, name, act)

    @rule(
        at=st.sampled_from([("Deployment", n) for n in DEPLOYMENTS] + [("ReplicaSet", n) for n in SETS]),
        replicas=st.integers(0, 9),
        behind=st.sampled_from([None, None, 0, 1]),
    )
    def scale(self, at: tuple[str, str], replicas: int, behind: int | None) -> None:
        kind, name = at
        thing = self.world.things.get(at)
        version = thing.version - behind if thing is not None and behind is not None else None

        def request(count: int) -> Request:
            metadata = {"name": name, "namespace": "team-a"}
            metadata |= {"resourceVersion": str(version)} if version else {}
            body = {
                "kind": "Scale",
                "apiVersion": "autoscaling/v1",
                "metadata": metadata,
                "spec": {"replicas": count},
            }
            target = path(name, resource=RESOURCE[kind], sub="scale")
            return Request("PUT", target, {}, json.dumps(body).encode())

        def act(one: Thing) -> None:
            one.replicas = replicas

        decision = self.send(request(replicas), kind, name, act, version=version)
        if decision.fits is not None:
            assert self.ask(request(decision.fits), charge=False).verdict is Verdict.ALLOW
            assert self.ask(request(decision.fits + 1), charge=False).verdict is Verdict.DENY

    @rule(name=st.sampled_from(DEPLOYMENTS), cpu=st.integers(1, 4), how=st.sampled_from(["strategic", "apply"]))
    def change_template(self, name: str, cpu: int, how: str) -> None:
        body = {"spec": {"template": {"spec": {"containers": containers(cpu)}}}}
        if how == "apply":
            body = {"spec": {"selector": {"matchLabels": {"app": name}}, "template": pod({"cpu": str(cpu)})}}

        def act(one: Thing) -> None:
            one.cpu = cpu

        self.change("Deployment", name, body, how, act)

    @rule(name=st.sampled_from(DEPLOYMENTS), tier=st.sampled_from(["a", "b"]))
    def move(self, name: str, tier: str) -> None:
        def act(one: Thing) -> None:
            one.tier = tier

        self.change("Deployment", name, {"metadata": {"labels": {"tier": tier}}}, "merge", act)

    @rule(
        name=st.sampled_from(DEPLOYMENTS),
        replicas=st.integers(0, 6),
        cpu=st.integers(1, 3),
        tier=st.sampled_from(["a", "b"]),
        bound=st.booleans(),
    )
    def put_whole(self, name: str, replicas: int, cpu: int, tier: str, bound: bool) -> None:
        thing = self.world.things.get(("Deployment", name))
        if thing is None:
            return
        body = Thing("Deployment", name, thing.uid, thing.version, replicas, cpu, tier, name).tree()
        del body["metadata"]["uid"]
        if not bound:
            del body["metadata"]["resourceVersion"]

        def act(one: Thing) -> None:
            one.replicas, one.cpu, one.tier = replicas, cpu, tier

        request = Request("PUT", path(name), {"content-type": "application/json"}, json.dumps(body).encode())
        self.send(request, "Deployment", name, act, version=thing.version if bound else None)

    @rule(name=st.sampled_from(DEPLOYMENTS), replicas=st.integers(0, 6), tier=st.sampled_from(["a", "b"]))
    def create_deployment(self, name: str, replicas: int, tier: str) -> None:
        born = Thing("Deployment", name, f"{name}:{self.world.tick()}", 0, replicas, 1, tier, name)
        self.send(create(born.tree()), "Deployment", name, born=born)

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
        self.send(create(born.tree()), "ReplicaSet", name, born=born)

    @rule(name=st.sampled_from(SETS), tier=st.sampled_from(["a", "b"]), by=st.sampled_from(["labels", "owner"]))
    def free(self, name: str, tier: str, by: str) -> None:
        labels = {"app": "freed", "tier": tier} if by == "labels" else {"tier": tier}
        body: dict = {"metadata": {"labels": labels}}
        if by == "owner":
            body["metadata"]["ownerReferences"] = []

        def act(one: Thing) -> None:
            one.tier = tier
            if by == "labels":
                one.app = "freed"
            else:
                one.owner = ""

        self.change("ReplicaSet", name, body, "merge", act)

    @rule(at=st.sampled_from([("Deployment", "d1"), ("ReplicaSet", "r0"), ("ReplicaSet", "r1"), ("Deployment", "d0")]))
    def delete(self, at: tuple[str, str]) -> None:
        self.world.delete(*at)

    @precondition(lambda self: self.flights)
    @rule(data=st.data(), answered=st.booleans())
    def land(self, data: st.DataObject, answered: bool) -> None:
        flight = data.draw(st.sampled_from(self.flights))
        self.flights.remove(flight)
        landed = self.world.land(flight)
        if not answered or flight.decision.intent is None:
            return
        event = Event.ANSWERED_OK if landed else Event.REFUSED
        self.ask.gate.settle(flight.decision.intent, event, self.ask.now_s)

    @precondition(lambda self: self.flights)
    @rule(data=st.data())
    def never_forwarded(self, data: st.DataObject) -> None:
        flight = data.draw(st.sampled_from(self.flights))
        self.flights.remove(flight)
        if flight.decision.intent is not None:
            self.ask.gate.settle(flight.decision.intent, Event.NOT_FORWARDED, self.ask.now_s)

    @rule(at=st.sampled_from([("Deployment", n) for n in DEPLOYMENTS] + [("ReplicaSet", n) for n in SETS]))
    def observe_one(self, at: tuple[str, str]) -> None:
        thing = self.world.things.get(at)
        ref = WorkloadRef("apps", RESOURCE[at[0]], "team-a", at[1])
        self.ask.gate.observe(ref, observe(thing.tree())[1] if thing else None, version=str(self.world.clock))

    @rule(seconds=st.sampled_from([1.0, 50.0, 100.0]))
    def time_passes(self, seconds: float) -> None:
        self.ask.now_s += seconds
        self.flights = [flight for flight in self.flights if flight.deadline_s > self.ask.now_s]
        self.ask.gate.tick(self.ask.now_s)

    @rule()
    def read_everything(self) -> None:
        started_s = self.ask.now_s
        for at in [("Deployment", n) for n in DEPLOYMENTS] + [("ReplicaSet", n) for n in SETS]:
            self.observe_one(at)
        self.ask.gate.consistent_read(started_s)

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
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
