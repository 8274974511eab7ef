"""A pending write of another gate, or of an earlier run, counts as it did where it was allowed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extauthz.core.decision.gate import Gate
from extauthz.core.ledger.entry import PendingWrite, State
from extauthz.core.model import NO_PRECONDITION, Observed, OwnerRef, Template, Verdict
from extauthz.core.objects.workloads import observe
from extauthz.core.quota.tree import QuotaTree
from extauthz.testing.builders import Asker, create, gate, owned_by, quota, scale, snapshot, workload

WEB = workload("web", 4, labels={"team": "a"})
OTHER = workload("other", 1, labels={"team": "a"})
OF_WEB: dict[str, Any] = {"kind": "ReplicaSet", "labels": {"app": "web"}}
OLD = workload("web-1", 4, ownerReferences=owned_by("web"), **OF_WEB)
SEEN = (WEB, OTHER, OLD)

BY_LABELS = [quota("acme", {"requests.cpu": "20"}, workloads={"team": "a"})]
ALL = [quota("acme", {"requests.cpu": "40", "pods": "40"})]
MANY = workload("web-2", 10, ownerReferences=owned_by("web"), **OF_WEB)
DEAR = workload("web-2", 1, {"cpu": "8"}, ownerReferences=owned_by("web"), **OF_WEB)

CASES = [
    pytest.param(BY_LABELS, MANY, id="counted-by-the-labels-of-its-owner"),
    pytest.param(ALL, DEAR, id="its-template-meets-the-count-of-its-owner"),
    pytest.param(ALL, workload("api", 3, labels={"app": "api"}), id="by-itself"),
]


def handed(asked: Asker) -> list[Any]:
    return json.loads(json.dumps(asked.gate.export_pending_writes(0.0)))


def allowed(quotas: list[Any], made: dict[str, Any]) -> Asker:
    ask = Asker(gate(quotas, *SEEN))
    assert ask(create(made)).verdict is Verdict.ALLOW
    return ask


@pytest.mark.parametrize(("quotas", "made"), CASES)
def test_an_object_that_is_created_counts_in_the_same_quotas_at_the_next_start(quotas: list[Any], made: dict[str, Any]):
    first = allowed(quotas, made)
    heir = gate(quotas, *SEEN)
    heir.import_pending_writes(handed(first), 0.0)
    assert list(heir.usage()) == list(first.gate.usage())
    assert heir.ledger.drift() == {}


@pytest.mark.parametrize(("quotas", "made"), CASES)
def test_so_it_does_if_the_cluster_is_listed_after_the_handover_was_read(quotas: list[Any], made: dict[str, Any]):
    first = allowed(quotas, made)
    heir = Gate()
    heir.load_quotas(QuotaTree.build(quotas), 0.0)
    heir.import_pending_writes(handed(first), 0.0)
    heir.load_state(snapshot(*SEEN), 0.0)
    assert list(heir.usage()) == list(first.gate.usage())
    assert heir.ledger.drift() == {}


@pytest.mark.parametrize(("quotas", "made"), CASES)
def test_and_nothing_rises_when_it_lands(quotas: list[Any], made: dict[str, Any]):
    heir = Asker(gate(quotas, *SEEN), "e")
    heir.gate.import_pending_writes(handed(allowed(quotas, made)), 0.0)
    before = [row.used + row.reserved for row in heir.gate.usage()]
    heir.gate.observe(*observe(made))
    assert [row.used + row.reserved for row in heir.gate.usage()] == before


def test_another_grant_finds_no_room_that_the_created_object_takes():
    heir = Asker(gate(BY_LABELS, *SEEN), "e")
    heir.gate.import_pending_writes(handed(allowed(BY_LABELS, MANY)), 0.0)
    assert heir(scale("other", 8)).reason == "exceeded-quota"
    assert heir(scale("other", 7)).verdict is Verdict.ALLOW


@pytest.mark.parametrize(("quotas", "made"), CASES)
def test_the_order_in_which_writes_on_a_deleted_object_are_taken_over_does_not_matter(
    quotas: list[Any], made: dict[str, Any]
):
    ref, _ = observe(made)
    first = Asker(gate(quotas, *SEEN, made))
    more = scale(ref.name, made["spec"]["replicas"] + 1, resource=ref.resource)
    assert first(more).verdict is Verdict.ALLOW
    first.gate.observe(ref, None, version="9")
    assert first(create(made)).verdict is Verdict.ALLOW
    for records in (handed(first), handed(first)[::-1]):
        heir = gate(quotas, *SEEN)
        heir.import_pending_writes(records, 0.0)
        assert list(heir.usage()) == list(first.gate.usage())
        assert heir.ledger.drift() == {}


@pytest.mark.parametrize(("quotas", "made"), CASES)
def test_nor_does_it_for_a_whole_object_that_may_land_on_what_is_made(quotas: list[Any], made: dict[str, Any]):
    (created,) = handed(allowed(quotas, made))
    whole = {**created, "id": "d0", "replicas": 2, "creates": False, "owner": None}
    found = []
    for records in ([created, whole], [whole, created]):
        heir = gate(quotas, *SEEN)
        heir.import_pending_writes(records, 0.0)
        assert heir.ledger.drift() == {}
        found.append(list(heir.usage()))
    assert found[0] == found[1]


def test_a_gate_that_has_seen_the_deleted_object_keeps_what_it_was():
    """A count that pends may land on it: somebody else may make it anew as it was."""
    dear, cheap = workload("api", 1, {"cpu": "4"}), workload("api", 1)
    first, second = (Asker(gate(ALL, *SEEN, dear), prefix) for prefix in "ab")
    ref, _ = observe(dear)
    assert first(scale("api", 5)).verdict is Verdict.ALLOW
    second.gate.import_pending_writes(handed(first), 0.0)
    for one in (first, second):
        one.gate.observe(ref, None, version="9")
    assert first(create(cheap)).verdict is Verdict.ALLOW
    second.gate.import_pending_writes(handed(first)[1:], 0.0)
    assert list(second.gate.usage()) == list(first.gate.usage())
    assert second.gate.ledger.drift() == {}


# What two gates know of one write.


T1, T2 = Template(b'{"template":1}'), Template(b'{"template":2}')
OWNER = OwnerRef("apps", "Deployment", "web", "u1")


def pending(**said: Any) -> PendingWrite:
    usual = {"replicas": None, "templates": (), "labels": (), "creates": False}
    return PendingWrite("d1", **(usual | said), precondition=NO_PRECONDITION, expires_s=90.0)


@pytest.mark.parametrize(
    ("said", "made"),
    [
        pytest.param({"replicas": 3}, None, id="a-count-makes-none"),
        pytest.param({"creates": True}, Observed(0, None), id="of-what-says-nothing"),
        pytest.param(
            {"creates": True, "replicas": 3, "templates": (T1, T2), "labels": ("a=1", "a=2"), "owner": OWNER},
            Observed(3, T1, "a=1", owner=OWNER),
            id="of-a-whole-object",
        ),
    ],
)
def test_the_object_that_a_write_makes(said: dict[str, Any], made: Observed | None):
    assert pending(**said).made == made


def test_a_renewal_that_is_told_opens_an_answered_write_again_and_less_than_is_known_does_not():
    ask = Asker(gate(ALL, *SEEN))
    granted = ask(scale("web", 9))
    found = ask.gate.ledger.pending.get(granted.id)
    assert found is not None
    ref, known = found
    told = PendingWrite(granted.id, 9, (), (), False, NO_PRECONDITION, known.expires_s - 5)
    ends_s = known.expires_s
    for renewed, state in ((0, State.SUCCEEDED), (2, State.OPEN)):
        known.state, known.answered_s = State.SUCCEEDED, 1.0
        told.renewed = renewed
        ask.gate.ledger.pending.learn(told)
        assert (known.state, known.renewed, known.expires_s) == (state, renewed, ends_s)
    assert known.answered_s is None
    told.renewed, told.expires_s = 1, ends_s + 5
    ask.gate.ledger.pending.learn(told)
    assert (known.renewed, known.expires_s) == (2, ends_s + 5)
    assert ask.gate.ledger.get(ref).live_pending_writes() == (known,)
