"""A bound of replicas that the platform's own service sets, besides the quotas."""

from __future__ import annotations

import pytest

from extauthz.core.decision.bounds import ASK_AGAIN_S, Bounds, Freshness
from extauthz.core.decision.policy import Policy
from extauthz.core.model import Requester, Verdict, WorkloadRef
from extauthz.core.objects.workloads import observe
from extauthz.testing import Asker, create, gate, owned_by, patch, path, pod, quota, scale, workload

WEB = WorkloadRef("apps", "deployments", "team-a", "web")


def bounded(ask: Asker, most: int | None, *, asked: bool = True) -> Asker:
    ask.gate.bounds = Bounds(10.0, 60.0)
    if asked:
        ask.gate.bounds.answered(WEB, most, 0.0)
    return ask


def world(most: int | None = 5, *, asked: bool = True, hard: str = "10", **policy: object) -> Asker:
    made = gate([quota("acme", {"requests.cpu": hard})], workload("web", 3), policy=Policy(window_s=90.0, **policy))
    return bounded(Asker(made), most, asked=asked)


def test_growth_up_to_the_bound_passes_and_beyond_it_is_denied_with_the_numbers():
    allowed = world()(scale("web", 5))
    assert (allowed.verdict, allowed.reason, allowed.evidence.max_scale) == (Verdict.ALLOW, "fits", 5)
    denied = world()(scale("web", 6))
    assert (denied.verdict, denied.reason) == (Verdict.DENY, "exceeded-max-scale")
    assert (denied.evidence.max_scale, denied.evidence.fits, denied.pending_write, denied.evidence.shortages) == (
        5,
        5,
        None,
        (),
    )
    assert denied.sentence == (
        'deployments.apps "web" is forbidden: exceeded max available scale: requested: replicas=6, used: replicas=3, '
        "limited: replicas=5; largest allowed replicas: 5"
    )


def test_no_bound_is_none():
    allowed = world(None)(scale("web", 10))
    assert (allowed.verdict, allowed.reason, allowed.evidence.max_scale) == (Verdict.ALLOW, "fits", None)


@pytest.mark.parametrize("replicas", [0, 1, 3])
def test_what_does_not_grow_passes_whatever_the_bound_and_whether_it_is_known(replicas: int):
    assert world(0)(scale("web", replicas)).verdict is Verdict.ALLOW
    assert world(asked=False)(scale("web", replicas)).verdict is Verdict.ALLOW
    denied = world(0)(scale("web", 4))
    assert denied.evidence.fits == 3, "what is there stays"


def test_a_template_that_grows_under_the_same_count_is_no_concern_of_it():
    dearer = patch(path("web"), {"spec": {"template": pod({"cpu": "2"})}})
    assert world(0)(dearer).verdict is Verdict.ALLOW


def test_quotas_refuse_first_and_then_nobody_need_be_asked():
    assert world(asked=False)(scale("web", 11)).reason == "exceeded-quota"


def test_a_create_is_bounded_by_its_name_and_one_without_a_name_by_none():
    ask = world(asked=False)
    api = create(workload("api", 2))
    assert ask(api).reason == "max-scale-unasked"
    ask.gate.bounds.answered(WorkloadRef("apps", "deployments", "team-a", "api"), 1, 0.0)
    assert ask(api).reason == "exceeded-max-scale"
    unnamed = workload("api", 2)
    unnamed["metadata"] = {"generateName": "api-", "namespace": "team-a"}
    assert ask(create(unnamed)).ref == WorkloadRef("apps", "deployments", "team-a", "")
    ask.gate.bounds.answered(WorkloadRef("apps", "deployments", "team-a", ""), 1, 0.0)
    assert ask(create(unnamed)).reason == "exceeded-max-scale"


def test_what_was_not_asked_is_not_decided_and_records_nothing():
    ask = world(asked=False)
    undecided = ask(scale("web", 4))
    assert (undecided.verdict, undecided.reason) == (Verdict.UNAVAILABLE, "max-scale-unasked")
    assert ask.gate.ledger.pending_writes == 0
    ask.gate.bounds.answered(WEB, 5, 0.0)
    assert ask(scale("web", 4)).verdict is Verdict.ALLOW


def test_a_service_that_says_nothing_refuses_by_name_unless_the_setting_lets_it_pass():
    ask = world(asked=False)
    ask.gate.bounds.failed(WEB, 0.0)
    refused = ask(scale("web", 4))
    assert (refused.verdict, refused.reason) == (Verdict.UNAVAILABLE, "max-scale-unknown")
    assert "forbidden" not in refused.sentence
    lenient = world(asked=False, on_max_scale_unknown="allow")
    lenient.gate.bounds.failed(WEB, 0.0)
    allowed = lenient(scale("web", 4))
    assert (allowed.verdict, allowed.reason, allowed.pending_write) == (Verdict.ALLOW, "max-scale-unknown", allowed.id)
    assert allowed.sentence.endswith("; the platform's service was not heard, and that lets it pass")
    assert lenient(scale("web", 11)).verdict is Verdict.DENY, "the quotas hold all the same"


