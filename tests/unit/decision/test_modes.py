"""A gate that only audits, and quotas that have a say in what is done where something is not known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extauthz.core.decision.gate import Gate
from extauthz.core.decision.policy import Policy
from extauthz.core.model import Growth, Request, Unknown, Verdict
from extauthz.core.policies import Enlisted, GrowthPolicy, Policies
from extauthz.core.quota.tree import QuotaTree
from extauthz.testing.builders import Asker, create, gate, path, quota, scale, workload

AUDIT = Policy(window_s=90.0, mode="audit", max_intents_per_workload=1)
CPU = {"requests.cpu": "4"}
BROKEN = Request("PATCH", path("web"), {"content-type": "application/merge-patch+json"}, b'{"spec":')
ODD = workload("odd", 3, {"cpu": "one"})


def auditing() -> Asker:
    return Asker(gate([quota("acme", CPU)], workload("web", 3), policy=AUDIT))


# Audit, the whole gate.


@pytest.mark.parametrize(
    ("request_", "would", "reason"),
    [
        pytest.param(scale("web", 5), Verdict.DENY, "exceeded-quota", id="over-quota"),
        pytest.param(scale("nobody", 5), Verdict.UNAVAILABLE, "unknown-workload", id="unknown-workload"),
        pytest.param(BROKEN, Verdict.UNAVAILABLE, "body-syntax", id="unreadable"),
        pytest.param(
            create(workload("new", 1, namespace="new")), Verdict.UNAVAILABLE, "unknown-namespace", id="namespace"
        ),
    ],
)
def test_a_gate_that_only_audits_allows_all_and_says_what_the_answer_would_have_been(request_, would, reason):
    enforced = Asker(gate([quota("acme", CPU)], workload("web", 3)))(request_)
    allowed = auditing()(request_)
    assert (enforced.verdict, enforced.would) == (would, None)
    assert (allowed.verdict, allowed.would, allowed.pending_write) == (Verdict.ALLOW, would, None)
    assert (allowed.reason, allowed.evidence.shortages, allowed.evidence.fits) == (
        enforced.reason,
        enforced.evidence.shortages,
        enforced.evidence.fits,
    )
    assert allowed.sentence == f"allowed, as the gate only audits; else: {enforced.sentence}"
    assert reason in (allowed.reason, "body-syntax")


def test_a_gate_that_only_audits_charges_what_is_observed_and_follows_nothing():
    ask = auditing()
    for _ in range(3):
        allowed = ask(scale("web", 4))
        assert (allowed.verdict, allowed.would, allowed.pending_write) == (Verdict.ALLOW, None, None)
        assert allowed.sentence == "fits every quota; mode audit, charged as observed"
    (row,) = ask.gate.usage()
    assert (row.used, row.reserved, ask.gate.ledger.pending_writes) == (3 * 10**9, 0, 0)


@pytest.mark.parametrize("trouble", ["hold", "stale"])
def test_a_gate_that_only_audits_is_not_held_up_by_a_hold_or_a_stalled_source(trouble):
    ask = auditing()
    {"hold": lambda: ask.gate.hold(90.0), "stale": lambda: ask.gate.stale("silent")}[trouble]()
    allowed = ask(scale("web", 4))
    assert (allowed.verdict, allowed.would, allowed.reason) == (Verdict.ALLOW, Verdict.UNAVAILABLE, trouble)


# Quotas that have a say.


def asked(*quotas, policy: Policy | None = None, objects=()) -> Asker:
    return Asker(gate(quotas, *(objects or OBJECTS[:1]), policy=policy or Policy(window_s=90.0)))


class Fails(GrowthPolicy):
    def filter(self, growth: Growth) -> None:
        raise RuntimeError("gone")


def fails(ask: Asker) -> None:
    ask.gate.enlist(Policies([Enlisted("p", Fails())]))


def unsynced(ask: Asker) -> None:
    ask.gate.state_synced(False)


TROUBLES = {
    Unknown.STALE: ("stale", lambda ask: ask.gate.stale("silent"), scale("web", 4)),
    Unknown.UNSYNCED: ("hold", lambda ask: ask.gate.hold(90.0), scale("web", 4)),
    Unknown.UNREADABLE: (None, lambda ask: None, BROKEN),
    Unknown.WORKLOAD: ("unknown-workload", lambda ask: None, scale("nobody", 4)),
    Unknown.FOOTPRINT: ("unknown-footprint", lambda ask: None, scale("odd", 4)),
    Unknown.UNSPECIFIED: ("must-specify", lambda ask: None, scale("mute", 4)),
    Unknown.POLICY: (
        "policy-unknown",
        lambda ask: ask.gate.enlist(Policies([Enlisted("p", Fails())])),
        scale("web", 4),
    ),
}
OBJECTS = (workload("web", 3), ODD)
PRESENT = {Unknown.FOOTPRINT: OBJECTS, Unknown.UNSPECIFIED: (workload("mute", 3, {}),)}
REFUSED = dict.fromkeys(Unknown, Verdict.UNAVAILABLE) | {Unknown.UNSPECIFIED: Verdict.DENY}
"""What nobody can know is no denial; what the owner can say is one."""


def troubled(what: Unknown, *quotas, policy: Policy | None = None):
    reason, trouble, request = TROUBLES[what]
    ask = asked(*quotas, policy=policy, objects=PRESENT.get(what, OBJECTS[:1]))
    trouble(ask)
    decision = ask(request)
    assert decision.verdict is Verdict.ALLOW or reason in (None, decision.reason)
    return decision.verdict


SETTINGS = {
    Unknown.STALE: "on_stale",
    Unknown.UNSYNCED: "on_unsynced",
    Unknown.UNREADABLE: "on_unreadable",
    Unknown.WORKLOAD: "on_unknown_workload",
    Unknown.FOOTPRINT: "on_unknown_footprint",
    Unknown.UNSPECIFIED: "on_unspecified",
    Unknown.POLICY: "on_unknown_policy",
}


@pytest.mark.parametrize("what", Unknown)
def test_a_quota_may_let_pass_what_the_setting_refuses_and_the_reverse(what: Unknown):
    lenient = Policy(window_s=90.0, **{SETTINGS[what]: "allow"})
    others = {other: "Deny" for other in Unknown if other is not what}
    room = {"requests.cpu": "9"}
    assert troubled(what, quota("acme", room)) is REFUSED[what]
    assert troubled(what, quota("acme", room), policy=lenient) is Verdict.ALLOW
    assert troubled(what, quota("acme", room, on_unknown={what: "Allow"} | others)) is Verdict.ALLOW
    assert troubled(what, quota("acme", room, on_unknown={what: "Deny"}), policy=lenient) is REFUSED[what]


@pytest.mark.parametrize("what", Unknown)
def test_what_concerns_a_quota_and_its_parent_passes_only_if_both_let_it(what: Unknown):
    def family(parent: str | None, child: str | None):
        def said(by: str | None):
            return None if by is None else {what: by}

        room = {"requests.cpu": "9"}
        return (
            quota("top", room, namespaces={"none": "such"}, on_unknown=said(parent)),
            quota("acme", room, parent="top", namespaces={"workspace": "acme"}, on_unknown=said(child)),
        )

    assert troubled(what, *family("Allow", None)) is Verdict.ALLOW, "the child says nothing, and so says the same"
    assert troubled(what, *family("Allow", "Deny")) is REFUSED[what]
    assert troubled(what, *family("Deny", "Allow")) is REFUSED[what]
    assert troubled(what, *family(None, "Allow")) is REFUSED[what], "the setting speaks for the parent"


@pytest.mark.parametrize("what", Unknown)
def test_a_quota_that_only_audits_refuses_nothing_for_want_of_knowledge(what: Unknown):
    assert troubled(what, quota("acme", {"requests.cpu": "9"}, mode="Audit")) is Verdict.ALLOW


def test_a_quota_of_which_nothing_grows_has_no_say_in_it():
    disk = quota("disk", {"requests.ephemeral-storage": "1Gi"}, namespaces={}, on_unknown={"stale": "Deny"})
    ask = asked(quota("acme", CPU, on_unknown={"stale": "Allow"}), disk)
    ask.gate.stale("silent")
    assert ask(scale("web", 4)).verdict is Verdict.ALLOW


def test_what_passes_for_want_of_knowledge_is_weighed_all_the_same():
    ask = asked(quota("acme", CPU, on_unknown={"stale": "Allow"}))
    ask.gate.stale("silent")
    assert ask(scale("web", 5)).verdict is Verdict.DENY


def test_one_doubt_that_may_pass_does_not_hide_another_that_may_not():
    ask = asked(quota("acme", {"requests.cpu": "9"}), policy=Policy(window_s=90.0, on_stale="allow"), objects=OBJECTS)
    ask.gate.stale("silent")
    refused = ask(scale("odd", 4))
    assert (refused.verdict, refused.reason) == (Verdict.UNAVAILABLE, "unknown-footprint")


def test_an_illegible_quota_is_asked_for_itself_as_far_as_its_field_can_be_read():
    illegible = replace(quota("acme", {}, on_unknown={"stale": "Allow"}), illegible=True)
    assert asked(illegible)(scale("web", 4)).verdict is Verdict.ALLOW


def test_of_an_unknown_namespace_the_settings_speak():
    ask = asked(quota("acme", CPU, on_unknown={"unknownWorkload": "Allow"}))
    assert ask(create(workload("new", 1, namespace="new"))).verdict is Verdict.UNAVAILABLE


def test_before_the_cluster_is_known_quotas_have_a_say_once_the_namespace_is():
    made = Gate(Policy())
    made.load_quotas(QuotaTree.build([quota("acme", CPU, on_unknown={"unsynced": "Allow"})]), 0.0)
    ask = Asker(made)
    assert ask(scale("web", 2)).verdict is Verdict.UNAVAILABLE
    made.observe_namespace("team-a", {"workspace": "acme"})
    assert (ask(scale("web", 2)).verdict, ask(scale("web", 2)).reason) == (Verdict.ALLOW, "unsynced")
