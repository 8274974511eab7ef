"""What the simulation excuses in a gate, and no more: the cuts of docs/guarantee.md."""

from types import SimpleNamespace

import pytest

from tests.unit.ledger.houses import House, full
from tests.worlds.excuses import Excuses, Grant
from tests.worlds.judge import Members, Promise, Quota, State, View, left_by
from tests.worlds.turning import HEARD_S as GRANT_HEARD_S
from tests.worlds.turning import Turning

KEY = ("lab", "web-deploy-0")
SMALL, LARGE = State(1, 1000, "web"), State(4, 1000, "web")
HEARD_S = 1.0


@pytest.fixture
def promises():
    return {}


@pytest.fixture
def excuses(promises):
    return Excuses(SimpleNamespace(promises=promises), HEARD_S)


def seen_up_to(version):
    return lambda collection: version


def grown(excuses, *, version=0, by="gate0", now=LARGE, resource="pods"):
    return excuses.grown(seen_up_to(version), by, {KEY: [now]}, resource)


def test_growth_past_the_gates_is_excused_until_it_is_seen(excuses):
    excuses.grew(1.0, 7, {KEY: [SMALL]}, {KEY: [LARGE]}, by="")
    assert grown(excuses, version=6) == 3
    assert grown(excuses, version=7) == 0


def test_growth_again_and_again_excuses_no_more_than_the_workload_costs(excuses):
    for version in (7, 8, 9):
        excuses.grew(1.0, version, {KEY: [SMALL]}, {KEY: [LARGE]}, by="")
    assert grown(excuses) == 4
    assert grown(excuses, now=SMALL) == 1


def test_a_template_that_grew_unseen_is_excused_for_pods_that_are_allowed_afterwards(excuses):
    none, with_sidecar = SMALL._replace(replicas=0), SMALL._replace(replicas=0, side_m=250)
    excuses.grew(1.0, 7, {KEY: [none]}, {KEY: [with_sidecar]}, by="")
    allowed = with_sidecar._replace(replicas=3)
    assert grown(excuses, version=6, now=allowed, resource="requests.cpu") == 750
    assert grown(excuses, version=6, now=allowed) == 0, "pods are none the more"
    assert grown(excuses, version=7, now=allowed, resource="requests.cpu") == 0


def test_a_gate_has_seen_the_growth_that_it_allowed_where_no_quota_was(excuses):
    excuses.grew(1.0, 7, {KEY: [SMALL]}, {KEY: [LARGE]}, by="gate0")
    assert grown(excuses, by="gate0") == 0
    assert grown(excuses, by="gate1") == 3
    assert grown(excuses, by="") == 3


def test_a_count_of_another_gate_is_charged_as_it_is(excuses, promises):
    promises["d1"] = count = Promise(KEY, 3, None)
    excuses.grants["d1"] = Grant(1.0, "gate0", uncovered=False, known=3, was=frozenset([SMALL]))
    assert excuses.charged_by("gate1", 1.0) == [count]


def test_what_no_quota_covered_counts_elsewhere_after_a_while(excuses, promises):
    promises["d1"] = count = Promise(KEY, 3, None)
    excuses.grants["d1"] = Grant(1.0, "gate0", uncovered=True, known=3, was=frozenset([SMALL]))
    assert excuses.charged_by("gate0", 1.0) == [count]
    assert excuses.charged_by("gate1", 1.0 + HEARD_S - 0.1) == []
    assert excuses.charged_by("gate1", 1.0 + HEARD_S) == [count]


@pytest.mark.parametrize(("replicas", "there"), [(1, 20), (6, 24)])
def test_claims_that_were_left_are_not_there_twice(replicas, there):
    storage, key = "requests.storage", ("shop", "job-sts-0")
    quotas = {
        name: Quota(name, "", {}, workloads, {storage: 99})
        for name, workloads in (("all", {}), ("job", {"tier": "job"}), ("web", {"tier": "web"}))
    }
    made, left = State(replicas, 1000, "web", 4), State(0, 0, "job", 4, Members(claims=5))
    totals = View(quotas, {"shop": {}}, {}).total({key: [made], left_by(key): [left]})
    assert totals == {("all", storage): there, ("job", storage): 20, ("web", storage): 4 * replicas}


@pytest.mark.parametrize(("granted_s", "is_right"), [(0.5, True), (-GRANT_HEARD_S, False)])
def test_a_grant_that_is_heard_late_ends_a_place(granted_s, is_right):
    house, turning = full(), Turning()
    house.has("c", 4)
    granted = house.wants("b", 2, question=True)
    assert turning.answered(granted_s, "gate1", house.gate, granted, dry=False) is None
    assert turning.answered(1.0, "gate0", house.gate, house.wants("b", 9), dry=False) is None
    house.gate.ledger.turns.leave(House.ref("b"))
    told = turning.answered(1.1, "gate0", house.gate, house.wants("a", 9), dry=False)
    assert (told is None) == is_right, told


def test_a_grant_that_nobody_was_told_of_ends_a_place():
    """Seed 110312943."""
    house, turning = full(), Turning()
    house.has("c", 4)
    assert turning.answered(1.0, "gate0", house.gate, house.wants("b", 9), dry=False) is None
    house.wants("b", 2)
    house.gate.ledger.turns.leave(House.ref("b"))
    assert turning.answered(1.1, "gate0", house.gate, house.wants("a", 9), dry=False) is None
