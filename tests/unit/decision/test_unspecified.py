"""What is not requested is not free: pods that do not specify what a quota limits (design.md rule 12)."""

from __future__ import annotations

from typing import Any

import pytest

from extauthz.core.decision.policy import Policy
from extauthz.core.decision.weighing import MAX_CONTAINERS
from extauthz.core.footprint import LimitRangeDefaults
from extauthz.core.ledger.entry import Event
from extauthz.core.model import Decision, Unknown, Verdict
from extauthz.testing import Asker, create, gate, owned_by, patch, path, put_scale, quota, scale, workload

CPU = {"requests.cpu": "9"}
ALL = {"requests.cpu": "9", "requests.memory": "9Gi", "limits.cpu": "9", "limits.memory": "9Gi"}


def containers(**requests: dict[str, str]) -> list[dict[str, Any]]:
    """By name what each requests."""
    return [{"name": name, "image": "x", "resources": {"requests": said}} for name, said in requests.items()]


def with_pod(obj: dict[str, Any], **spec: Any) -> dict[str, Any]:
    obj["spec"]["template"]["spec"] = spec
    return obj


def mute(replicas: int = 2, **more: Any) -> dict[str, Any]:
    return workload("mute", replicas, {}, **more)


def asker(*objects: dict[str, Any], hard: dict[str, str] | None = None, policy: Policy | None = None, **said: Any):
    return Asker(gate([quota("acme", hard or CPU, **said)], *(objects or (mute(),)), policy=policy))


def must_specify(decision: Decision) -> str:
    """What the owner is told to say."""
    assert (decision.verdict, decision.reason) == (Verdict.DENY, "must-specify"), decision.sentence
    head, _, what = decision.sentence.partition(": must specify ")
    assert head.endswith("is forbidden: failed workspace quota: acme")
    return what


def test_more_pods_that_ask_for_nothing_are_refused_as_resource_quota_refuses_them():
    ask = asker()
    refused = ask(scale("mute", 100_000))
    assert refused.sentence == (
        'deployments.apps "mute" is forbidden: failed workspace quota: acme: must specify requests.cpu for: main'
    )
    assert (refused.pending_write, refused.evidence.fits, refused.todo) == (None, None, None)
    assert [row[:4] for row in refused.evidence.unspecified] == [("acme", ("acme",), "requests.cpu", ("main",))]
    assert ask.gate.ledger.pending_writes == 0


@pytest.mark.parametrize(
    "ask_for",
    [
        put_scale("mute", 3),
        put_scale("mute", 3, "1"),
        patch(path("mute"), {"spec": {"replicas": 3}}),
        patch(path("mute"), {"spec": {"replicas": 3}}, "strategic"),
        patch(path("mute"), {"spec": {"replicas": 3}}, "apply"),
        create(workload("new", 1, {})),
        create(workload("new", 1, {}, kind="StatefulSet")),
        create(workload("new", 1, {}, kind="ReplicaSet")),
    ],
)
def test_whatever_way_they_come(ask_for):
    assert must_specify(asker()(ask_for)) == "requests.cpu for: main"


@pytest.mark.parametrize(
    "ask_for",
    [
        scale("mute", 0),
        scale("mute", 1),
        scale("mute", 2),
        put_scale("mute", 1, "1"),
        patch(path("mute"), {"metadata": {"labels": {"a": "b"}}}),
        patch(path("mute"), {"metadata": {"labels": {"a": "b"}}}, "apply"),
        create(workload("new", 0, {})),
        patch(
            path("mute"), {"spec": {"template": {"spec": {"containers": containers(main={"cpu": "1"})}}}}, "strategic"
        ),
    ],
)
def test_what_makes_no_more_of_them_passes(ask_for):
    assert asker()(ask_for).verdict is Verdict.ALLOW


def test_once_it_says_what_it_needs_it_may_grow_by_that():
    ask = asker()
    cured = patch(
        path("mute"), {"spec": {"template": {"spec": {"containers": containers(main={"cpu": "1"})}}}}, "strategic"
    )
    granted = ask(cured)
    ask.gate.ledger.pending.settle(granted.id, Event.NOT_FORWARDED, 0.0)
    ask.gate.observe(granted.ref, asker(workload("mute", 2)).gate.ledger.get(granted.ref).observed)
    assert ask(scale("mute", 9)).verdict is Verdict.ALLOW
    assert ask(scale("mute", 10)).reason == "exceeded-quota"


