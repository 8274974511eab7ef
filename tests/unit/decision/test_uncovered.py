"""What was allowed where no quota covers it still counts where one comes to cover it before it has landed."""

from __future__ import annotations

import pytest

from extauthz.core.decision.cluster_state import Bounds
from extauthz.core.decision.gate import Gate
from extauthz.core.decision.policy import Policy
from extauthz.core.intake.counts import read
from extauthz.core.ledger.entry import Event
from extauthz.core.model import COMMIT, Fetch, NeedsFetch, Operation, Request, Verdict, WorkloadRef, Write
from extauthz.core.objects.workloads import observe
from extauthz.core.quota.tree import QuotaTree
from extauthz.testing.builders import Asker, create, gate, patch, path, put_scale, quota, scale, workload
from tests.unit.asking import books

NANO = 10**9
CPU = "requests.cpu"
NAMES = ("web", "api")


def asker(*quotas: object, policy: Policy | None = None, **labels: str) -> Asker:
    objects = [workload(name) for name in NAMES]
    return Asker(gate(list(quotas), *objects, namespaces={"team-a": labels}, policy=policy))  # type: ignore[arg-type]


def test_a_quota_that_is_made_a_moment_later_counts_what_may_still_land():
    ask = asker(workspace="acme")
    allowed = ask(scale("web", 9))
    assert (allowed.verdict, allowed.reason, allowed.pending_write) == (Verdict.ALLOW, "no-quota", "d1")
    assert (allowed.todo is COMMIT, allowed.evidence.uncovered) == (True, True)
    ask.gate.load_quotas(QuotaTree.build([quota("acme", {CPU: "10"})]), 1.0)
    assert books(ask) == (2, 8)
    assert ask(scale("api", 5)).verdict is Verdict.DENY
    ask.gate.ledger.pending.settle("d1", Event.REFUSED, 2.0)
    assert ask(scale("api", 5)).verdict is Verdict.ALLOW


def test_a_namespace_that_is_labelled_into_a_quota_brings_what_may_still_land():
    ask = asker(quota("acme", {CPU: "10"}))
    assert ask(scale("web", 9)).evidence.uncovered
    assert ask(create(workload("new", 1, {"cpu": "3"}))).todo is COMMIT
    assert books(ask) == (0, 0)
    ask.gate.observe_namespace("team-a", {"workspace": "acme"})
    assert books(ask) == (2, 11)
    assert ask(scale("api", 2)).verdict is Verdict.DENY
    assert ask(scale("web", 9)).verdict is Verdict.DENY, "over is over"


def test_a_count_for_an_object_that_is_not_there_yet_lands_on_the_one_that_is_made():
    ask = asker(quota("acme", {CPU: "10"}))
    allowed = ask(scale("new", 6))
    assert (allowed.reason, allowed.pending_write, allowed.todo is COMMIT, allowed.evidence.uncovered) == (
        "no-quota",
        "d1",
        True,
        True,
    )
    ask.gate.observe_namespace("team-a", {"workspace": "acme"})
    assert books(ask) == (2, 0), "a count lands on nothing"
    assert ask(create(workload("new", 1, {"cpu": "2"}))).verdict is Verdict.DENY, "the count lands on what it makes"
    assert ask(create(workload("new", 1, {"cpu": "1"}))).verdict is Verdict.ALLOW
    assert books(ask) == (2, 6)
    ask.gate.ledger.pending.settle("d1", Event.REFUSED, 2.0)
    assert books(ask) == (2, 1)


def test_it_counts_on_an_object_that_is_made_past_the_gate_too():
    ask = asker(quota("acme", {CPU: "10"}))
    ask(scale("new", 6))
    ask.gate.observe(*observe(workload("new", 1, {"cpu": "1"})))
    assert books(ask) == (0, 0)
    ask.gate.observe_namespace("team-a", {"workspace": "acme"})
    assert books(ask) == (3, 5)
    ask.gate.ledger.pending.settle("d1", Event.REFUSED, 2.0)
    assert books(ask) == (3, 0)


def test_what_is_not_there_is_forgotten_with_the_last_count_for_it():
    ask = asker(quota("acme", {CPU: "10"}))
    ask(scale("new", 6))
    ref = WorkloadRef("apps", "deployments", "team-a", "new")
    assert ask.gate.ledger.get(ref) is not None
    ask.gate.ledger.pending.settle("d1", Event.REFUSED, 2.0)
    assert ask.gate.ledger.get(ref) is None


def test_a_workload_that_is_labelled_into_a_quota_brings_what_may_still_land():
    ask = asker(quota("acme", {CPU: "10"}, namespaces={}, workloads={"tier": "a"}))
    allowed = ask(scale("web", 100))
    assert (allowed.reason, allowed.pending_write, allowed.todo is COMMIT, allowed.evidence.uncovered) == (
        "no-quota",
        "d1",
        True,
        False,
    )
    label = patch(path("web"), {"metadata": {"labels": {"tier": "a"}}})
    assert ask(label).verdict is Verdict.DENY
    ask.gate.ledger.pending.settle("d1", Event.REFUSED, 2.0)
    assert ask(label).verdict is Verdict.ALLOW


