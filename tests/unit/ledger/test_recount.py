"""A count from scratch, in steps between which everything changes, finds what is wrong and nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from extauthz.core.decision.policy import Policy
from extauthz.core.footprint import LimitRangeDefaults
from extauthz.core.ledger.accounts import Difference
from extauthz.core.ledger.entry import Event
from extauthz.core.model import Verdict, WorkloadRef
from extauthz.core.objects.workloads import observe
from extauthz.core.quota.tree import QuotaTree
from extauthz.testing import Asker, create, gate, owned_by, quota, scale, workload
from tests.unit.asking import adopt, told

CPU = 10**9
QUOTAS = (
    quota("acme", {"requests.cpu": "500", "pods": "500"}, parent="corp"),
    quota("corp", {"requests.cpu": "900", "count/deployments.apps": "90"}, namespaces={}),
    quota("paid", {"pods": "400"}, namespaces={}, workloads={"tier": "paid"}),
)
NAMESPACES = {f"team-{n}": {"workspace": "acme"} for n in range(4)}


def asker(*, charge_surge: bool) -> Asker:
    return Asker(gate(QUOTAS, namespaces=NAMESPACES, policy=Policy(window_s=90.0, charge_surge=charge_surge)))


def finished(steps, between: Callable[[], object] = lambda: None) -> tuple[Difference, ...] | None:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
        between()


class Bustle:
    """Changes of all kinds, one at a time, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.ask = asker(charge_surge=bool(seed % 2))
        self.version = 10
        self.granted: list[str] = []
        self.kinds: list[Callable[[], None]] = [
            self.deployment, self.deployment, self.revision, self.revision, self.gone, self.grant, self.grant,
            self.settle, self.namespace, self.limits,
        ]  # fmt: skip

    def name(self) -> str:
        return f"w{self.random.randrange(6)}"

    def team(self) -> str:
        return f"team-{self.random.randrange(4)}"

    def observe(self, tree: dict) -> None:
        self.ask.gate.observe(*observe(tree))

    def more(self) -> dict:
        self.version += 1
        labels = {"app": self.name(), "tier": self.random.choice(["free", "paid"])}
        return {"version": str(self.version), "namespace": self.team(), "labels": labels}

    def deployment(self) -> None:
        name = self.name()
        more = self.more()
        more["labels"]["app"] = name
        cost = {"cpu": self.random.choice(["1", "2", "none"])}
        self.observe(workload(name, self.random.randrange(5), cost, **more))

    def revision(self) -> None:
        owner = self.name()
        more = self.more()
        more["labels"]["app"] = owner
        tree = workload(f"{owner}-rev", self.random.randrange(5), kind="ReplicaSet", **more)
        self.observe(tree | {"metadata": tree["metadata"] | {"ownerReferences": owned_by(owner)}})

    def gone(self) -> None:
        resource, name = self.random.choice([("deployments", self.name()), ("replicasets", f"{self.name()}-rev")])
        self.version += 1
        ref = WorkloadRef("apps", resource, self.team(), name)
        self.ask.gate.observe(ref, None, version=str(self.version))

    def grant(self) -> None:
        decision = self.ask(scale(self.name(), self.random.randrange(6), namespace=self.team()))
        if decision.pending_write is not None:
            self.granted.append(decision.pending_write)

    def settle(self) -> None:
        if self.granted:
            pending_write = self.granted.pop(self.random.randrange(len(self.granted)))
            self.ask.gate.ledger.pending.settle(pending_write, Event.REFUSED, 1.0)

    def namespace(self) -> None:
        labels = self.random.choice([{"workspace": "acme"}, {"workspace": "other"}])
        self.ask.gate.observe_namespace(self.team(), labels)

    def limits(self) -> None:
        defaults = LimitRangeDefaults((("cpu", self.random.choice([1, 2]) * CPU),))
        self.ask.gate.observe_limit_ranges(self.team(), self.random.choice([(), (defaults,)]))

    def __call__(self) -> None:
        self.random.choice(self.kinds)()


@pytest.mark.parametrize("seed", range(60))
def test_whatever_changes_between_its_steps_a_count_finds_nothing_where_nothing_is_wrong(seed: int):
    world = Bustle(seed)
    for _ in range(60):
        world()
    assert (
        finished(world.ask.gate.ledger.usage.repair(1), lambda: [world() for _ in range(world.random.randrange(4))])
        == ()
    )
    assert world.ask.gate.ledger.drift() == {}