def test_to_take_a_request_away_makes_more_of_them():
    silenced = {"spec": {"template": {"spec": {"containers": [{"name": "main", "resources": {"$patch": "delete"}}]}}}}
    assert (
        must_specify(asker(workload("web", 2))(patch(path("web"), silenced, "strategic"))) == "requests.cpu for: main"
    )


def test_every_container_has_to_say_it_and_each_resource_is_listed_by_name():
    web = with_pod(
        workload("web", 1),
        containers=containers(b={}, a={"memory": "1Gi"}),
        initContainers=[*containers(prepare={"cpu": "1"}), {"name": "mesh", "restartPolicy": "Always"}],
    )
    assert must_specify(asker(web, hard=ALL)(scale("web", 2))) == (
        "limits.cpu for: a,b,mesh,prepare; limits.memory for: a,b,mesh,prepare; "
        "requests.cpu for: a,b,mesh; requests.memory for: b,mesh,prepare"
    )


def test_only_what_the_quota_limits_has_to_be_said():
    ask = asker(workload("web", 1, {"cpu": "1"}), hard=CPU | {"pods": "9", "requests.nvidia.com/gpu": "1"})
    assert ask(scale("web", 2)).verdict is Verdict.ALLOW
    assert asker(hard={"pods": "9", "limits.ephemeral-storage": "1Gi"})(scale("mute", 3)).verdict is Verdict.ALLOW


@pytest.mark.parametrize(
    "resources",
    [{"limits": {"cpu": "1"}}, {"requests": {"cpu": "0"}}],
    ids=["a limit stands in for a request", "zero is said too"],
)
def test_what_counts_as_said(resources):
    web = with_pod(workload("web", 1), containers=[{"name": "main", "resources": resources}])
    assert asker(web)(scale("web", 2)).verdict is Verdict.ALLOW


def test_what_a_pod_asks_for_itself_speaks_for_all_its_containers():
    web = with_pod(workload("web", 1), containers=containers(a={}, b={}), resources={"requests": {"cpu": "1"}})
    assert asker(web)(scale("web", 2)).verdict is Verdict.ALLOW
    assert must_specify(asker(web, hard=CPU | {"requests.memory": "1Gi"})(scale("web", 2))) == (
        "requests.memory for: a,b"
    )


def test_defaults_of_a_limit_range_are_said():
    ask = asker()
    ask.gate.observe_limit_ranges("team-a", (LimitRangeDefaults((("cpu", 10**9),)),))
    assert ask(scale("mute", 3)).verdict is Verdict.ALLOW
    ask.gate.observe_limit_ranges("team-a", ())
    assert ask(scale("mute", 3)).reason == "must-specify"


def test_a_quota_that_comes_to_limit_it_demands_it():
    ask = asker(hard={"pods": "9"})
    assert ask(scale("mute", 3), charge=False).verdict is Verdict.ALLOW
    ask.gate.load_quotas(asker(hard=CPU).gate.ledger.coverage.tree, 0.0)
    assert ask(scale("mute", 3)).reason == "must-specify"
    assert ask.gate.ledger.drift() == {}


def test_an_ancestor_demands_it_too_and_both_are_named():
    quotas = [
        quota("top", {"requests.cpu": "9"}, namespaces={"none": "such"}),
        quota("acme", {"requests.memory": "1Gi"}, parent="top", namespaces={"workspace": "acme"}),
    ]
    refused = Asker(gate(quotas, mute()))(scale("mute", 3))
    assert refused.sentence.endswith("quota: top, acme: must specify requests.cpu for: main; requests.memory for: main")


def test_a_label_that_moves_it_under_a_quota_that_limits_it_is_refused():
    quotas = [
        quota("pods", {"pods": "9"}, namespaces={}),
        quota("front", CPU, namespaces={}, workloads={"tier": "front"}),
    ]
    ask = Asker(gate(quotas, mute()))
    assert ask(scale("mute", 3), charge=False).verdict is Verdict.ALLOW
    refused = ask(patch(path("mute"), {"metadata": {"labels": {"tier": "front"}}}))
    assert (refused.verdict, [row.quota for row in refused.evidence.unspecified]) == (Verdict.DENY, ["front"])


