"""What the status of a WorkspaceQuota says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from extauthz.core.ledger.accounts import UsageRow
from extauthz.core.model import WorkloadRef
from extauthz.core.queries import Ceiling
from extauthz.core.quota.overrides import Override
from extauthz.core.quota.problems import Fault, Standing, compact
from extauthz.core.quota.selectors import LabelSelector
from extauthz.core.quota.spec import Mode
from extauthz.inputs.kube.webhooks import Webhooks
from extauthz.tell.observe.autoscalers import NeverFits, Subject
from extauthz.tell.observe.observers import Serving
from extauthz.tell.observe.quota_status import MAX_MESSAGE, Facts, Selected, cut, same, status_of

NOW, BEFORE = "2026-11-21T07:00:00Z", "2026-11-20T00:00:00Z"
NANOS = 10**9
NOBODY = Serving(webhooks=Webhooks(), by_envoy=False)
BY_WEBHOOK = Serving(webhooks=Webhooks(LabelSelector(), LabelSelector()), by_envoy=False)


def standing(status: Any = None, in_force: int | None = 2, fault: Fault | None = None, why: str = "") -> Standing:
    return Standing("acme", "u1", 2, "41", compact(status), in_force, fault, why)


def row(resource: str, used: int, hard: int, reserved: int = 0) -> UsageRow:
    return UsageRow("acme", resource, used * NANOS, reserved * NANOS, hard * NANOS)


GIB = 2**30
ROWS = (row("requests.cpu", 3, 10, 2), row("requests.memory", 12 * GIB, 64 * GIB), row("pods", 12, 100))


SHORT = UsageRow("acme", "pods", 4 * NANOS, 1 * NANOS, 8 * NANOS, kept=4 * NANOS)


NEVER = tuple(
    NeverFits(
        Subject("autoscaling/v2", "HorizontalPodAutoscaler", "shop", f"web{number}", "u"),
        WorkloadRef("apps", "deployments", "shop", "web"),
        24,
        Ceiling(12, "acme", "pods", 24 * NANOS, 12 * NANOS),
    )
    for number in range(20)
)


def conditions(facts: Facts) -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one["reason"]) for one in status_of(facts, NOW)["conditions"]}


def message(facts: Facts, condition: str) -> str:
    (found,) = [one["message"] for one in status_of(facts, NOW)["conditions"] if one["type"] == condition]
    return found


def test_amounts_are_printed_as_kubernetes_prints_them():
    status = status_of(Facts(standing(), ROWS), NOW)
    assert status["used"] == {"requests.cpu": "3", "requests.memory": "12Gi", "pods": "12"}
    assert status["hard"] == {"requests.cpu": "10", "requests.memory": "64Gi", "pods": "100"}
    assert status["reserved"] == {"requests.cpu": "2"}
    assert status["observedGeneration"] == 2


def test_the_override_in_force_and_the_next_one_are_shown():
    one = Override("launch", 1801440000.0, 1801443600.0, {}, {}, "rented")
    shown = status_of(Facts(standing(), ROWS, override=one, next_override=one._replace(name="more", reason="")), NOW)
    assert shown["override"] == {"name": "launch", "until": "2027-02-01T01:00:00Z", "reason": "rented"}
    assert shown["nextOverride"] == {"name": "more", "from": "2027-02-01T00:00:00Z", "reason": ""}
    plain = status_of(Facts(standing(), ROWS), NOW)
    assert not plain.keys() & {"override", "nextOverride"}


@pytest.mark.parametrize(
    ("facts", "status", "reason", "said"),
    [
        pytest.param(Facts(standing(), hold_s=40), "Unknown", "OnHold", "no growth is granted for 40 s: ", id="held"),
        pytest.param(
            Facts(standing(), hold_s=0), "Unknown", "OnHold", "no growth is granted for a little longer: ", id="late"
        ),
        pytest.param(Facts(standing(), mode=Mode.AUDIT, hold_s=40), "True", "InForce", "", id="audits"),
        pytest.param(Facts(standing(), serving=NOBODY, hold_s=40), "False", "NotAsked", "", id="nobody-asks"),
        pytest.param(
            Facts(standing(None, 1, Fault.INVALID, "spec.hard: no"), hold_s=40), "False", "Invalid", "", id="invalid"
        ),
    ],
)
def test_ready_says_for_how_long_no_growth_is_granted_yet(facts, status, reason, said):
    assert conditions(facts)["Ready"] == (status, reason)
    assert said in message(facts, "Ready")


def test_one_that_audits_keeps_nothing():
    facts = Facts(standing(), (SHORT,), Mode.AUDIT, promised={"pods": 9 * NANOS})
    assert conditions(facts)["GuaranteesKept"] == ("True", "Kept")


def test_guarantees_are_shown_where_there_are_any():
    shown = status_of(Facts(standing(), (*ROWS, SHORT._replace(guaranteed=3 * NANOS))), NOW)
    assert {field: shown[field] for field in ("guaranteed", "kept")} == {
        "guaranteed": {"pods": "3"},
        "kept": {"pods": "4"},
    }
    plain = status_of(Facts(standing(), ROWS), NOW)
    assert not plain.keys() & {"guaranteed", "kept"}


def test_of_very_many_autoscalers_some_are_named():
    facts = Facts(standing(), ROWS, never_fit=NEVER)
    assert status_of(facts, NOW)["neverFits"] == {
        f"HorizontalPodAutoscaler shop/web{number}": "12 of 24" for number in range(16)
    }
    assert message(facts, "HasHeadroom").endswith("; and 16 more")
    assert "more" not in message(facts._replace(never_fit=NEVER[:4]), "HasHeadroom")


def test_all_conditions_are_true_where_nobody_needs_to_look():
    assert {status for status, _ in conditions(Facts(standing(), ROWS)).values()} == {"True"}


@pytest.mark.parametrize(
    ("facts", "condition", "reason", "sentence"),
    [
        (
            Facts(standing(in_force=1, fault=Fault.INVALID, why="spec.hard[cpus]: no such key; did you mean cpu?")),
            "Ready",
            "Invalid",
            "spec.hard[cpus]: no such key; did you mean cpu?; until then the limits of generation 1 stay in force",
        ),
        (
            Facts(standing(in_force=None, fault=Fault.INVALID, why="spec.mode: what")),
            "Ready",
            "Invalid",
            "spec.mode: what; until then nothing that it covers may grow",
        ),
        (
            Facts(standing(fault=Fault.PARENT_MISSING, why='there is no WorkspaceQuota "big"')),
            "Ready",
            "ParentMissing",
            'there is no WorkspaceQuota "big"; until then it is enforced by itself, without a parent',
        ),
        (
            Facts(standing(fault=Fault.NO_EFFECT, why="spec.sharing.weight: no effect; remove it")),
            "Ready",
            "NoEffect",
            "spec.sharing.weight: no effect; remove it; all else of it is in force",
        ),
        (
            Facts(standing(fault=Fault.PARENT_CYCLE, why="parents run in a circle: a → b → a")),
            "Ready",
            "ParentCycle",
            "parents run in a circle: a → b → a; until then it is enforced by itself, without a parent",
        ),
        (
            Facts(standing(), above_parent=("spec.hard[pods]: it is above", "spec.hard.cpu: too")),
            "WithinParent",
            "AboveParent",
            "spec.hard[pods]: it is above; spec.hard.cpu: too",
        ),
        (
            Facts(standing(), (row("requests.cpu", 12, 10), row("pods", 1, 10))),
            "WithinHard",
            "OverLimit",
            "requests.cpu: used 12, hard 10; nothing that needs more of it may grow, shrinking may always",
        ),
        (
            Facts(standing(), (SHORT, row("requests.cpu", 1, 3)), promised={"pods": 4 * NANOS}),
            "GuaranteesKept",
            "NotYetKept",
            "pods: kept 4, left 3; others had it before; it comes back as they shrink, and until then they do not grow",
        ),
        (
            Facts(standing(), (SHORT, row("requests.cpu", 1, 3)), promised={"pods": 9 * NANOS}),
            "GuaranteesKept",
            "Overpromised",
            "pods: guaranteed below 9, hard 8; lower some of these, or raise the limit",
        ),
        (
            Facts(standing(), kept_by_nobody=("spec.guaranteed.pods: no quota above limits it",)),
            "GuaranteesKept",
            "NothingKept",
            "spec.guaranteed.pods: no quota above limits it",
        ),
        (
            Facts(standing(), ROWS, never_fit=NEVER[:1]),
            "HasHeadroom",
            "NeverFits",
            "HorizontalPodAutoscaler shop/web0: 12 of the 24 replicas that it may ask for would fit: 24 of "
            'deployments.apps "web" take pods=24, and workspace quota acme can give them 12; lower its maximum to 12, '
            "or have the limit raised",
        ),
        (
            Facts(standing(), (row("pods", 12, 10),), Mode.AUDIT),
            "WithinHard",
            "OverLimit",
            "pods: used 12, hard 10; its mode is Audit, so that growth is not refused",
        ),
        (
            Facts(standing(), serving=BY_WEBHOOK._replace(unreached=True)),
            "Asked",
            "NotReached",
            "the API server reaches no gate: see why by `extauthz doctor --kubeconfig`",
        ),
        (
            Facts(standing(), serving=BY_WEBHOOK, unasked=tuple("abcdefg")),
            "Asked",
            "NotAsked",
            "the webhook is not asked about a, b, c, d, e and 2 more, so that growth there passes and is only observed"
            "; label them as namespaceSelector of the webhook selects, or change that (webhook.namespaceSelector)",
        ),
        (
            Facts(standing(), serving=Serving(webhooks=Webhooks(), by_envoy=False), unasked=("a",)),
            "Asked",
            "NoWebhook",
            "no webhook configuration leads to the gates, and growth passes; apply what `extauthz render webhook` "
            "prints, or set webhook.enabled of the chart",
        ),
        (
            Facts(standing(), mode=Mode.CLAMP, lowers=False),
            "ModeInForce",
            "NothingLowers",
            "nobody asks to lower counts in all its namespaces: what does not fit is refused, as in mode Enforce; "
            "install the mutating webhook (webhook.clamp of the chart, `extauthz render webhook`), or render Envoy "
            "with --clamp",
        ),
        (
            Facts(standing(), serving=Serving(audits=True)),
            "ModeInForce",
            "GateAudits",
            "the gates run with mode audit: nothing is refused; set mode to enforce",
        ),
        (
            Facts(standing(), unpriced=1),
            "UsageKnown",
            "UnknownFootprint",
            "1 workload has no known cost, and what is used cannot be told; declare where its kind has its pod "
            "template, or take it out of the selectors",
        ),
    ],
    ids=[
        "invalid", "never valid", "no parent", "no effect", "ring", "above parent",
        "over", "not yet kept", "overpromised", "nothing kept", "never fits", "over in audit", "not reached",
        "not asked", "no webhook", "not lowered", "auditing gates", "unpriced",
    ],
)  # fmt: skip
def test_what_is_wrong_is_a_condition_with_a_sentence(facts: Facts, condition: str, reason: str, sentence: str):
    assert conditions(facts)[condition] == ("False", reason)
    assert message(facts, condition) == sentence
    others = {kind for kind, (status, _) in conditions(facts).items() if status == "False"} - {condition}
    assert others <= ({"Ready", "ModeInForce"} if condition == "Asked" else set()), "one fault is told once"


@pytest.mark.parametrize(
    ("facts", "mode", "says"),
    [
        (Facts(standing(), mode=Mode.ENFORCE), "Enforce", "the limits are in force as they are written"),
        (Facts(standing(), mode=Mode.CLAMP), "Clamp", "a count is lowered to what fits"),
        (Facts(standing(), mode=Mode.CLAMP, lowers=False), "Enforce", "the limits are in force as they are written"),
        (Facts(standing(), mode=Mode.AUDIT), "Audit", "the limits are only audited: nothing is refused"),
        (Facts(standing(), mode=Mode.CLAMP, serving=Serving(audits=True)), "Audit", "only audited"),
        (Facts(standing(in_force=None, fault=Fault.INVALID)), "", "nothing that it covers may grow"),
        (Facts(standing(), serving=NOBODY), "NotAsked", "no webhook configuration leads to the gates"),
        (Facts(standing(), serving=BY_WEBHOOK, unasked=("a",)), "Clamp", "the webhook is not asked about a"),
    ],
    ids=["enforce", "clamp", "clamp alone", "audit", "auditing gates", "none", "nobody asks", "some are left out"],
)
def test_the_mode_that_is_shown_is_what_is_done(facts: Facts, mode: str, says: str):
    assert status_of(facts, NOW).get("mode", "") == mode
    assert says in message(facts, "Ready")


def test_what_the_gate_that_an_envoy_asks_has_said_the_others_believe():
    """Each would write its own else, every five seconds, for ever."""
    asked = Serving(asked_to_lower=True)
    told = status_of(Facts(standing(), mode=Mode.CLAMP, serving=asked), NOW)
    another = Facts(standing(told), mode=Mode.CLAMP, lowers=False)
    assert status_of(another, NOW) == told
    of_a_webhook = another._replace(serving=Serving(webhooks=Webhooks(), by_envoy=False))
    assert conditions(of_a_webhook)["ModeInForce"] == ("False", "NotAsked")


@pytest.mark.parametrize(("policy", "what"), [("Fail", "is refused"), ("Ignore", "passes")])
def test_the_failure_policy_in_force_is_said(policy: str, what: str):
    asked = Serving(webhooks=Webhooks(LabelSelector(), unanswered=policy), by_envoy=False)
    said = message(Facts(standing(), serving=asked), "Asked")
    assert said.endswith(f"; while none answers, growth there {what} (failurePolicy {policy})")


def test_of_a_quota_that_was_never_good_nothing_but_that_is_known():
    found = conditions(Facts(standing(in_force=None, fault=Fault.INVALID)))
    assert found.pop("Ready") == ("False", "Invalid")
    assert set(found.values()) == {("Unknown", "NotInForce")}


def documented() -> set[tuple[str, str, str]]:
    """Type, status and reason, as the page of conditions has them."""
    found, kind = set(), ""
    for line in (Path(__file__).parents[3] / "docs" / "status.md").read_text().splitlines():
        if named := re.fullmatch(r"- `(\w+)`", line):
            kind = named[1]
        elif told := re.match(r"  - (True|False|Unknown), `(\w+)`: ", line):
            found.add((kind, told[1], told[2]))
    return found


def test_the_documentation_has_every_reason_of_each_condition_and_no_other():
    tried = [
        Facts(standing(), ROWS),
        *(Facts(standing(fault=fault)) for fault in Fault),
        *(Facts(standing(), selected=one) for one in Selected),
        Facts(standing(), (row("pods", 2, 1),), above_parent=("so",), unpriced=2),
        Facts(standing(), serving=BY_WEBHOOK, unasked=("a",)),
        Facts(standing(), serving=Serving(webhooks=Webhooks(), by_envoy=False), unasked=("a",)),
        Facts(standing(), serving=Serving(unknown="no right"), mode=Mode.CLAMP),
        Facts(standing(), serving=Serving(unreached=True)),
        Facts(standing(), serving=Serving(audits=True)),
        Facts(standing(), mode=Mode.CLAMP, lowers=False),
        Facts(standing(), (SHORT,)),
        Facts(standing(), (SHORT,), promised={"pods": 9 * NANOS}),
        Facts(standing(), ROWS, never_fit=NEVER),
        Facts(standing(), kept_by_nobody=("so",)),
        Facts(standing(), hold_s=10),
    ]
    given = {(kind, *told) for facts in tried for kind, told in conditions(facts).items()}
    assert given == documented()


def test_a_condition_keeps_its_time_while_its_status_stays():
    old = {
        "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": BEFORE},
            {"type": "WithinHard", "status": "False", "lastTransitionTime": BEFORE},
        ]
    }
    times = {one["type"]: one["lastTransitionTime"] for one in status_of(Facts(standing(old)), NOW)["conditions"]}
    assert (times["Ready"], times["WithinHard"], times["UsageKnown"]) == (BEFORE, NOW, NOW)


def test_a_status_is_the_same_where_only_others_conditions_differ():
    status = status_of(Facts(standing(), ROWS), NOW)
    theirs = {"type": "example.com/Billed", "status": "True", "lastTransitionTime": BEFORE}
    assert same(status, compact({**status, "conditions": [theirs, *status["conditions"]]}))
    assert not same(status, compact({**status, "used": {"pods": "11"}}))
    assert not same(status, compact({}))


def test_a_status_is_the_same_where_what_is_empty_is_written():
    assert same(status_of(Facts(standing()), NOW), compact({**status_of(Facts(standing()), NOW), "reserved": {}}))


@pytest.mark.parametrize(
    ("rows", "cells"),
    [
        (ROWS, {"cpu": "3/10", "memory": "12Gi/64Gi", "pods": "12/100"}),
        ((row("limits.cpu", 1, 2),), {"cpu": "1/2"}),
        ((row("limits.cpu", 1, 2), row("requests.cpu", 1, 1)), {"cpu": "1/1"}),
        ((row("requests.nvidia.com/gpu", 4, 4),), {"gpu": "4/4"}),
        (
            (row("requests.nvidia.com/gpu", 4, 4), row("requests.amd.com/gpu", 0, 2)),
            {"gpu": "nvidia.com/gpu: 4/4, amd.com/gpu: 0/2"},
        ),
        ((row("requests.nvidia.com/mig-1g.5gb", 1, 7),), {"gpu": "1/7"}),
        ((row("requests.example.com/fpga", 1, 7),), {}),
        ((row("count/pods", 1, 7), row("requests.storage", GIB, 2 * GIB)), {"pods": "1/7", "storage": "1Gi/2Gi"}),
    ],
    ids=["usual", "limits", "requests first", "gpu", "gpus", "slices of gpus", "no gpu", "count and storage"],
)
def test_the_summary_has_a_cell_for_each_main_resource_that_is_limited(rows, cells):
    assert status_of(Facts(standing(), rows), NOW).get("summary", {}) == cells


def test_a_long_message_is_cut_at_a_whole_character():
    above = tuple("é" * 100 for _ in range(100))
    told = message(Facts(standing(), above_parent=above), "WithinParent")
    assert len(told.encode()) <= MAX_MESSAGE
    assert told.endswith("é…")


@pytest.mark.parametrize(("text", "most", "left"), [("abc", 3, "abc"), ("abcd", 3, "…"), ("aéé", 4, "a…")])
def test_what_is_cut_ends_in_an_ellipsis(text: str, most: int, left: str):
    assert cut(text, most) == left
