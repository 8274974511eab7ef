"""The largest count that a refusal names."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from extauthz.core.decision.gate import Gate
from extauthz.core.decision.policy import Policy
from extauthz.core.intake import admission as intake
from extauthz.core.ledger.entry import PendingWrite, State
from extauthz.core.model import NO_PRECONDITION, Observed, OwnerRef, Request, Template, Verdict
from extauthz.core.objects.workloads import observe
from extauthz.core.quota.tree import QuotaTree
from extauthz.testing import (
    Asker,
    admission,
    create,
    gate,
    owned_by,
    patch,
    path,
    pod,
    quota,
    scale,
    snapshot,
    workload,
)
from tests.unit.asking import adopt, books, told


def see(made: Gate, obj: dict[str, Any]) -> None:
    made.observe(*observe(obj))


def put(obj: dict[str, Any]) -> Request:
    return Request("PUT", path(obj["metadata"]["name"]), {"content-type": "application/json"}, json.dumps(obj).encode())


def test_a_resource_that_is_over_and_that_the_workload_does_not_use_keeps_no_count_from_being_named():
    hard = {"requests.cpu": "10", "requests.nvidia.com/gpu": "1"}
    other = workload("other", 1, {"cpu": "0", "nvidia.com/gpu": "2"})
    ask = Asker(gate([quota("acme", hard)], workload("web", 1), other))
    denied = ask(scale("web", 11))
    assert (denied.verdict, denied.evidence.fits) == (Verdict.DENY, 10)
    assert [short.resource for short in denied.evidence.shortages] == ["requests.cpu"]


def test_no_count_is_named_where_a_pending_count_would_meet_the_new_template():
    """Nine replicas may still land, and then each costs three CPU: whatever count comes with that template."""
    ask = Asker(gate([quota("acme", {"requests.cpu": "10"})], workload("web", 1)))
    assert ask(scale("web", 9)).verdict is Verdict.ALLOW
    dearer = workload("web", 4, {"cpu": "3"})
    denied = ask(put(dearer))
    assert denied.verdict is Verdict.DENY
    assert ask(put(workload("web", 3, {"cpu": "3"}))).verdict is Verdict.DENY, "three would be refused too"
    assert denied.evidence.fits is None
    assert "largest allowed replicas" not in denied.sentence


WRITES = st.one_of(
    st.builds(lambda count: scale("web", count), st.integers(0, 12)),
    st.builds(lambda count, cpu: put(workload("web", count, {"cpu": cpu})), st.integers(0, 12), st.sampled_from("123")),
    st.builds(
        lambda cpu, kind: patch(path("web"), {"spec": {"template": pod({"cpu": cpu})}} | NAMED, kind),
        st.sampled_from("123"),
        st.sampled_from(["merge", "apply"]),
    ),
)
NAMED = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}


def with_count(request: Request, count: int) -> Request:
    body = json.loads(request.body)
    if isinstance(body, list):
        return scale("web", count)
    body["spec"]["replicas"] = count
    return request._replace(body=json.dumps(body).encode())


@given(st.integers(0, 6), st.lists(WRITES, max_size=4), WRITES)
@example(
    5,
    [patch(path("web"), {"spec": {"template": pod({"cpu": "1"})}} | NAMED, "apply")],
    put(workload("web", 5, {"cpu": "3"})),
)
@example(5, [put(workload("web", 0, {"cpu": "3"}))], put(workload("web", 6, {"cpu": "1"})))
def test_a_count_that_is_named_would_be_granted_and_one_more_would_not(seen: int, before: list[Request], last: Request):
    ask = Asker(gate([quota("acme", {"requests.cpu": "12"})], workload("web", seen)))
    for request in before:
        ask(request)
    denied = ask(last, charge=False)
    if denied.evidence.fits is None:
        assert "largest allowed" not in denied.sentence
        return
    assert ask(with_count(last, denied.evidence.fits), charge=False).verdict is Verdict.ALLOW
    one_more = ask(with_count(last, denied.evidence.fits + 1), charge=False)
    assert one_more.verdict is Verdict.DENY or one_more.reason == "no-count", "what is stored already is no write"


@pytest.mark.parametrize(
    "hard", [("4", "6"), ("6", "4"), ("4", "5"), ("5", "4")], ids=["child", "parent", "child-by-one", "parent-by-one"]
)
def test_the_tightest_quota_is_named_first(hard: tuple[str, str]):
    child, parent = hard
    tree = [
        quota("acme", {"requests.cpu": child}, parent="corp"),
        quota("corp", {"requests.cpu": parent}, namespaces={}),
    ]
    ask = Asker(gate(tree, workload("web", 1)))
    denied = ask(scale("web", 9))
    tightest, other = ("acme", "corp") if child == "4" else ("corp", "acme")
    assert [row.quota for row in denied.evidence.shortages] == [tightest, other]
    assert denied.sentence.index(f"workspace quota: {tightest}") < denied.sentence.index(f"workspace quota: {other}")
    assert denied.evidence.fits == 4


CPU = 10**9
CHARGED = Policy(window_s=90.0, charge_surge=True)


def web(replicas: int, surge: object = None, strategy: str = "RollingUpdate", **more: object) -> dict:
    made = workload("web", replicas, **more)
    made["spec"]["strategy"] = {"type": strategy}
    if surge is not None:
        made["spec"]["strategy"]["rollingUpdate"] = {"maxSurge": surge}
    return made


def asker(*objects: dict, hard: str = "10", policy: Policy = CHARGED) -> Asker:
    return Asker(gate([quota("acme", {"requests.cpu": hard})], *objects, policy=policy))


@pytest.mark.parametrize(
    ("made", "reserved"),
    [
        pytest.param(web(4), 1, id="a-quarter-by-default"),
        pytest.param(web(5), 2, id="rounded-up"),
        pytest.param(web(4, 3), 3, id="a-number"),
        pytest.param(web(4, "150%"), 6, id="beyond-the-default"),
        pytest.param(web(4, 0), 0, id="none"),
        pytest.param(web(0, 3), 0, id="nothing-to-roll-out"),
        pytest.param(web(4, None, "Recreate"), 0, id="recreated"),
        pytest.param(workload("web", 4, kind="StatefulSet"), 0, id="stateful-set"),
    ],
)
def test_a_deployment_is_charged_with_its_surge_as_reserved(made: dict, reserved: int):
    replicas = made["spec"]["replicas"]
    assert books(asker(made)) == (replicas, reserved)
    assert books(asker(made, policy=Policy())) == (replicas, 0), "unless the setting says so it is free"


@pytest.mark.parametrize(
    ("surge", "strategy", "fits"),
    [("25%", "RollingUpdate", 8), ("100%", "RollingUpdate", 5), (0, "RollingUpdate", 10), (None, "Recreate", 10)],
)
def test_a_create_carries_its_own_surge_and_so_does_a_change_of_it(surge: object, strategy: str, fits: int):
    assert asker()(create(web(fits, surge, strategy))).verdict is Verdict.ALLOW
    denied = asker()(create(web(fits + 1, surge, strategy)))
    assert (denied.verdict, denied.evidence.fits) == (Verdict.DENY, fits)
    for count in (fits, 10):
        there = web(count, 0)
        shown = intake.read(json.dumps(admission(web(count, surge, strategy), there)).encode())
        verdict = asker(there).gate.decide(shown.question.reading, "d1", 0.0).verdict
        assert verdict is (Verdict.ALLOW if count <= fits else Verdict.DENY)


def test_a_deployment_that_is_recreated_is_charged_with_all_of_its_count_and_nothing_beside():
    ask = asker(web(4, None, "Recreate"))
    assert (ask(scale("web", 6)).verdict, books(ask)) == (Verdict.ALLOW, (4, 2))


def test_a_denial_says_with_how_many_pods_of_a_rollout_it_counts_and_what_fits_with_them():
    denied = asker(web(4))(scale("web", 9))
    assert (denied.verdict, denied.evidence.fits) == (Verdict.DENY, 8)
    assert denied.evidence.shortages[0].requested == 7 * CPU, "9 and a surge of 3, less 4 and one of 1"
    assert denied.sentence == (
        'deployments.apps "web" is forbidden: exceeded workspace quota: acme, requested: requests.cpu=7, '
        "used: requests.cpu=4, reserved: requests.cpu=1, limited: requests.cpu=10; "
        "counted with 3 pods more for a rollout (maxSurge); largest allowed replicas: 8"
    )
    assert asker(web(4))(scale("web", 8)).verdict is Verdict.ALLOW
    assert "(maxSurge)" not in asker(web(4), policy=Policy())(scale("web", 11)).sentence


def test_one_pod_of_surge_is_said_as_one():
    assert "counted with 1 pod more for" in asker(web(1, 1), hard="2")(scale("web", 2)).sentence


def test_a_rollout_moves_what_was_reserved_to_used_and_never_exceeds_what_was_charged():
    ask = asker(web(4, 2, uid="uid-web"), hard="6")
    assert books(ask) == (4, 2)
    for name, replicas in (("old", 4), ("new", 2)):
        made = workload(name, replicas, kind="ReplicaSet", labels={"app": "web"}, ownerReferences=owned_by("web"))
        ask.gate.observe(*observe(made))
    assert books(ask) == (6, 0)


def test_a_new_deployment_is_taken_to_surge_as_by_default_until_it_is_seen():
    ask = asker(web(4), hard="10")
    assert ask(create(workload("api", 4))).verdict is Verdict.ALLOW
    assert books(ask) == (4, 6)
    assert ask(create(workload("tiny", 1))).verdict is Verdict.DENY


def test_a_template_is_counted_with_the_rollout_of_what_is_there():
    dearer = patch(path("web"), {"spec": {"template": pod({"cpu": "9"})}})
    assert "counted with 2 pods more for" in asker(web(4, 2))(dearer).sentence


# A pending write of another gate, or of an earlier run, counts as it did where it was allowed.


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


def allowed(quotas: list[Any], made: dict[str, Any]) -> Asker:
    ask = Asker(gate(quotas, *SEEN))
    assert ask(create(made)).verdict is Verdict.ALLOW
    return ask


@pytest.mark.parametrize("is_told_first", [False, True], ids=["seen-first", "told-first"])
@pytest.mark.parametrize(("quotas", "made"), CASES)
def test_an_object_that_is_created_counts_in_the_same_quotas_at_another_gate(
    quotas: list[Any], made: dict[str, Any], is_told_first: bool
):
    first, heir = allowed(quotas, made), Gate()
    heir.load_quotas(QuotaTree.build(quotas), 0.0)
    steps = [lambda: heir.load_state(snapshot(*SEEN), 0.0), lambda: adopt(heir, told(first.gate))]
    for step in reversed(steps) if is_told_first else steps:
        step()
    before = list(heir.usage())
    assert before == list(first.gate.usage())
    assert heir.ledger.drift() == {}
    heir.observe(*observe(made))
    assert [row.used + row.reserved for row in heir.usage()] == [row.used + row.reserved for row in before]


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
    for records in (told(first.gate), told(first.gate)[::-1]):
        heir = gate(quotas, *SEEN)
        adopt(heir, records)
        assert list(heir.usage()) == list(first.gate.usage())
        assert heir.ledger.drift() == {}


@pytest.mark.parametrize(("quotas", "made"), CASES)
def test_nor_does_it_for_a_whole_object_that_may_land_on_what_is_made(quotas: list[Any], made: dict[str, Any]):
    (created,) = told(allowed(quotas, made).gate)
    whole = {**created, "id": "d0", "replicas": 2, "creates": False, "owner": None}
    found = []
    for records in ([created, whole], [whole, created]):
        heir = gate(quotas, *SEEN)
        adopt(heir, records)
        assert heir.ledger.drift() == {}
        found.append(list(heir.usage()))
    assert found[0] == found[1]


def test_a_gate_that_has_seen_the_deleted_object_keeps_what_it_was():
    """A count that pends may land on it: somebody else may make it anew as it was."""
    dear, cheap = workload("api", 1, {"cpu": "4"}), workload("api", 1)
    first, second = (Asker(gate(ALL, *SEEN, dear), prefix) for prefix in "ab")
    ref, _ = observe(dear)
    assert first(scale("api", 5)).verdict is Verdict.ALLOW
    adopt(second.gate, told(first.gate))
    for one in (first, second):
        one.gate.observe(ref, None, version="9")
    assert first(create(cheap)).verdict is Verdict.ALLOW
    adopt(second.gate, told(first.gate)[1:])
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