def test_a_replicaset_that_nobody_covers_is_refused_and_what_a_controller_makes_costs_nothing_more():
    rs = workload("mute-1", 2, {}, kind="ReplicaSet", labels={"app": "mute"}, ownerReferences=owned_by("mute"))
    rs["spec"]["selector"] = {"matchLabels": {"app": "mute"}}
    ask = asker(mute(), rs)
    assert ask(scale("mute", 2)).verdict is Verdict.ALLOW
    assert ask(scale("mute", 3)).reason == "must-specify"
    assert asker(workload("rs", 2, {}, kind="ReplicaSet"))(scale("rs", 3, resource="replicasets")).reason == (
        "must-specify"
    )


def test_what_may_pass_counts_as_zero():
    ask = asker(policy=Policy(window_s=90.0, allows={Unknown.UNSPECIFIED}))
    assert (ask(scale("mute", 50)).verdict, ask(scale("mute", 50)).reason) == (Verdict.ALLOW, "no-growth")
    assert [(row.used, row.reserved) for row in ask.gate.usage()] == [(0, 0)]
    assert asker(on_unknown={"unspecified": "Allow"})(scale("mute", 3)).verdict is Verdict.ALLOW


def test_a_quota_that_only_audits_says_it_and_refuses_nothing():
    allowed = asker(mode="Audit")(scale("mute", 3))
    assert allowed.verdict is Verdict.ALLOW
    assert [(row.quota, row.resource, row.audits) for row in allowed.evidence.unspecified] == [
        ("acme", "requests.cpu", True)
    ]
    audited = asker(policy=Policy(mode="audit"))(scale("mute", 3))
    assert (audited.verdict, audited.would, audited.reason) == (Verdict.ALLOW, Verdict.DENY, "must-specify")


def test_an_apply_that_may_leave_less_is_taken_at_what_it_says():
    """The gate cannot know which manager owned a field that an apply leaves out; so it refuses no apply for that."""
    ask = asker(workload("web", 2))
    assert ask(patch(path("web"), {"metadata": {"labels": {"a": "b"}}}, "apply")).verdict is Verdict.ALLOW
    assert ask(scale("web", 3)).verdict is Verdict.ALLOW, "nor is what comes beside it"
    more = {"spec": {"template": {"spec": {"containers": [{"name": "more", "image": "x"}]}}}}
    assert must_specify(asker(workload("web", 2))(patch(path("web"), more, "apply"))) == "requests.cpu for: more"


def test_a_count_beside_a_change_that_may_land_is_refused_for_that():
    ask = asker(mute(0), policy=Policy(window_s=90.0))
    named = {"spec": {"template": {"spec": {"containers": [{"name": "more", "image": "x"}]}}}}
    assert ask(patch(path("mute"), named, "strategic")).verdict is Verdict.ALLOW, "no pod is made by it"
    assert must_specify(ask(scale("mute", 1))) == "requests.cpu for: main,more"


def test_many_and_long_names_are_cut():
    names = {f"c{number:03}{'x' * 1000}": {} for number in range(300)}
    web = with_pod(workload("web", 1), containers=containers(**names))
    refused = asker(web)(scale("web", 2))
    assert len(refused.evidence.unspecified[0].containers) == MAX_CONTAINERS
    assert len(refused.sentence) < 3_000


def test_a_template_whose_cost_cannot_be_told_is_an_unknown_and_no_silence():
    assert asker(workload("odd", 1, {"cpu": "one"}))(scale("odd", 2)).reason == "unknown-footprint"
    silent = asker(mute(1), policy=Policy(window_s=90.0, allows={Unknown.FOOTPRINT}))
    broken = {"spec": {"template": {"spec": {"containers": containers(main={"cpu": "one"})}}}}
    assert silent(patch(path("mute"), broken, "strategic")).verdict is Verdict.ALLOW
    assert must_specify(silent(scale("mute", 2))) == "requests.cpu for: main"
    odd = asker(workload("odd", 0, {"cpu": "one"}))
    nothing = {"spec": {"template": {"spec": {"containers": containers(main={})}}}}
    assert odd(patch(path("odd"), nothing)).verdict is Verdict.ALLOW
    odd.gate.policy = Policy(window_s=90.0, allows={Unknown.FOOTPRINT})
    assert must_specify(odd(scale("odd", 2))) == "requests.cpu for: main"