def test_both_ends_of_a_label_count_what_may_still_land():
    """The label first, and the count while the label may not have landed."""
    ask = asker(quota("acme", {CPU: "10"}, namespaces={}, workloads={"tier": "a"}))
    assert ask(patch(path("web"), {"metadata": {"labels": {"tier": "a"}}})).verdict is Verdict.ALLOW
    assert ask(scale("web", 100)).verdict is Verdict.DENY


@pytest.mark.parametrize(
    ("request_", "charge", "pends"),
    [
        pytest.param(scale("web", 9), False, True, id="question"),
        pytest.param(
            scale("web", 9)._replace(target=path("web", sub="scale") + "?dryRun=All"), True, False, id="dry-run"
        ),
        pytest.param(scale("web", 0), True, False, id="zero"),
        pytest.param(put_scale("web", 1, "1"), True, False, id="harmless"),
        pytest.param(scale("web", 9)._replace(body=b"{"), True, False, id="unreadable"),
    ],
)
def test_what_is_not_recorded_of_a_namespace_without_quota(request_: Request, charge: bool, pends: bool):
    ask = asker(quota("acme", {CPU: "10"}))
    decision = ask(request_, charge=charge)
    assert (decision.verdict, decision.pending_write, decision.todo is COMMIT) == (Verdict.ALLOW, None, pends)
    assert ask.gate.ledger.pending_writes == 0


def test_there_nothing_is_refused_and_nothing_is_recorded_beyond_the_bounds():
    ask = asker(quota("acme", {CPU: "10"}), policy=Policy(max_intents=2))
    decisions = [ask(scale("web", count)) for count in (2, 3, 4)]
    assert [(one.verdict, one.todo is COMMIT) for one in decisions] == [
        (Verdict.ALLOW, True),
        (Verdict.ALLOW, True),
        (Verdict.ALLOW, False),
    ]


def test_what_pends_is_said_of_covered_writes_too():
    ask = asker(quota("acme", {CPU: "10"}), workspace="acme")
    assert ask(scale("web", 3)).todo is COMMIT
    assert ask(scale("web", 3), charge=False).todo is COMMIT
    assert ask(scale("web", 30)).todo is not COMMIT
    assert ask(put_scale("web", 1, "1")).todo is not COMMIT
    audits = asker(quota("acme", {CPU: "10"}), workspace="acme", policy=Policy(mode="audit"))
    assert audits(scale("web", 3)).todo is not COMMIT
    full = asker(quota("acme", {CPU: "10"}), workspace="acme", policy=Policy(max_intents=1))
    assert full(scale("web", 3)).todo is COMMIT
    assert full(scale("web", 4), charge=False).reason == "too-many-intents"


# What is decided is a reading, and no bytes.


def test_the_same_write_is_decided_alike_whatever_it_was_read_from():
    ask = asker(quota("acme", {CPU: "10"}), workspace="acme")
    ref = WorkloadRef("apps", "deployments", "team-a", "web")
    write = Write(ref, Operation.UPDATE, True, False, 30)
    decided = ask.gate.decide(write, "j", 0.0, charge=False)
    assert decided.verdict is Verdict.DENY
    assert decided.sentence == ask(put_scale("web", 30), charge=False).sentence
    granted = write._replace(replicas=3)
    assert ask.gate.decide(granted, "j1", 0.0, source="10.0.0.9").pending_write == "j1"
    assert ask.gate.ledger.pending.of_source("10.0.0.9") == 1


def test_a_gate_that_audits_says_so_of_a_reading_too():
    ask = asker(quota("acme", {CPU: "2"}), workspace="acme", policy=Policy(mode="audit"))
    judged = ask.gate.decide(read(scale("web", 9)), "j", 0.0)
    assert (judged.verdict, judged.would) == (Verdict.ALLOW, Verdict.DENY)


def test_a_gate_that_knows_nothing_yet_says_so_of_a_reading():
    empty = Gate()
    assert empty.decide(read(scale("web", 9)), "j", 0.0).reason == "unsynced"
    ref = WorkloadRef("apps", "deployments", "team-a", "web")
    assert empty.ledger.get(ref) is None


def test_what_a_decision_lacks_is_said_by_type_and_not_by_its_reason():
    ask = asker(quota("acme", {CPU: "10"}), workspace="acme")
    nobody = WorkloadRef("apps", "deployments", "team-a", "nobody")
    assert ask(scale("nobody", 2)).todo == NeedsFetch(Fetch.WORKLOAD, nobody)
    elsewhere = create(workload("new", 1, namespace="new"))
    assert ask(elsewhere).todo == NeedsFetch(Fetch.WORKLOAD, WorkloadRef("apps", "deployments", "new", "new"))
    web = WorkloadRef("apps", "deployments", "team-a", "web")
    ask.gate.bounds = Bounds(10.0, 60.0)
    assert ask(scale("web", 2)).todo == NeedsFetch(Fetch.MAX_SCALE, web)
    ask.gate.bounds.answered(web, 5, 0.0)
    granted = ask(scale("web", 2))
    assert (granted.todo, granted.evidence.grows) == (COMMIT, True)
    assert ask(scale("web", 1)).evidence.grows is False
