"""The series that name a quota: what is left, who is refused and for how long, and what they want beyond the limit."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from extauthz.core.decision.gate import Gate
from extauthz.core.decision.policy import Policy
from extauthz.core.model import Decision
from extauthz.core.queries import Queries
from extauthz.tell.observe.episodes import Recent
from extauthz.tell.observe.metrics import TABLE, Levels, Metrics
from extauthz.tell.observe.observers import Report
from extauthz.tell.observe.quota_facts import Waiting
from extauthz.testing import Asker, gate, quota, scale, workload

ACME = quota("acme", {"requests.cpu": "10"})
LABELS = {family.name: family.labels for family in TABLE}


class World:
    """A gate, its metrics, and a clock."""

    def __init__(self, made: Gate, most: int = 100) -> None:
        self.gate, self.now_s, self._most = made, 1_000_000.0, most
        self.ask = Asker(made)
        self.recent = Recent(lambda: self.now_s)
        self.metrics = Metrics(self._levels)

    def _levels(self) -> Levels:
        uses = list(Queries(self.gate.ledger).quotas())[: self._most]
        waiting = [Waiting(one.latest, self.now_s - one.began_s) for one in self.recent.episodes()]
        return Levels(uses, waiting)

    def scale(self, name: str, replicas: int) -> Decision:
        decision = self.ask(scale(name, replicas))
        self.metrics.decided(Report(decision, seconds=0.001))
        self.recent.decided(Report(decision))
        return decision

    async def series(self, name: str) -> dict[Any, float]:
        """Label values in the table's order to the number."""
        body, _ = await self.metrics.scrape("")
        samples = [s for family in text_string_to_metric_families(body.decode()) for s in family.samples]
        labels = LABELS[name]
        return {tuple(s.labels[one] for one in labels): s.value for s in samples if s.name == name}


async def test_refusals_are_counted_for_each_quota_and_resource_by_their_word() -> None:
    world = World(gate([ACME], workload("web", 2), workload("other", 1)))
    world.scale("web", 10)
    world.scale("web", 10)
    world.scale("web", 11)
    world.scale("web", 9)
    assert await world.series("extauthz_quota_refusals_total") == {
        ("acme", "requests.cpu", "WaitingForRoom"): 2,
        ("acme", "requests.cpu", "ExceedsHard"): 1,
    }


async def test_pods_that_state_nothing_count_as_misconfigured() -> None:
    world = World(gate([ACME], workload("web", 1, {})))
    world.scale("web", 2)
    key = ("acme", "requests.cpu", "Misconfigured")
    assert await world.series("extauthz_quota_refusals_total") == {key: 1}
    assert await world.series("extauthz_quota_episodes") == {key: 1}


@pytest.mark.parametrize(
    ("mode", "policy"), [("Audit", None), ("Enforce", Policy(mode="audit"))], ids=["of-the-quota", "of-the-gate"]
)
async def test_what_only_audits_is_counted_apart(mode: str, policy: Policy | None) -> None:
    world = World(gate([quota("acme", {"requests.cpu": "10"}, mode=mode)], workload("web", 2), policy=policy))
    world.scale("web", 11)
    assert await world.series("extauthz_quota_audit_refusals_total") == {("acme", "requests.cpu"): 1}
    assert await world.series("extauthz_quota_refusals_total") == {}


async def test_a_write_that_only_audits_counts_once_for_a_resource_that_it_lacks_and_does_not_state() -> None:
    silent = workload("web", 2)
    silent["spec"]["template"]["spec"]["containers"].append({"name": "silent", "image": "x"})
    world = World(gate([quota("acme", {"requests.cpu": "10"}, mode="Audit")], silent))
    found = world.scale("web", 11)
    assert found.evidence.audit
    assert found.evidence.unspecified
    assert await world.series("extauthz_quota_audit_refusals_total") == {("acme", "requests.cpu"): 1}


async def test_quotas_beyond_the_bound_have_no_series() -> None:
    other = quota("zeta", {"requests.cpu": "1"}, namespaces={"workspace": "acme"})
    world = World(gate([ACME, other], workload("web", 1)), most=1)
    world.scale("web", 11)
    for name in ("quota_refusals_total", "quota_episodes", "quota_denied_demand", "quota_headroom", "quota"):
        assert {key[0] for key in await world.series(f"extauthz_{name}")} == {"acme"}