@pytest.mark.parametrize("seed", range(40))
def test_a_load_counts_at_its_end_what_came_one_by_one_elsewhere(seed: int):
    """Pending writes live on while it goes on, and what is counted afterwards is counted as ever."""
    plain, loading = Bustle(seed), Bustle(seed)
    for world in (plain, loading):
        for _ in range(30):
            world()
    loading.ask.gate.load()
    for world in (plain, loading):
        world.kinds = [kind for kind in world.kinds if kind.__name__ != "grant"]  # who is not synced grants nothing
        for _ in range(60):
            world()
    loading.ask.gate.state_synced(True)
    for world in (plain, loading):
        world.kinds += [world.grant] * 3
        for _ in range(30):
            world()
        assert world.ask.gate.ledger.drift() == {}
    assert [*loading.ask.gate.usage()] == [*plain.ask.gate.usage()]


def test_what_pends_on_a_workload_is_charged_through_an_owner_that_is_loaded_after_it():
    ask = Asker(gate([quota("acme", {"requests.cpu": "10"})]))
    granted = ask(
        create(workload("web-1", 3, kind="ReplicaSet", ownerReferences=owned_by("web"), labels={"app": "web"}))
    )
    loading = Asker(gate([quota("acme", {"requests.cpu": "10"})]))
    loading.gate.load()
    adopt(loading.gate, told(ask.gate))
    loading.gate.observe(*observe(workload("web", 3)))
    loading.gate.state_synced(True)
    assert granted.verdict is Verdict.ALLOW
    assert [row.used + row.reserved for row in loading.gate.usage()] == [3 * CPU]
    assert loading.gate.ledger.drift() == {}


def test_a_state_that_is_synced_once_more_is_not_counted_anew():
    ask = web()
    spoil(ask, "acme", "used", "requests.cpu", CPU)
    ask.gate.state_synced(True)
    assert ask.gate.ledger.drift() != {}


def spoil(ask: Asker, name: str, table: str, key: str, by: int) -> None:
    accounts = ask.gate.ledger.usage.accounts._accounts
    account = next(account for node, account in accounts.items() if node.quota.name == name)
    amounts = getattr(account, table)
    amounts[key] = amounts.get(key, 0) + by


def web(hard: str = "10") -> Asker:
    return Asker(gate([quota("acme", {"requests.cpu": hard})], workload("web", 3), workload("api", 1)))


@pytest.mark.parametrize(
    ("table", "by", "difference"),
    [
        ("used", 5, Difference("acme", "used requests.cpu", 9 * CPU, 4 * CPU)),
        ("used", -2, Difference("acme", "used requests.cpu", 2 * CPU, 4 * CPU)),
        ("reserved", 3, Difference("acme", "reserved requests.cpu", 5 * CPU, 2 * CPU)),
    ],
    ids=["too-much-used", "too-little-used", "too-much-reserved"],
)
def test_what_is_wrong_is_told_and_put_right_and_pending_writes_are_left_alone(
    table: str, by: int, difference: Difference
):
    ask = web()
    granted = ask(scale("web", 5))
    spoil(ask, "acme", table, "requests.cpu", by * CPU)
    assert ask.gate.ledger.drift() == {("acme", difference.what): by * CPU}
    assert finished(ask.gate.ledger.usage.repair(100)) == (difference,)
    assert ask.gate.ledger.drift() == {}
    assert ask.gate.ledger.pending.follows(granted.id)
    (row,) = ask.gate.usage()
    assert (row.used, row.reserved) == (4 * CPU, 2 * CPU)
    assert ask(scale("api", 6)).verdict is Verdict.DENY
    assert ask(scale("api", 5)).verdict is Verdict.ALLOW
    ask.gate.ledger.pending.settle(granted.id, Event.REFUSED, 1.0)
    assert ask.gate.ledger.drift() == {}


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        pytest.param({}, Difference("acme", "used requests.cpu", 0, 4 * CPU), id="lost"),
        pytest.param({"requests.cpu": 4 * CPU, "pods": 7}, Difference("acme", "used pods", 7, 0), id="made-up"),
    ],
)
def test_an_amount_that_only_one_of_both_has_is_told_and_put_right(kept: dict[str, int], told: Difference):
    ask = web()
    (account,) = ask.gate.ledger.usage.accounts._accounts.values()
    account.used = kept
    assert finished(ask.gate.ledger.usage.repair(100)) == (told,)
    assert ask.gate.ledger.drift() == {}


