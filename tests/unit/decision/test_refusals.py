"""The words for a refusal: never fits, waiting for room, misconfigured, unknown (docs/status.md)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from extauthz.core.decision import sentences
from extauthz.core.decision.policy import Policy
from extauthz.core.intake.counts import read
from extauthz.core.ledger.accounts import NOWHERE, Step, charge
from extauthz.core.ledger.entry import Event
from extauthz.core.model import (
    COMMIT,
    Fetch,
    NeedsFetch,
    NotACount,
    Refusal,
    Request,
    Requester,
    Unknown,
    Verdict,
    WorkloadRef,
)
from extauthz.core.quota.spec import WorkspaceQuota
from extauthz.core.quota.tree import QuotaTree
from extauthz.testing import Asker, create, gate, patch, path, pod, put_scale, quota, scale, workload
from tests.unit.asking import books

TABLE = (Path(__file__).parents[3] / "docs" / "status.md").read_text()
TEN = {"requests.cpu": "10"}


def below(hard: str, above: str) -> list[WorkspaceQuota]:
    """Quota acme, and its parent."""
    return [
        quota("acme", {"requests.cpu": hard}, parent="corp"),
        quota("corp", {"requests.cpu": above}, namespaces={}),
    ]


ACME, WEB, OTHER = [quota("acme", TEN)], workload("web", 2), workload("other", 2)
HARD, ROOM = Refusal.EXCEEDS_HARD, Refusal.WAITING_FOR_ROOM
MENDED, UNKNOWN = Refusal.MISCONFIGURED, Refusal.UNKNOWN
ILLEGIBLE = replace(quota("acme", {}), illegible=True)


@pytest.mark.parametrize(
    ("quotas", "objects", "replicas", "reason", "refusal"),
    [
        pytest.param(ACME, [WEB], 10, "fits", None, id="what-is-allowed-is-no-refusal"),
        pytest.param(ACME, [WEB], 11, "exceeded-quota", HARD, id="more-than-the-limit-by-itself"),
        pytest.param(ACME, [WEB, OTHER], 10, "exceeded-quota", ROOM, id="only-for-what-others-use"),
        pytest.param(ACME, [workload("web", 9)], 11, "exceeded-quota", HARD, id="the-growth-alone-would-fit"),
        pytest.param(below("3", "10"), [WEB], 4, "exceeded-quota", HARD, id="one-above-the-tightest-has-room"),
        pytest.param(below("10", "12"), [WEB, OTHER], 11, "exceeded-quota", HARD, id="one-of-two-limits-is-enough"),
        pytest.param([ILLEGIBLE], [WEB], 3, "illegible-quota", MENDED, id="a-quota-that-cannot-be-read"),
        pytest.param(ACME, [workload("web", 1, {})], 2, "must-specify", MENDED, id="pods-that-state-nothing"),
        pytest.param(ACME, [], 2, "unknown-workload", UNKNOWN, id="what-the-gate-does-not-know"),
    ],
)
def test_each_refusal_has_its_word(quotas, objects, replicas: int, reason: str, refusal: Refusal | None) -> None:
    found = Asker(gate(quotas, *objects))(scale("web", replicas))
    assert (found.reason, found.refusal) == (reason, refusal)


def test_a_refusal_that_only_would_be_has_its_word_too() -> None:
    found = Asker(gate(ACME, WEB, policy=Policy(mode="audit")))(scale("web", 11))
    assert (found.verdict, found.refusal) == (Verdict.ALLOW, HARD)


def test_what_takes_nothing_of_a_limit_of_zero_is_not_kept_out_by_it() -> None:
    """It waits for others of its family."""
    alone = [NOWHERE._replace(envelope=charge((), cost)) for cost in ({"requests.cpu": 1}, {})]
    steps = [Step(NOWHERE, at, NOWHERE, at) for at in alone]
    assert [step.never_fits([("requests.cpu", 0)]) for step in steps] == [True, False]


@pytest.mark.parametrize("word", Refusal)
def test_each_word_is_documented(word: Refusal) -> None:
    assert f"| `{word}` |" in TABLE


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        pytest.param(0.2, "about 1 s", id="nearly-over"),
        pytest.param(59.1, "about 60 s", id="seconds-are-rounded-up"),
        pytest.param(90, "about 90 s", id="the-longest-in-seconds"),
        pytest.param(135, "about 2 minutes", id="the-default-landing-window"),
    ],
)
def test_a_time_is_said_in_seconds_or_minutes(seconds: float, said: str) -> None:
    assert sentences.about(seconds) == said


def test_who_has_too_many_pending_writes_is_told_when_there_is_room_again() -> None:
    """In a time, and not by the name that the setting has in code."""
    policy = Policy(max_intents_per_source=1)
    ask = Asker(gate([quota("acme", {"pods": "9"})], workload("web", 1), policy=policy))
    ask(scale("web", 2)._replace(source="10.0.0.9"))
    refused = ask(scale("web", 3)._replace(source="10.0.0.9"))
    assert refused.verdict is Verdict.UNAVAILABLE
    assert refused.sentence.endswith("that may still land; try again in about 2 minutes at the latest")


BELOW = quota("below", {"pods": "9"}, parent="acme", namespaces={"workspace": "acme"})
BOTH = {"team-a": {"workspace": "acme"}, "team-b": {"workspace": "other"}}


def asked(*quotas, policy: Policy | None = None) -> Asker:
    objects = (workload("web", 3), workload("web", 3, namespace="team-b"))
    return Asker(gate([*quotas, quota("other", {"pods": "9"})], *objects, namespaces=BOTH, policy=policy))


@pytest.mark.parametrize(
    "quotas", [[ILLEGIBLE], [replace(ILLEGIBLE, namespace_selector=None), BELOW]], ids=["own", "child"]
)
def test_what_it_covers_cannot_grow_and_is_told_which_it_is(quotas):
    decision = asked(*quotas)(scale("web", 4))
    assert (decision.verdict, decision.reason) == (Verdict.UNAVAILABLE, "illegible-quota")
    assert "cannot read the limits of quota acme" in decision.sentence


AUDITS = replace(quota("acme", {}, mode="Audit"), illegible=True)


@pytest.mark.parametrize(
    ("illegible", "request_"),
    [
        *(pytest.param(ILLEGIBLE, scale("web", count), id=f"no-growth-{count}") for count in (0, 2, 3)),
        pytest.param(ILLEGIBLE, scale("web", 4, namespace="team-b"), id="another-quota-s"),
        pytest.param(AUDITS, scale("web", 4), id="it-only-audits"),
    ],
)
def test_what_does_not_grow_or_is_not_covered_passes(illegible: WorkspaceQuota, request_: Request):
    assert asked(illegible)(request_).verdict is Verdict.ALLOW


def test_growth_may_pass_where_that_is_the_policy_and_is_weighed_by_what_can_be_read():
    asking = asked(ILLEGIBLE, BELOW, policy=Policy(window_s=90.0, allows={Unknown.STALE}))
    allowed, denied = asking(scale("web", 9)), asking(scale("web", 10))
    assert (allowed.verdict, allowed.reason) == (Verdict.ALLOW, "illegible-quota")
    assert (denied.verdict, denied.reason) == (Verdict.DENY, "exceeded-quota")


@pytest.mark.parametrize(("its", "others"), [("Allow", "Deny"), ("Deny", "Allow")])
def test_the_one_that_cannot_be_read_says_what_is_done_about_it(its, others):
    below = quota("below", {"pods": "9"}, parent="acme", namespaces={"workspace": "acme"}, on_unknown={"stale": others})
    acme = replace(quota("acme", {}, on_unknown={"stale": its}), illegible=True)
    decision = asked(acme, below)(scale("web", 4))
    assert decision.reason == "illegible-quota"
    assert decision.verdict is (Verdict.ALLOW if its == "Allow" else Verdict.UNAVAILABLE)


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


BOUND = quota("acme", {"pods": "1"}, requesters={"include": {"users": ["keda"]}})


@pytest.mark.parametrize(
    ("quotas", "more", "reason"),
    [
        pytest.param([], {"objects": "webhook"}, "left-to-webhook", id="it-is-left-to-the-webhook"),
        pytest.param([], {"objects": "observe"}, "not-gated", id="it-is-observed"),
        pytest.param([quota("acme", {"pods": "1"}, namespaces={"no": "such"})], {}, "no-quota", id="nobody-covers-it"),
        pytest.param([quota("acme", {"pods": "1"}, mode="Audit")], {}, "not-gated", id="quotas-only-audit"),
        pytest.param([BOUND], {"by": "somebody"}, "not-gated", id="no-quota-binds-who-asks"),
        pytest.param([BOUND], {"by": "keda"}, "not-a-count", id="a-quota-binds-who-asks"),
    ],
)
def test_by_its_setting_it_passes_undecided(quotas, more: dict[str, str], reason: str):
    passed = decided(TEMPLATE, *quotas, **more)
    assert (passed.reason, passed.todo is COMMIT) == (reason, False)
    assert passed.verdict is (Verdict.UNAVAILABLE if reason == "not-a-count" else Verdict.ALLOW)


def test_what_no_quota_seems_to_cover_does_not_pass_while_that_may_be_out_of_date():
    asked = gate([quota("acme", {"pods": "1"}, namespaces={"no": "such"})], workload("web", 1))
    asked.stale("a watch is silent")
    assert asked.decide(read(TEMPLATE), "d1", 0.0).verdict is Verdict.UNAVAILABLE


def test_where_the_gate_only_audits_it_passes_and_says_what_would_be():
    passed = decided(TEMPLATE, mode="audit")
    assert (passed.verdict, passed.would) == (Verdict.ALLOW, Verdict.UNAVAILABLE)


# What was allowed where no quota covers it still counts where one comes to cover it before it has landed.


CPU = "requests.cpu"
NAMES = ("web", "api")


def asker(*quotas: object, policy: Policy | None = None, **labels: str) -> Asker:
    objects = [workload(name) for name in NAMES]
    return Asker(gate(list(quotas), *objects, namespaces={"team-a": labels}, policy=policy))  # type: ignore[arg-type]


def test_a_quota_that_is_made_a_moment_later_counts_what_may_still_land():
    ask = asker(workspace="acme")
    allowed = ask(scale("web", 9))
    assert (allowed.verdict, allowed.reason, allowed.pending_write) == (Verdict.ALLOW, "no-quota", "d1")
    assert (allowed.todo is COMMIT, allowed.evidence.afterwards) == (True, True)
    ask.gate.load_quotas(QuotaTree.build([quota("acme", {CPU: "10"})]), 1.0)
    assert books(ask) == (2, 8)
    assert ask(scale("api", 5)).verdict is Verdict.DENY
    ask.gate.ledger.pending.settle("d1", Event.REFUSED, 2.0)
    assert ask(scale("api", 5)).verdict is Verdict.ALLOW


def test_a_namespace_that_is_labelled_into_a_quota_brings_what_may_still_land():
    ask = asker(quota("acme", {CPU: "10"}))
    assert ask(scale("web", 9)).evidence.afterwards
    assert ask(create(workload("new", 1, {"cpu": "3"}))).todo is COMMIT
    assert books(ask) == (0, 0)
    ask.gate.observe_namespace("team-a", {"workspace": "acme"})
    assert books(ask) == (2, 11)
    assert ask(scale("api", 2)).verdict is Verdict.DENY
    assert ask(scale("web", 9)).verdict is Verdict.DENY, "over is over"


def test_a_count_for_an_object_that_is_not_there_yet_lands_on_the_one_that_is_made():
    ask = asker(quota("acme", {CPU: "10"}))
    allowed = ask(scale("new", 6))
    assert (allowed.reason, allowed.pending_write, allowed.todo is COMMIT, allowed.evidence.afterwards) == (
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
    assert (allowed.reason, allowed.pending_write, allowed.todo is COMMIT, allowed.evidence.afterwards) == (
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


def test_what_a_decision_lacks_is_said_by_type_and_not_by_its_reason():
    ask = asker(quota("acme", {CPU: "10"}), workspace="acme")
    nobody = WorkloadRef("apps", "deployments", "team-a", "nobody")
    assert ask(scale("nobody", 2)).todo == NeedsFetch(Fetch.WORKLOAD, nobody)
    elsewhere = create(workload("new", 1, namespace="new"))
    assert ask(elsewhere).todo == NeedsFetch(Fetch.WORKLOAD, WorkloadRef("apps", "deployments", "new", "new"))
    granted = ask(scale("web", 2))
    assert (granted.todo, granted.evidence.grows) == (COMMIT, True)
    assert ask(scale("web", 1)).evidence.grows is False
