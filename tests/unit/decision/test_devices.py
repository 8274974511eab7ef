"""Pods that claim devices (DRA): what is not known of them is not zero (design.md rule 6)."""

from __future__ import annotations

from typing import Any

import pytest

from extauthz.core.decision.unknowns import MAX_CLAIMS
from extauthz.core.model import Decision, Verdict
from extauthz.core.queries import Queries
from extauthz.testing.builders import Asker, create, gate, owned_by, quota, scale, workload

GPUS = {"requests.nvidia.com/gpu": "14"}
CPU = {"requests.cpu": "99"}
WHY = "does not know what devices its pods take"


def claiming(name: str = "train", replicas: int = 1, *claims: str, **more: Any) -> dict[str, Any]:
    """A Deployment each of whose pods has these claims, each made from the template of its name."""
    obj = workload(name, replicas, **more)
    listed = [{"name": one, "resourceClaimTemplateName": f"{one}-template"} for one in claims or ("gpu",)]
    obj["spec"]["template"]["spec"]["resourceClaims"] = listed
    return obj


def asker(*objects: dict[str, Any], hard: dict[str, str] | None = None, **said: Any) -> Asker:
    return Asker(gate([quota("acme", hard or GPUS | CPU, **said)], *objects))


def unknown(decision: Decision) -> str:
    """What the owner is told is not known."""
    assert (decision.verdict, decision.reason) == (Verdict.UNAVAILABLE, "unknown-footprint"), decision.sentence
    return decision.sentence.partition("the quota gate ")[2]


def test_more_pods_that_claim_devices_are_no_growth_of_nothing_where_devices_are_limited():
    ask = asker(claiming())
    assert unknown(ask(scale("train", 40))) == f'{WHY}: ResourceClaimTemplate "gpu-template"'
    assert ask(scale("train", 0)).verdict is Verdict.ALLOW


def test_a_new_workload_too_and_its_claims_are_named_the_first_few():
    names = [f"c{at}" for at in range(MAX_CLAIMS + 2)]
    why = unknown(asker()(create(claiming("new", 2, *names))))
    named = ", ".join(f'"{one}-template"' for one in names[:MAX_CLAIMS])
    assert why == f"{WHY}: ResourceClaimTemplate {named}"


def test_pods_of_an_old_template_too_which_no_name_is_told_of():
    old = claiming("web-1", 1, kind="ReplicaSet", ownerReferences=owned_by("web"), labels={"app": "web"})
    assert unknown(asker(workload("web", 2), old)(scale("web", 5))) == WHY


def test_where_no_devices_are_limited_they_bear_on_nothing():
    ask = asker(claiming(), hard=CPU)
    assert ask(scale("train", 40)).reason == "fits"


def test_a_quota_may_let_them_pass_until_they_are_known():
    ask = asker(claiming(), on_unknown={"unknownFootprint": "Allow"})
    decision = ask(scale("train", 40))
    assert (decision.verdict, decision.reason) == (Verdict.ALLOW, "unknown-footprint")


def with_gpus(name: str, replicas: int = 1) -> dict[str, Any]:
    return workload(name, replicas, {"cpu": "1", "nvidia.com/gpu": "1"})


def test_what_is_in_use_of_devices_is_not_known_either_and_of_the_rest_it_is():
    ask = asker(claiming(), with_gpus("old"), workload("web"))
    refused = ask(scale("old", 2))
    assert (refused.verdict, refused.reason) == (Verdict.UNAVAILABLE, "unknown-usage")
    assert ask(scale("web", 9)).reason == "fits"
    (use,) = Queries(ask.gate.ledger).quotas()
    assert use.unpriced == 1


def test_it_is_known_again_once_they_are_gone():
    ask = asker(claiming(), with_gpus("old"))
    assert ask(scale("train", 0)).verdict is Verdict.ALLOW
    ref = ask.gate.ledger.workloads
    entry = next(one for one in ref if one.ref.name == "train")
    ask.gate.observe(entry.ref, None)
    assert ask(scale("old", 2)).reason == "fits"
    assert not ask.gate.ledger.drift()


@pytest.mark.parametrize(("of_child", "fits"), [("4", 10), ("2", 12)])
def test_above_a_quota_that_bounds_them_they_count_up_to_its_limit(of_child: str, fits: int):
    corp = quota("corp", {"requests.nvidia.com/gpu": "14"}, namespaces={"workspace": "corp"})
    team = quota("acme", {"requests.nvidia.com/gpu": of_child} | CPU, parent="corp")
    namespaces = {"team-a": {"workspace": "acme"}, "own": {"workspace": "corp"}}
    other = with_gpus("other") | {}
    other["metadata"]["namespace"] = "own"
    ask = Asker(gate([corp, team], claiming(), other, namespaces=namespaces))
    assert ask(scale("other", fits, namespace="own")).reason == "fits"
    assert ask(scale("other", fits + 1, namespace="own")).reason == "exceeded-quota"


def test_of_other_keys_nothing_is_set_aside_for_them():
    corp = quota("corp", CPU | GPUS, namespaces={"workspace": "corp"})
    team = quota("acme", {"requests.nvidia.com/gpu": "2", "requests.cpu": "50"}, parent="corp")
    namespaces = {"team-a": {"workspace": "acme"}, "own": {"workspace": "corp"}}
    other = workload("other", 1, namespace="own")
    ask = Asker(gate([corp, team], claiming(), other, namespaces=namespaces))
    assert ask(scale("other", 98, namespace="own")).reason == "fits"
