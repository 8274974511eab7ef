"""The largest count that a refusal names."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from extauthz.core.decision.gate import Gate
from extauthz.core.decision.policy import Policy
from extauthz.core.model import Request, Verdict
from extauthz.core.objects.workloads import observe
from extauthz.testing.builders import Asker, create, gate, owned_by, patch, path, pod, put_scale, quota, scale, workload
from tests.unit.asking import books


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


def test_the_count_that_is_named_beside_a_pending_one_is_granted():
    ask = Asker(gate([quota("acme", {"requests.cpu": "10"})], workload("web", 1)))
    assert ask(scale("web", 3)).verdict is Verdict.ALLOW
    denied = ask(put(workload("web", 9, {"cpu": "2"})))
    assert (denied.verdict, denied.evidence.fits) == (Verdict.DENY, 5)
    assert denied.sentence.endswith("; largest allowed replicas: 5")
    assert ask(put(workload("web", 5, {"cpu": "2"}))).verdict is Verdict.ALLOW


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
def test_a_count_that_is_named_would_be_granted_and_one_more_would_not(seen: int, before: list[Request], last: Request):
    ask = Asker(gate([quota("acme", {"requests.cpu": "12"})], workload("web", seen)))
    for request in before:
        ask(request)
    denied = ask(last, charge=False)
    if denied.evidence.fits is None:
        assert "largest allowed" not in denied.sentence
        return
    assert ask(with_count(last, denied.evidence.fits), charge=False).verdict is Verdict.ALLOW
    assert ask(with_count(last, denied.evidence.fits + 1), charge=False).verdict is Verdict.DENY


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


def test_a_grant_is_charged_with_the_surge_of_what_it_asks_for():
    ask = asker(web(4))
    ask(scale("web", 6))
    ask(scale("web", 8))
    assert books(ask) == (4, 6)


def test_a_rollout_moves_what_was_reserved_to_used_and_never_exceeds_what_was_charged():
    ask = asker(web(4, 2, uid="uid-web"), hard="6")
    assert books(ask) == (4, 2)
    for name, replicas in (("old", 4), ("new", 2)):
        made = workload(name, replicas, kind="ReplicaSet", labels={"app": "web"}, ownerReferences=owned_by("web"))
        ask.gate.observe(*observe(made))
    assert books(ask) == (6, 0)


def test_a_dearer_template_is_charged_for_every_pod_of_the_rollout():
    ask = asker(web(4), hard="9")
    assert ask(patch(path("web"), {"spec": {"template": pod({"cpu": "2"})}}, "merge")).verdict is Verdict.DENY
    ask = asker(web(4), hard="10")
    assert ask(patch(path("web"), {"spec": {"template": pod({"cpu": "2"})}}, "merge")).verdict is Verdict.ALLOW
    assert books(ask) == (4, 6)


def test_a_new_deployment_is_taken_to_surge_as_by_default_until_it_is_seen():
    ask = asker(web(4), hard="10")
    assert ask(create(workload("api", 4))).verdict is Verdict.ALLOW
    assert books(ask) == (4, 6)
    assert ask(create(workload("tiny", 1))).verdict is Verdict.DENY


@pytest.mark.parametrize("replicas", [0, 1, 4])
def test_shrinking_passes_however_little_room_its_surge_leaves(replicas: int):
    ask = asker(web(8, "100%"), hard="4")
    assert ask(scale("web", replicas)).verdict is Verdict.ALLOW
    assert ask(put_scale("web", replicas, version="1")).verdict is Verdict.ALLOW


def test_a_template_is_counted_with_the_rollout_of_what_is_there():
    dearer = patch(path("web"), {"spec": {"template": pod({"cpu": "9"})}})
    assert "counted with 2 pods more for" in asker(web(4, 2))(dearer).sentence