@pytest.mark.parametrize("name", ["acme", "corp", "paid"])
def test_a_wrong_number_is_found_in_whichever_quota_it_is(name: str):
    ask = asker(charge_surge=False)
    ask.gate.observe(*observe(workload("web", 3, namespace="team-0", labels={"app": "web", "tier": "paid"})))
    spoil(ask, name, "used", "count/deployments.apps" if name == "corp" else "pods", 1)
    assert [one.quota for one in finished(ask.gate.ledger.usage.repair(100)) or ()] == [name]


@pytest.mark.parametrize(
    ("table", "what", "right"),
    [
        ("workloads", "workloads", 2),
        ("unpriced", "workloads of unknown cost", 0),
        ("unbounded", "of these bounded by no child", 0),
    ],
)
def test_one_wrong_count_of_workloads_alone_is_found(table: str, what: str, right: int):
    ask = web()
    (account,) = ask.gate.ledger.usage.accounts._accounts.values()
    setattr(account, table, right + 1)
    assert finished(ask.gate.ledger.usage.repair(100)) == (Difference("acme", what, right + 1, right),)


def test_counts_of_workloads_are_put_right_as_well():
    ask = web()
    (account,) = ask.gate.ledger.usage.accounts._accounts.values()
    account.unpriced, account.unbounded, account.workloads = 1, 1, 5
    assert ask(scale("web", 4)).reason == "unknown-usage"
    assert finished(ask.gate.ledger.usage.repair(100)) == (
        Difference("acme", "of these bounded by no child", 1, 0),
        Difference("acme", "workloads", 5, 2),
        Difference("acme", "workloads of unknown cost", 1, 0),
    )
    assert ask(scale("web", 4)).verdict is Verdict.ALLOW


def test_a_position_that_was_kept_wrong_is_put_right_too():
    ask = web()
    granted = ask(scale("web", 5))
    entry = ask.gate.ledger.get(WorkloadRef("apps", "deployments", "team-a", "web"))
    epoch, right = entry.kept_position
    wrong = right.with_count(7)
    ask.gate.ledger.usage.accounts.move(right, wrong)
    entry.kept_position = epoch, wrong
    assert [one.what for one in finished(ask.gate.ledger.usage.repair(1))] == ["reserved requests.cpu"]
    ask.gate.ledger.pending.settle(granted.id, Event.REFUSED, 1.0)
    assert ask.gate.ledger.drift() == {}


@pytest.mark.parametrize(
    "change",
    [
        lambda ask: ask.gate.load_quotas(QuotaTree.build([quota("other", {"pods": "1"}, namespaces={})]), 1.0),
        lambda ask: ask.gate.observe_runtime_class("kata", {"requests.cpu": CPU}),
    ],
    ids=["quotas", "prices"],
)
def test_a_count_is_overtaken_by_a_change_for_which_everything_is_counted_anew(change):
    ask = web()
    steps = ask.gate.ledger.usage.repair(1)
    next(steps)
    change(ask)
    assert finished(steps) is None
    assert finished(ask.gate.ledger.usage.repair(1)) == ()


def test_a_count_that_is_given_up_leaves_room_for_another():
    ask = web()
    steps = ask.gate.ledger.usage.repair(1)
    next(steps)
    steps.close()
    assert finished(ask.gate.ledger.usage.repair(1)) == ()


def test_a_workload_that_has_gone_before_its_turn_counts_nothing():
    ask = web()
    steps = ask.gate.ledger.usage.repair(1)
    next(steps)
    for name in ("web", "api"):
        ask.gate.observe(WorkloadRef("apps", "deployments", "team-a", name), None, version="9")
    assert finished(steps) == ()
    assert all(row.used == 0 for row in ask.gate.usage())


def test_a_grant_of_a_workload_that_is_counted_already_is_in_the_count():
    ask = web()
    steps = ask.gate.ledger.usage.repair(2)
    next(steps)
    ask(scale("web", 5))
    spoil(ask, "acme", "used", "requests.cpu", CPU)
    assert finished(steps) == (Difference("acme", "used requests.cpu", 5 * CPU, 4 * CPU),)
    (row,) = ask.gate.usage()
    assert (row.used, row.reserved) == (4 * CPU, 2 * CPU)
