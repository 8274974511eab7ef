"""A quota that binds some: others are not refused by it, and what they write counts all the same."""

from __future__ import annotations

import pytest

from extauthz.core.decision.policy import Policy
from extauthz.core.model import Requester, Unreadable, Verdict, WorkloadRef
from extauthz.core.queries import Queries
from extauthz.testing.builders import Asker, gate, patch, path, quota, scale, workload

HPA = Requester("system:serviceaccount:kube-system:horizontal-pod-autoscaler", ("system:serviceaccounts",))
ADMIN = Requester("kubernetes-admin", ("system:masters",))
ONLY_AUTOSCALERS = {"include": {"groups": ["system:serviceaccounts"]}}


def asking(*quotas, **kwargs) -> Asker:
    acme = quota("acme", {"requests.cpu": "4"}, requesters=ONLY_AUTOSCALERS)
    return Asker(gate(quotas or [acme], workload("web", 3), **kwargs))


def used_and_reserved(ask: Asker, name: str = "acme") -> tuple[int, int]:
    use = Queries(ask.gate.ledger).quota(name)
    assert use is not None
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


def test_a_question_of_an_unbound_one_charges_nothing():
    ask = asking()
    assert ask(scale("web", 9), by=ADMIN, charge=False).verdict is Verdict.ALLOW
    assert used_and_reserved(ask) == (3, 0)


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


def test_what_is_not_known_refuses_nothing_of_an_unbound_one():
    ask = asking()
    ask.gate.stale("the watch is stalled")
    assert ask(scale("web", 4), by=HPA).reason == "stale"
    assert ask(scale("web", 4), by=ADMIN).verdict is Verdict.ALLOW
    assert ask(scale("nobody", 4), by=HPA).reason == "unknown-workload"
    assert ask(scale("nobody", 4), by=ADMIN).verdict is Verdict.ALLOW


def test_what_cannot_be_read_neither():
    ask = asking()
    broken = Unreadable("json-syntax", "broken", WorkloadRef("apps", "deployments", "team-a", "web"))
    for by, verdict in ((HPA, Verdict.UNAVAILABLE), (ADMIN, Verdict.ALLOW)):
        assert ask.gate.decide(broken, "d", 0.0, requester=by).verdict is verdict


def test_what_its_pods_do_not_state_neither():
    ask = Asker(gate([quota("acme", {"requests.cpu": "4"}, requesters=ONLY_AUTOSCALERS)], workload("web", 1, {})))
    assert ask(scale("web", 2), by=HPA).reason == "must-specify"
    assert ask(scale("web", 2), by=ADMIN).verdict is Verdict.ALLOW


def test_a_patch_that_cannot_be_applied_neither():
    ask = asking()
    odd = patch(path("web"), {"spec": {"replicas": "many"}})
    assert ask(odd, by=HPA).verdict is Verdict.UNAVAILABLE
    assert ask(odd, by=ADMIN).verdict is Verdict.ALLOW


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
