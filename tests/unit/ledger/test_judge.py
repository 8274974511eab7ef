"""The gate and the second judge, asked the same in small worlds, say the same.

The judge (``extauthz.simulate.judge``) knows nothing of pending writes, envelopes and accounts: it follows every order
in which what was allowed may land, and adds up.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from extauthz.core.ledger.entry import Event
from extauthz.core.model import Decision, Request, Verdict
from extauthz.core.objects.workloads import observe
from extauthz.core.quota.tree import QuotaTree
from extauthz.simulate.judge import Key, Promise, Quota, State, View, landed, reachable, wrong
from extauthz.testing.builders import Asker, gate, path, put_scale, quota, scale, workload

NAMES = ("a", "b", "c")
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