def test_the_last_good_answer_is_used_for_a_while_and_said_to_be_old():
    ask = world()
    ask.now_s = 30.0
    assert ask(scale("web", 5)).reason == "max-scale-unasked"
    ask.gate.bounds.failed(WEB, 30.0)
    allowed = ask(scale("web", 5))
    assert (allowed.verdict, allowed.reason, allowed.evidence.max_scale) == (Verdict.ALLOW, "max-scale-stale", 5)
    assert "said 30 s ago, and no later" in allowed.sentence
    denied = ask(scale("web", 6))
    assert (denied.reason, denied.verdict) == ("exceeded-max-scale", Verdict.DENY)
    assert "exceeded max available scale (as of 30 s ago): requested" in denied.sentence
    ask.gate.bounds.failed(WEB, 60.0)
    ask.now_s = 60.0
    assert ask(scale("web", 6)).reason == "max-scale-unknown"


def test_a_grant_that_is_refused_for_another_reason_is_not_remarked_upon():
    ask = world(max_intents_per_workload=1)
    ask(scale("web", 4))
    assert ask(scale("web", 5)).reason == "too-many-intents"


def test_dry_runs_meet_the_bound_too():
    dry = scale("web", 6)._replace(target=scale("web", 6).target + "?dryRun=All")
    assert world()(dry).reason == "exceeded-max-scale"


def test_how_fresh_an_answer_is():
    bounds = Bounds(10.0, 60.0, most=1)
    assert bounds.known(WEB, 0.0).freshness is Freshness.UNASKED
    bounds.failed(WEB, 0.0)
    assert bounds.known(WEB, 0.5).freshness is Freshness.UNKNOWN
    assert bounds.known(WEB, ASK_AGAIN_S).freshness is Freshness.UNASKED
    bounds.answered(WEB, 5, 2.0)
    assert bounds.known(WEB, 11.9) == (Freshness.FRESH, 5, pytest.approx(9.9))
    assert bounds.known(WEB, 12.0).freshness is Freshness.UNASKED
    bounds.failed(WEB, 12.0)
    assert bounds.known(WEB, 12.5) == (Freshness.KEPT, 5, 10.5)
    bounds.answered(WEB._replace(name="other"), 1, 12.0)
    assert (len(bounds), bounds.known(WEB, 12.5).freshness) == (1, Freshness.UNASKED), "bounded: the last ones stay"


# Whom it binds, and what it is told.

ONLY_AUTOSCALERS = {"include": {"serviceAccounts": ["kube-system/*"]}}


@pytest.mark.parametrize(
    ("more", "who"),
    [
        ({"requesters": ONLY_AUTOSCALERS}, "jane"),
        ({"mode": "Audit"}, "jane"),
        ({"workloads": {"tier": "paid"}}, "jane"),
    ],
    ids=["another asks", "its quota only audits", "its quota covers others"],
)
def test_who_is_bound_by_no_quota_is_not_bound_by_the_service(more: dict, who: str):
    made = gate([quota("acme", {"requests.cpu": "10"}, **more)], workload("web", 3))
    ask = bounded(Asker(made), 4, asked=False)
    assert ask(scale("web", 9), by=Requester(who)).verdict is Verdict.ALLOW
    bound = bounded(Asker(gate([quota("acme", {"requests.cpu": "10"})], workload("web", 3))), 4, asked=False)
    assert bound(scale("web", 9), by=Requester(who)).reason == "max-scale-unasked"


def test_the_service_is_told_of_workspace_counts_asker_labels_owner_and_what_a_pod_takes():
    corp = quota("corp", {"requests.cpu": "99"}, namespaces={})
    acme = quota("acme", {"requests.cpu": "10"}, parent="corp")
    web = workload("web", 3, {"cpu": "500m", "example.com/any": "1"}, labels={"team": "a"})
    web["metadata"]["ownerReferences"] = owned_by("llm", kind="InferenceService")
    ask = bounded(Asker(gate([corp, acme], web)), None, asked=False)
    told = dict(ask(scale("web", 9), by=Requester("jane")).todo.about)
    assert told == {
        "workspace": "acme",
        "current": "3",
        "desired": "9",
        "requester": "jane",
        "labels": "team=a",
        "owner": "InferenceService/llm",
        "pod.requests.cpu": "500m",
    }, "nothing of what no quota limits: a tenant can write as much of that as he likes"
    ask.gate.observe(*observe(workload("web", 3, labels={f"label-{one}": "x" * 60 for one in range(40)})))
    assert "labels" not in dict(ask(scale("web", 9)).todo.about), "a URL has no room for them"
