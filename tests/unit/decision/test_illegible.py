"""A quota whose limits nobody can read: what it covers cannot grow, and all else goes on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extauthz.core.decision.policy import Policy
from extauthz.core.model import Verdict
from extauthz.testing.builders import Asker, gate, quota, scale, workload

ILLEGIBLE = replace(quota("acme", {}), illegible=True)
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


@pytest.mark.parametrize("replicas", [0, 2, 3])
def test_what_does_not_grow_passes(replicas):
    assert asked(ILLEGIBLE)(scale("web", replicas)).verdict is Verdict.ALLOW


def test_others_are_not_concerned():
    assert asked(ILLEGIBLE)(scale("web", 4, namespace="team-b")).verdict is Verdict.ALLOW


def test_growth_may_pass_where_that_is_the_policy_and_is_weighed_by_what_can_be_read():
    asking = asked(ILLEGIBLE, BELOW, policy=Policy(window_s=90.0, on_stale="allow"))
    allowed, denied = asking(scale("web", 9)), asking(scale("web", 10))
    assert (allowed.verdict, allowed.reason) == (Verdict.ALLOW, "illegible-quota")
    assert (denied.verdict, denied.reason) == (Verdict.DENY, "exceeded-quota")


def test_one_that_only_audits_refuses_nothing():
    audit = replace(quota("acme", {}, mode="Audit"), illegible=True)
    assert asked(audit)(scale("web", 4)).verdict is Verdict.ALLOW


@pytest.mark.parametrize(("its", "others"), [("Allow", "Deny"), ("Deny", "Allow")])
def test_the_one_that_cannot_be_read_says_what_is_done_about_it(its, others):
    below = quota("below", {"pods": "9"}, parent="acme", namespaces={"workspace": "acme"}, on_unknown={"stale": others})
    acme = replace(quota("acme", {}, on_unknown={"stale": its}), illegible=True)
    decision = asked(acme, below)(scale("web", 4))
    assert decision.reason == "illegible-quota"
    assert decision.verdict is (Verdict.ALLOW if its == "Allow" else Verdict.UNAVAILABLE)
