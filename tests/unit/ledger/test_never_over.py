"""Rule 1 by search: a small world in which allowed writes land late, in any order, or never, and the view lags.

The world knows nothing of ledgers: it adds up what its objects cost. Whatever the order of events, that sum stays
within hard, and so do used and reserved after every grant.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from extauthz import testing as builders
from extauthz.core.intake import admission
from extauthz.core.ledger.entry import Event
from extauthz.core.model import Decision, Request, Verdict, WorkloadRef
from extauthz.core.objects.workloads import observe
from extauthz.core.quota.tree import QuotaTree
from extauthz.testing import Asker, gate, path, put_scale, quota, scale, workload
from tests.worlds.judge import Key, Promise, Quota, State, View, landed, reachable, wrong

HARD = {"acme": 12, "team": 8}
NAMES = ("a", "b", "c")
NANO = 10**9


@dataclass
class Thing:
    """One Deployment as the API server holds it."""

    name: str
    replicas: int
    cpu: int
    version: int
    side: int = 0
    """What its second container asks for."""

    def tree(self) -> dict:
        tree = workload(self.name, self.replicas, version=str(self.version))
        tree["spec"]["template"]["spec"]["containers"] = containers(main=self.cpu, side=self.side)
        return tree


def containers(**cpus: int) -> list[dict]:
    return [{"name": name, "resources": {"requests": {"cpu": str(cpu)}}} for name, cpu in cpus.items()]


@dataclass
class Flight:
    """An allowed write under way."""

    decision: Decision
    name: str
    replicas: int | None = None
    cpu: int | None = None
    side: int | None = None
    version: int | None = None
    deadline_s: float = 0.0
    admitted: bool = False
    """By the webhook: nobody tells what became of it."""

    def on(self, thing: Thing) -> Thing:
        """What it leaves."""
        asked = {"replicas": self.replicas, "cpu": self.cpu, "side": self.side}
        return replace(thing, **{key: value for key, value in asked.items() if value is not None})


@dataclass
class World:
    things: dict[str, Thing] = field(default_factory=dict)
    clock: int = 10

    def cost(self) -> int:
        return sum(thing.replicas * (thing.cpu + thing.side) for thing in self.things.values())

    def land(self, flight: Flight) -> bool:
        thing = self.things[flight.name]
        if flight.version is not None and flight.version != thing.version:
            return False
        self.clock += 1
        self.things[flight.name] = replace(flight.on(thing), version=self.clock)
        return True


class NeverOver(RuleBasedStateMachine):
    """Any interleaving of decisions, landings, answers, observations and time."""

    @initialize(replicas=st.lists(st.integers(0, 2), min_size=3, max_size=3))
    def start(self, replicas: list[int]) -> None:
        self.world = World({name: Thing(name, n, 1, 1) for name, n in zip(NAMES, replicas, strict=True)})
        quotas = [
            quota("acme", {"requests.cpu": str(HARD["acme"])}, namespaces={}),
            quota("team", {"requests.cpu": str(HARD["team"])}, parent="acme", namespaces={"workspace": "acme"}),
        ]
        made = gate(quotas, *(thing.tree() for thing in self.world.things.values()))
        self.ask = Asker(made)
        self.flights: list[Flight] = []

    def send(self, request: Request, **flight: int | None) -> None:
        before = self.charged()
        self.take_off(self.ask(request), before, **flight)

    def charged(self) -> dict[str, int]:
        return {row.quota: row.used + row.reserved for row in self.ask.gate.usage()}

    def take_off(self, decision: Decision, before: dict[str, int], **flight: int | None) -> None:
        """What is seen may cost more than was granted, as a patch that pends is worked out anew on it; no grant may."""
        if decision.verdict is not Verdict.ALLOW:
            return
        self.flights.append(Flight(decision, deadline_s=self.ask.now_s + 90.0, **flight))
        for name, charged in self.charged().items():
            assert charged <= max(HARD[name] * NANO, before[name]), f"granted above {name}"

    @rule(name=st.sampled_from(NAMES), replicas=st.integers(0, 9))
    def scale_blindly(self, name: str, replicas: int) -> None:
        self.send(scale(name, replicas), name=name, replicas=replicas)

    @rule(name=st.sampled_from(NAMES), replicas=st.integers(0, 9), behind=st.integers(0, 1))
    def scale_with_precondition(self, name: str, replicas: int, behind: int) -> None:
        version = self.world.things[name].version - behind
        self.send(put_scale(name, replicas, str(version)), name=name, replicas=replicas, version=version)

    def admit(self, old: Thing, new: Thing) -> None:
        """The webhook is asked whether the one may become the other."""
        review = admission.read(json.dumps(builders.admission(new.tree(), old.tree())).encode())
        assert isinstance(review, admission.Review)
        self.ask.count += 1
        before = self.charged()
        decision = self.ask.gate.decide(review.question.reading, f"w{self.ask.count}", self.ask.now_s)
        asked = {"replicas": new.replicas, "cpu": new.cpu, "side": new.side}
        self.take_off(decision, before, name=new.name, **asked, version=old.version, admitted=True)

    @rule(name=st.sampled_from(NAMES), replicas=st.integers(0, 9), cpu=st.integers(1, 4), side=st.integers(0, 2))
    def change_the_object(self, name: str, replicas: int, cpu: int, side: int) -> None:
        old = self.world.things[name]
        self.admit(old, replace(old, replicas=replicas, cpu=cpu, side=side))

    @rule(name=st.sampled_from(NAMES), cpu=st.integers(1, 4))
    def change_the_template(self, name: str, cpu: int) -> None:
        old = self.world.things[name]
        self.admit(old, replace(old, cpu=cpu))

    @precondition(lambda self: self.flights)
    @rule(data=st.data(), answer=st.sampled_from(["answered", "lost"]))
    def land(self, data: st.DataObject, answer: str) -> None:
        flight = data.draw(st.sampled_from(self.flights))
        self.flights.remove(flight)
        landed = self.world.land(flight)
        if answer == "lost" or flight.admitted or flight.decision.pending_write is None:
            return
        if landed:
            self.ask.gate.ledger.pending.settle(flight.decision.pending_write, Event.ANSWERED_OK, self.ask.now_s)
        else:
            self.ask.gate.ledger.pending.settle(flight.decision.pending_write, Event.REFUSED, self.ask.now_s)

    @precondition(lambda self: self.flights)
    @rule(data=st.data())
    def never_forwarded(self, data: st.DataObject) -> None:
        flight = data.draw(st.sampled_from(self.flights))
        self.flights.remove(flight)
        if flight.decision.pending_write is not None and not flight.admitted:
            self.ask.gate.ledger.pending.settle(flight.decision.pending_write, Event.NOT_FORWARDED, self.ask.now_s)

    @rule(name=st.sampled_from(NAMES))
    def observe_one(self, name: str) -> None:
        ref, observed = observe(self.world.things[name].tree())
        self.ask.gate.observe(ref, observed)

    @rule(seconds=st.sampled_from([1.0, 50.0, 100.0]))
    def time_passes(self, seconds: float) -> None:
        """What has not landed within W never will."""
        self.ask.now_s += seconds
        self.flights = [flight for flight in self.flights if flight.deadline_s > self.ask.now_s]
        self.ask.gate.tick(self.ask.now_s)

    @rule()
    def read_everything(self) -> None:
        started_s = self.ask.now_s
        for name in NAMES:
            self.observe_one(name)
        self.ask.gate.ledger.pending.consistent_read(started_s)

    @invariant()
    def the_world_stays_within_every_limit(self) -> None:
        if hasattr(self, "world"):
            assert self.world.cost() <= min(HARD.values())

    @invariant()
    def what_is_kept_equals_what_is_recounted(self) -> None:
        if hasattr(self, "ask"):
            assert self.ask.gate.ledger.drift() == {}


class NeverOverBothWays(NeverOver):
    """The same where the webhook is asked about the counts too that Envoy has let through."""

    @precondition(lambda self: self.flights)
    @rule(data=st.data(), more=st.sampled_from([{}, {"side": 1}, {"replicas": 1}]))
    def what_is_under_way_comes_to_the_webhook(self, data: st.DataObject, more: dict[str, int]) -> None:
        """It may land a second time by itself, and something may have changed it on the way."""
        flight = data.draw(st.sampled_from(self.flights))
        old = self.world.things[flight.name]
        self.admit(old, replace(flight.on(old), **more))


TestNeverOverBothWays = NeverOverBothWays.TestCase
TestNeverOver = NeverOver.TestCase
TestNeverOver.settings = TestNeverOverBothWays.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


def test_a_zero_target_always_passes_even_far_over_quota():
    made = gate([quota("acme", {"requests.cpu": "1"})], workload("web", 9))
    ask = Asker(made)
    assert ask(scale("web", 0)).verdict is Verdict.ALLOW
    assert made.ledger.get(WorkloadRef("apps", "deployments", "team-a", "web")) is not None


# The gate and the second judge, asked the same in small worlds, say the same.
#
# The judge (``tests.worlds.judge``) knows nothing of pending writes, envelopes and accounts: it follows every
# order in which what was allowed may land, and adds up.


TIERS = ("web", "job")
PARENTS: Mapping[str, str] = {"acme": "", "web": "acme", "site": ""}
SELECTS: Mapping[str, Mapping[str, str]] = {"acme": {}, "web": {"tier": "web"}, "site": {}}

OTHER_REASONS = frozenset({Verdict.UNAVAILABLE})
"""Refusals for other reasons than room: the judge has no word for them."""

limits = st.fixed_dictionaries({}, optional={"requests.cpu": st.integers(0, 12), "pods": st.integers(0, 12)})


def key(name: str) -> Key:
    return "team-a", name


def may_allow(
    view: View, workloads: Mapping[Key, State], promises: Iterable[Promise], write: Promise, versions: Mapping[Key, str]
) -> bool:
    """Whether a gate that knows everything may allow a write."""
    held = [*promises]

    def could(some: Iterable[Promise]) -> dict[Key, set[State]]:
        by_key: dict[Key, list[Promise]] = {key: [] for key in workloads}
        for one in some:
            by_key.setdefault(one.key, []).append(one)
        return {key: reachable(workloads.get(key), versions.get(key, ""), one) for key, one in by_key.items()}

    def hard(quota: str, resource: str) -> int | None:
        return view.quotas[quota].hard.get(resource)

    return not wrong(view, could(held), could([*held, write]), write, [workloads.get(write.key)], hard)


class Judged(RuleBasedStateMachine):
    """Writes, landings and cuts in any order; the gate sees all at once."""

    @initialize(
        states=st.tuples(*[st.tuples(st.integers(0, 3), st.integers(1, 2), st.sampled_from(TIERS)) for _ in NAMES]),
        hard=st.fixed_dictionaries(dict.fromkeys(PARENTS, limits)),
    )
    def start(self, states: tuple[tuple[int, int, str], ...], hard: dict[str, dict[str, int]]) -> None:
        self.states = {
            key(name): State(n, 1000 * cpu, tier) for name, (n, cpu, tier) in zip(NAMES, states, strict=True)
        }
        self.versions = dict.fromkeys(self.states, 1)
        self.promises: dict[str, Promise] = {}
        self.hard = hard
        made = gate(self.quotas(), *(self.tree(name) for name in NAMES))
        self.ask = Asker(made)

    def quotas(self) -> list:
        return [
            quota(
                name,
                {resource: str(amount) for resource, amount in hard.items()},
                parent=PARENTS[name] or None,
                namespaces={},
                workloads=SELECTS[name] or None,
            )
            for name, hard in self.hard.items()
        ]

    def tree(self, name: str, state: State | None = None) -> dict:
        one = state or self.states[key(name)]
        labels = {"app": name, "tier": one.tier}
        version = str(self.versions[key(name)])
        return workload(name, one.replicas, {"cpu": f"{one.cpu_m}m"}, labels=labels, version=version)

    def view(self) -> View:
        return View(
            {
                name: Quota(
                    name,
                    PARENTS[name],
                    {},
                    SELECTS[name],
                    {at: amount * (1000 if at == "requests.cpu" else 1) for at, amount in hard.items()},
                )
                for name, hard in self.hard.items()
            },
            {"team-a": {"workspace": "acme"}},
            {},
        )

    def judge(self, request: Request, promise: Promise) -> None:
        right = may_allow(self.view(), self.states, self.promises.values(), promise, self.seen())
        decision: Decision = self.ask(request)
        if decision.verdict in OTHER_REASONS:
            return
        if decision.verdict is Verdict.ALLOW:
            assert right, f"{decision.reason}: over"
            self.promises[decision.id] = promise
        elif not self.is_coarse(promise):
            assert not right, decision.sentence

    def is_coarse(self, promise: Promise) -> bool:
        """Where the judge is more exact: the gate charges a workload whose labels may change in all that either
        selects, and lets a count with a precondition meet a template that can only land after it."""
        held = [*self.promises.values(), promise]
        relabels = any(one.tier not in (None, self.states[one.key].tier) for one in held)
        mine = [one for one in held if one.key == promise.key]
        return relabels or (any(one.only_on for one in mine) and any(one.cpu_m for one in mine))

    def seen(self) -> dict[Key, str]:
        return {one: str(version) for one, version in self.versions.items()}

    @rule(name=st.sampled_from(NAMES), replicas=st.integers(0, 6))
    def scale_blindly(self, name: str, replicas: int) -> None:
        self.judge(scale(name, replicas), Promise(key(name), replicas, None))

    @rule(name=st.sampled_from(NAMES), replicas=st.integers(0, 6))
    def scale_with_precondition(self, name: str, replicas: int) -> None:
        version = str(self.versions[key(name)])
        self.judge(put_scale(name, replicas, version), Promise(key(name), replicas, None, only_on=version))

    @rule(name=st.sampled_from(NAMES), replicas=st.integers(0, 4), cpu=st.integers(1, 3), tier=st.sampled_from(TIERS))
    def replace(self, name: str, replicas: int, cpu: int, tier: str) -> None:
        """An API server stores a whole object on the version that it has shown to the webhook."""
        whole = json.dumps(self.tree(name, State(replicas, 1000 * cpu, tier))).encode()
        request = Request("PUT", path(name), {"content-type": "application/json"}, whole)
        version = str(self.versions[key(name)])
        self.judge(request, Promise(key(name), replicas, 1000 * cpu, tier, only_on=version))

    @precondition(lambda self: self.promises)
    @rule(data=st.data())
    def land(self, data: st.DataObject) -> None:
        decision_id = data.draw(st.sampled_from(sorted(self.promises)))
        promise = self.promises.pop(decision_id)
        where, event = promise.key, Event.REFUSED
        if promise.only_on in ("", str(self.versions[where])):
            event = Event.ANSWERED_OK
            before = self.states[where]
            after = landed(before, promise)
            assert after is not None
            self.states[where] = after
            if after != before:
                self.versions[where] += 1
        self.ask.gate.ledger.pending.settle(decision_id, event, self.ask.now_s)
        self.read(where)

    @precondition(lambda self: self.promises)
    @rule(data=st.data())
    def never_forwarded(self, data: st.DataObject) -> None:
        decision_id = data.draw(st.sampled_from(sorted(self.promises)))
        del self.promises[decision_id]
        self.ask.gate.ledger.pending.settle(decision_id, Event.NOT_FORWARDED, self.ask.now_s)

    @rule(name=st.sampled_from(NAMES), replicas=st.integers(0, 6))
    def grow_past_the_gate(self, name: str, replicas: int) -> None:
        self.states[key(name)] = self.states[key(name)]._replace(replicas=replicas)
        self.versions[key(name)] += 1
        self.read(key(name))

    @rule(name=st.sampled_from(sorted(PARENTS)), hard=limits)
    def change_limits(self, name: str, hard: dict[str, int]) -> None:
        self.hard = {**self.hard, name: hard}
        self.ask.gate.load_quotas(QuotaTree.build(self.quotas()), self.ask.now_s)

    def read(self, where: Key) -> None:
        self.ask.now_s += 0.1
        ref, observed = observe(self.tree(where[1]))
        self.ask.gate.observe(ref, observed)
        self.ask.gate.ledger.pending.read(ref, self.ask.now_s)


TestJudged = Judged.TestCase
TestJudged.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
