"""At Envoy a write is a count, or it is not decided there (design.md rule 15)."""

from __future__ import annotations

import pytest

from extauthz.core.decision.policy import Policy
from extauthz.core.intake.counts import read
from extauthz.core.model import COMMIT, NotACount, Request, Requester, Verdict
from extauthz.core.quota.spec import WorkspaceQuota
from extauthz.testing.builders import create, gate, patch, path, pod, quota, workload

TEMPLATE = patch(path("web"), {"spec": {"template": pod({"cpu": "9"})}}, "strategic")
CREATE = create(workload("new", 9))
PUT = create(workload("web", 9))._replace(method="PUT", target=path("web"))


def decided(request: Request, *quotas: WorkspaceQuota, by: str = "", **policy: str):
    found = quotas or (quota("acme", {"requests.cpu": "4"}),)
    asked = gate(found, workload("web", 1), policy=Policy(**policy))
    reading = read(request)
    assert isinstance(reading, NotACount)
    decision = asked.decide(reading, "d1", 0.0, requester=Requester(by) if by else None)
    assert asked.ledger.pending_writes == 0
    return decision


@pytest.mark.parametrize("request_", [TEMPLATE, CREATE, PUT], ids=["template", "create", "put"])
def test_a_whole_object_is_refused_by_default_and_never_as_a_quota_denial(request_: Request):
    refused = decided(request_)
    assert (refused.verdict, refused.reason) == (Verdict.UNAVAILABLE, "not-a-count")
    assert "was not decided: the quota gate decides replica counts at Envoy, and this is more:" in refused.sentence
    assert refused.sentence.endswith("to an API server that asks the webhook, or write spec.replicas alone")


@pytest.mark.parametrize(("setting", "reason"), [("webhook", "left-to-webhook"), ("observe", "not-gated")])
def test_by_its_setting_it_passes_undecided(setting: str, reason: str):
    passed = decided(TEMPLATE, objects=setting)
    assert (passed.verdict, passed.reason, passed.todo is COMMIT) == (Verdict.ALLOW, reason, False)


def test_what_no_quota_covers_passes():
    assert decided(TEMPLATE, quota("acme", {"pods": "1"}, namespaces={"no": "such"})).reason == "no-quota"


def test_what_no_quota_seems_to_cover_does_not_pass_while_that_may_be_out_of_date():
    asked = gate([quota("acme", {"pods": "1"}, namespaces={"no": "such"})], workload("web", 1))
    asked.stale("a watch is silent")
    assert asked.decide(read(TEMPLATE), "d1", 0.0).verdict is Verdict.UNAVAILABLE


def test_where_quotas_only_audit_it_passes():
    assert decided(TEMPLATE, quota("acme", {"pods": "1"}, mode="Audit")).reason == "not-gated"


def test_where_the_gate_only_audits_it_passes_and_says_what_would_be():
    passed = decided(TEMPLATE, mode="audit")
    assert (passed.verdict, passed.would) == (Verdict.ALLOW, Verdict.UNAVAILABLE)


def test_whom_no_quota_binds_is_not_refused():
    bound = quota("acme", {"pods": "1"}, requesters={"include": {"users": ["keda"]}})
    assert decided(TEMPLATE, bound, by="somebody").verdict is Verdict.ALLOW
    assert decided(TEMPLATE, bound, by="keda").verdict is Verdict.UNAVAILABLE
