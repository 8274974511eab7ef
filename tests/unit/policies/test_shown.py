"""Where policies are seen: the log, what clients read, the API, `check`."""

from __future__ import annotations

from extauthz.cli.report import as_table
from extauthz.core.model import NO_EVIDENCE, Decision, Evidence, Operation, PolicyAnswer, Verdict, WorkloadRef
from extauthz.observe.log import decision_fields
from extauthz.servers.api import rights, shown
from extauthz.service.deciding import shortened

REF = WorkloadRef("apps", "deployments", "team-a", "web")
ROWS = (
    PolicyAnswer("hours", "acme", "filter", "refused", "later"),
    PolicyAnswer("steps", "corp", "limit", "refused", "less", audits=True, replicas=4),
    PolicyAnswer("calm", "", "permit", "unknown", "it failed: gone"),
)
SENTENCE = 'deployments.apps "web" is forbidden: policy hours of workspace quota acme: later'
DENIED = Decision(
    "d1",
    Verdict.DENY,
    "policy-refused",
    SENTENCE,
    REF,
    Operation.PATCH,
    True,
    False,
    9,
    3,
    evidence=Evidence(policies=ROWS),
)


def test_the_log_has_a_row_for_each() -> None:
    fields = decision_fields(DENIED, "", 0.0)
    assert fields["refusal"] == "ForbiddenByPolicy"
    assert fields["policies"] == [
        {"policy": "hours", "step": "filter", "result": "refused", "message": "later", "quota": "acme"},
        {
            "policy": "steps",
            "step": "limit",
            "result": "refused",
            "message": "less",
            "quota": "corp",
            "replicas": 4,
            "audit": True,
        },
        {"policy": "calm", "step": "permit", "result": "unknown", "message": "it failed: gone"},
    ]
    assert "policies" not in decision_fields(DENIED._replace(evidence=NO_EVIDENCE), "", 0.0)


def test_the_api_hides_those_of_quotas_that_who_asks_may_not_see() -> None:
    found = shown.decision(DENIED)
    assert rights.named(found) == {"acme", "corp"}
    assert shown.refusing(DENIED) == {"acme", "corp"}
    assert rights.over(found, {"acme", "corp"}) == found
    covered = rights.over(found, {"corp"})
    assert covered["sentence"] == rights.SENTENCE
    assert [(row["policy"], row["quota"], row["message"]) for row in covered["policies"]] == [
        (None, None, None),
        ("steps", "corp", "less"),
        ("calm", None, "it failed: gone"),
    ]


def test_check_prints_who_is_against_it() -> None:
    text = as_table(shown.decision(DENIED))
    assert "policies against it:\n  policy  quota  step    message\n  hours   acme   filter  later\n" in text
    assert "  calm    -      permit  not known: it failed: gone\n" in text
    assert (
        "policies against it, but only audited:\n  policy  quota  step   message\n  steps   corp   limit  less" in text
    )


def test_clients_that_learn_nothing_learn_that_it_was_a_policy() -> None:
    assert shortened(DENIED).sentence == 'deployments.apps "web" is forbidden by a policy (decision d1)'
    held = DENIED._replace(reason="policy-not-yet")
    assert shortened(held).sentence == 'deployments.apps "web" is forbidden by a policy (decision d1)'
    passed = DENIED._replace(verdict=Verdict.ALLOW, would=Verdict.DENY)
    assert shortened(passed).sentence == SENTENCE