async def test_an_episode_has_an_age_until_there_is_room() -> None:
    world = World(gate([ACME], workload("web", 2), workload("api", 1)))
    world.scale("web", 10)
    world.now_s += 400
    world.scale("api", 10)
    world.scale("web", 10)
    world.now_s += 200
    key = ("acme", "requests.cpu", "WaitingForRoom")
    assert await world.series("extauthz_quota_episodes") == {key: 2}
    assert await world.series("extauthz_quota_oldest_episode_seconds") == {key: 600}
    assert await world.series("extauthz_episodes") == {("WaitingForRoom",): 2}
    world.gate.load_quotas(gate([quota("acme", {"requests.cpu": "99"})]).ledger.coverage.tree, 0.0)
    for name in ("web", "api"):
        world.scale(name, 10)
    assert await world.series("extauthz_quota_episodes") == {}
    assert await world.series("extauthz_episodes") == {}


async def test_denied_demand_is_what_the_limit_lacks_for_all_that_is_refused() -> None:
    """3 are used. 8 + 9 more are wanted: 20, where 10 are the limit."""
    world = World(gate([ACME], workload("web", 2), workload("api", 1)))
    assert await world.series("extauthz_quota_denied_demand") == {("acme", "requests.cpu"): 0}
    world.scale("web", 10)
    world.scale("api", 10)
    assert await world.series("extauthz_quota_denied_demand") == {("acme", "requests.cpu"): 10}


async def test_a_quota_that_is_over_has_no_denied_demand_where_nobody_asks() -> None:
    world = World(gate([ACME], workload("web", 12)))
    assert await world.series("extauthz_quota_denied_demand") == {("acme", "requests.cpu"): 0}
    assert await world.series("extauthz_quota_headroom") == {("acme", "requests.cpu"): -2}


@pytest.mark.parametrize(("mode", "left"), [("Enforce", 3), ("Audit", 8)])
async def test_headroom_is_the_least_of_the_quota_and_those_above_that_refuse(mode: str, left: int) -> None:
    """The root leaves 3. Between them is one that limits memory alone."""
    tree = [
        quota("corp", {"requests.cpu": "5"}, namespaces={"none": "none"}, mode=mode),
        quota("team", {"requests.memory": "1Gi"}, namespaces={"none": "none"}, parent="corp"),
        quota("acme", {"requests.cpu": "10"}, parent="team"),
    ]
    world = World(gate(tree, workload("web", 2, {"cpu": "1", "memory": "0"})))
    found = await world.series("extauthz_quota_headroom")
    assert found["acme", "requests.cpu"] == left
    assert found["corp", "requests.cpu"] == 3


async def test_what_is_kept_for_guarantees_is_no_headroom_of_others() -> None:
    """Of 8 CPUs a has 1 of the 4 that it is guaranteed, b all of its own, and c 2 that are not."""
    below = [
        quota(name, {"requests.cpu": "8"}, parent="corp", guaranteed={"requests.cpu": cpus})
        for name, cpus in (("a", "4"), ("b", "1"), ("c", "0"))
    ]
    corp = quota("corp", {"requests.cpu": "8"}, namespaces={"none": "none"})
    has = {"a": 1, "b": 1, "c": 2}
    objects = [workload(name, count, namespace=name) for name, count in has.items()]
    world = World(gate([corp, *below], *objects, namespaces={name: {"workspace": name} for name in has}))
    found = await world.series("extauthz_quota_headroom")
    assert {name: found[name, "requests.cpu"] for name in ("corp", *has)} == {"corp": 1, "a": 4, "b": 1, "c": 1}
    types = await world.series("extauthz_quota")
    told = {
        (name, kind): amount for (name, _, kind), amount in types.items() if kind not in ("hard", "used", "reserved")
    }
    assert told == {("corp", "kept"): 3, ("a", "guaranteed"): 4, ("b", "guaranteed"): 1}


async def test_the_three_numbers_are_told_by_type_too() -> None:
    world = World(gate([ACME], workload("web", 2)))
    world.scale("web", 5)
    found = await world.series("extauthz_quota")
    assert found == {
        ("acme", "requests.cpu", "hard"): 10,
        ("acme", "requests.cpu", "used"): 2,
        ("acme", "requests.cpu", "reserved"): 3,
    }
