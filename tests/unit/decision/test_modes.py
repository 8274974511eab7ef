"""A gate that only audits, and quotas that have a say in what is done where something is not known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extauthz.core.decision.gate import Gate
from extauthz.core.decision.policy import Policy
from extauthz.core.model import Growth, Request, Requester, Unknown, Verdict
from extauthz.core.policies import Enlisted, GrowthPolicy, Policies
from extauthz.core.queries import Queries
from extauthz.core.quota.overrides import Override
from extauthz.core.quota.tree import QuotaTree
from extauthz.testing import Asker, create, gate, patch, path, quota, scale, workload

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
    assert allowed.sentence == f"allowed, as the gate only audits; Enforce would say: {enforced.sentence}"
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


@pytest.mark.parametrize("what", Unknown)
def test_a_quota_may_let_pass_what_the_setting_refuses_and_the_reverse(what: Unknown):
    lenient = Policy(window_s=90.0, allows={what})
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


NEW = create(workload("new", 1, namespace="new"))
FULL: Any = Policy(window_s=90.0, max_intents=0)
WHATEVER = {
    "namespace": ("unknown-namespace", lambda ask: None, NEW, None),
    "namespace-and-hold": ("unknown-namespace", lambda ask: ask.gate.hold(90.0), NEW, None),
    "state": ("unsynced", lambda ask: ask.gate.state_synced(False), scale("web", 4), None),
    "workload": ("unknown-workload", lambda ask: None, scale("nobody", 4), None),
    "full": ("too-many-intents", lambda ask: None, scale("web", 4), FULL),
    "unreadable": ("json-syntax", lambda ask: None, BROKEN, None),
}


@pytest.mark.parametrize(("reason", "trouble", "request_", "policy"), WHATEVER.values(), ids=WHATEVER)
def test_where_all_quotas_audit_nothing_is_refused_whatever_is_not_known(reason, trouble, request_, policy):
    def said(mode: str):
        ask = asked(quota("acme", CPU, mode=mode), policy=policy)
        trouble(ask)
        return ask(request_)

    refused, allowed = said("Enforce"), said("Audit")
    assert (refused.verdict, refused.reason) == (Verdict.UNAVAILABLE, reason)
    assert (allowed.verdict, allowed.would, allowed.reason) == (Verdict.ALLOW, Verdict.UNAVAILABLE, reason)
    assert allowed.sentence == f"allowed, as quotas there only audit; Enforce would say: {refused.sentence}"
    assert allowed.pending_write is None


def test_a_quota_that_refuses_elsewhere_changes_nothing_where_quotas_audit():
    elsewhere = quota("other", CPU, namespaces={"workspace": "other"})
    ask = asked(quota("acme", CPU, mode="Audit"), elsewhere, policy=FULL)
    assert ask(scale("web", 4)).would is Verdict.UNAVAILABLE
    assert ask(NEW).verdict is Verdict.UNAVAILABLE, "the other one may cover it"


def test_one_that_audits_below_one_that_refuses_excuses_nothing():
    top = quota("top", CPU, namespaces={"none": "such"})
    ask = asked(top, quota("acme", CPU, parent="top", namespaces={"workspace": "acme"}, mode="Audit"), policy=FULL)
    assert ask(scale("web", 4)).verdict is Verdict.UNAVAILABLE


def test_an_illegible_quota_that_audits_does_not_make_another_one_refuse():
    illegible = replace(quota("acme", {}, mode="Audit"), illegible=True)
    assert (
        asked(illegible, quota("all", {"requests.cpu": "9"}, namespaces={}))(scale("web", 4)).verdict is Verdict.ALLOW
    )


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
    ask = asked(
        quota("acme", {"requests.cpu": "9"}), policy=Policy(window_s=90.0, allows={Unknown.STALE}), objects=OBJECTS
    )
    ask.gate.stale("silent")
    refused = ask(scale("odd", 4))
    assert (refused.verdict, refused.reason) == (Verdict.UNAVAILABLE, "unknown-footprint")


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


# A quota that binds some: others are not refused by it, and what they write counts all the same.


HPA = Requester("system:serviceaccount:kube-system:horizontal-pod-autoscaler", ("system:serviceaccounts",))
ADMIN = Requester("kubernetes-admin", ("system:masters",))
ONLY_AUTOSCALERS = {"include": {"groups": ["system:serviceaccounts"]}}


def asking(*quotas, objects=()) -> Asker:
    acme = quota("acme", {"requests.cpu": "4"}, requesters=ONLY_AUTOSCALERS)
    return Asker(gate(quotas or [acme], workload("web", 3), *objects))


def used_and_reserved(ask: Asker, name: str = "acme") -> tuple[int, int]:
    use = Queries(ask.gate.ledger).quota(name)
    (row,) = use.rows
    return row.used // 10**9, row.reserved // 10**9


@pytest.mark.parametrize(("by", "verdict"), [(HPA, Verdict.DENY), (ADMIN, Verdict.ALLOW), (None, Verdict.DENY)])
def test_who_is_bound_is_refused_and_so_is_who_is_not_known(by: Requester | None, verdict: Verdict):
    assert asking()(scale("web", 9), by=by).verdict is verdict


def test_what_passes_is_charged_and_followed_and_acts_like_a_cut():
    ask = asking()
    decision = ask(scale("web", 9), by=ADMIN)
    assert (decision.reason, decision.pending_write, decision.evidence.grows) == ("not-bound", decision.id, True)
    assert decision.sentence == "fits every quota that binds who asks; acme does not"
    assert (decision.evidence.shortages, decision.evidence.audit, decision.would) == ((), (), None), (
        "and is told as no refusal"
    )
    assert used_and_reserved(ask) == (3, 6)
    assert ask(scale("web", 4), by=HPA).verdict is Verdict.DENY, "for who is bound there is no room"
    assert ask(scale("web", 2), by=HPA).verdict is Verdict.ALLOW


def test_what_fits_is_granted_as_always():
    decision = asking()(scale("web", 4), by=ADMIN)
    assert (decision.reason, decision.sentence) == ("fits", "fits every quota")


@pytest.mark.parametrize(("charges_surge", "fits"), [(False, 6), (True, 5)], ids=["reckoned", "by-bisection"])
def test_other_quotas_refuse_as_always_and_say_what_fits_them(charges_surge: bool, fits: int):
    corp = quota("corp", {"requests.cpu": "6"}, namespaces={})
    acme = quota("acme", {"requests.cpu": "3"}, parent="corp", requesters=ONLY_AUTOSCALERS)
    ask = asking(corp, acme)
    ask.gate.ledger.pod_costs.charge_surge = charges_surge
    decision = ask(scale("web", 9), by=ADMIN)
    assert decision.verdict is Verdict.DENY
    assert ([row.quota for row in decision.evidence.shortages], decision.evidence.fits) == (["corp"], fits)
    assert "acme" not in decision.sentence
    for replicas, verdict in ((fits, Verdict.ALLOW), (fits + 1, Verdict.DENY)):
        assert ask(scale("web", replicas), by=ADMIN, charge=False).verdict is verdict
        assert ask(scale("web", replicas), by=HPA, charge=False).verdict is Verdict.DENY


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (scale("web", 4), "stale"),
        (scale("nobody", 4), "unknown-workload"),
        (scale("mute", 2), "must-specify"),
        (BROKEN, "json-syntax"),
        (patch(path("web"), {"spec": {"replicas": "many"}}), "replicas-not-an-integer"),
    ],
    ids=["out of date", "never seen", "its pods do not state it", "no JSON", "no count"],
)
def test_what_is_not_known_refuses_nothing_of_an_unbound_one(request_: Request, reason: str):
    ask = asking(objects=[workload("mute", 1, {})])
    if reason == "stale":
        ask.gate.stale("the watch is stalled")
    refused = ask(request_, by=HPA)
    assert (refused.verdict is not Verdict.ALLOW, refused.reason) == (True, reason)
    assert ask(request_, by=ADMIN).verdict is Verdict.ALLOW


def test_mode_audit_of_the_gate_says_what_would_be_by_who_asks():
    ask = asking()
    ask.gate.policy = Policy(mode="audit")
    assert ask(scale("web", 9), by=HPA).would is Verdict.DENY
    assert ask(scale("web", 9), by=ADMIN).would is None


TEN = [quota("acme", {"requests.cpu": "10"})]


@pytest.mark.parametrize(("now_s", "left"), [(9.5, "about 1 s"), (10.0, "a little longer"), (11.0, "a little longer")])
def test_a_hold_says_how_long_it_still_lasts_and_does_not_end_by_the_clock(now_s: float, left: str):
    ask = Asker(gate(TEN, workload("web", 1)))
    ask.gate.hold(10.0)
    ask.now_s = now_s
    refused = ask(scale("web", 2))
    assert (refused.verdict, refused.reason) == (Verdict.UNAVAILABLE, "hold")
    assert f"grants no growth for {left}:" in refused.sentence


# Overrides in force: a gate takes other amounts when their time has come, without being told of any change.


NANO = 10**9
LAUNCH = Override("launch", 1000.0, 2000.0, {"pods": 6 * NANO}, {})


def asker(hard: str = "4") -> Asker:
    ask = Asker(gate([], workload("web", 1)))
    ask.gate.load_quotas(QuotaTree.build([replace(quota("acme", {"pods": hard}), overrides=(LAUNCH,))]), 0.0)
    return ask


def largest(ask: Asker, now_s: float) -> int | None:
    ask.now_s = now_s
    said = ask(scale("web", 99), charge=False)
    assert said.verdict is Verdict.DENY
    return said.evidence.fits


def test_a_decision_is_made_by_the_amounts_of_its_moment():
    ask = asker()
    assert [largest(ask, at_s) for at_s in (10.0, 1004.0, 1005.0, 1994.0, 1996.0, 2100.0)] == [4, 4, 6, 6, 4, 4]


def test_a_clock_that_goes_back_takes_them_back():
    ask = asker()
    assert (largest(ask, 1500.0), largest(ask, 900.0)) == (6, 4)


def test_what_was_granted_stays_when_the_override_ends_and_nothing_is_counted_anew():
    ask = asker()
    ask.now_s = 1500.0
    assert ask(scale("web", 6)).verdict is Verdict.ALLOW
    ask.now_s = 1999.0
    assert ask(scale("web", 7)).verdict is Verdict.DENY
    assert ask.gate.ledger.drift() == {}
    (row,) = ask.gate.usage()
    assert (row.used // NANO, row.reserved // NANO, row.hard // NANO) == (1, 5, 4)


FAR = "its clock is at least 6.0 s ahead of the API server's"


def with_clock_off(*quotas: Any, allows: frozenset[Unknown] = frozenset()) -> Asker:
    ask = Asker(gate([], workload("web", 1), policy=Policy(window_s=90.0, allows=allows)))
    ask.gate.load_quotas(QuotaTree.build(quotas), 0.0)
    ask.gate.clock_why = FAR
    return ask


def test_while_the_clock_is_too_far_off_growth_under_overrides_is_unknown():
    timed = replace(quota("acme", {"pods": "4"}), overrides=(LAUNCH,))
    ask = with_clock_off(timed)
    said = ask(scale("web", 2))
    assert (said.verdict, said.reason) == (Verdict.UNAVAILABLE, "stale")
    assert said.sentence.endswith(f"cannot tell which amounts hold now: {FAR}")
    assert ask(scale("web", 1)).verdict is Verdict.ALLOW, "no growth"
    assert ask(scale("web", 0)).verdict is Verdict.ALLOW
    allowed = with_clock_off(timed, allows=frozenset({Unknown.STALE}))(scale("web", 2))
    assert (allowed.verdict, allowed.reason) == (Verdict.ALLOW, "stale")
    assert with_clock_off(timed, allows=frozenset({Unknown.STALE}))(scale("web", 5)).verdict is Verdict.DENY
    own = replace(timed, on_unknown={Unknown.STALE: "allow"})
    assert with_clock_off(own)(scale("web", 2)).verdict is Verdict.ALLOW
    plain = quota("plain", {"requests.cpu": "9"}, namespaces={"workspace": "acme"})
    both = with_clock_off(own, plain)(scale("web", 2))
    assert both.verdict is Verdict.ALLOW, "what the others say about it is no matter"
    ask.gate.clock_why = None
    assert ask(scale("web", 2)).reason == "fits"


def test_quotas_whose_amounts_do_not_change_with_the_time_go_on():
    ask = with_clock_off(quota("acme", {"pods": "4"}), replace(quota("other", {"pods": "4"}), overrides=(LAUNCH,)))
    assert ask(scale("web", 2)).reason == "fits"


def test_what_is_kept_for_a_sibling_changes_with_the_time_of_its_override():
    """However deep it is."""
    root = quota("root", {"pods": "9"}, namespaces={"workspace": "nobody"})
    acme = quota("acme", {"pods": "9"}, parent="root")
    middle = replace(quota("middle", {"pods": "9"}, parent="root"), overrides=(LAUNCH,))
    low = replace(quota("low", {"pods": "9"}, parent="middle"), overrides=(LAUNCH._replace(guaranteed={"pods": NANO}),))
    plain = quota("low", {"pods": "9"}, parent="middle")
    assert with_clock_off(root, acme, middle, low)(scale("web", 2)).reason == "stale"
    assert with_clock_off(root, acme, middle, plain)(scale("web", 2)).reason == "fits"


def test_housekeeping_shows_them_where_nobody_asks():
    ask = asker()
    ask.gate.turn(1500.0)
    assert [row.hard // NANO for row in ask.gate.usage()] == [6]
    tree = ask.gate.ledger.coverage.tree
    ask.gate.turn(1501.0)
    assert ask.gate.ledger.coverage.tree is tree, "nothing has changed"
