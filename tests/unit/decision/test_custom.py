"""Objects of custom resources at the webhook: one that declares a template, and one that its pods price."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extauthz import testing as builders
from extauthz.core.decision.known import MAX_CLAIMS
from extauthz.core.model import Decision, Observed, Operation, Precondition, Verdict, WorkloadRef, Write
from extauthz.core.objects import workloads
from extauthz.core.queries import Queries
from extauthz.testing import Asker, create, gate, owned_by, pod, quota, scale, workload

KNOB = WorkloadRef("example.dev", "widgets", "team-a", "knob")
CORE = workloads.intern(workloads.prune({"template": pod({"cpu": "1"})}))
SEEN = Observed(2, CORE, "app=knob", uid="u", resource_version="7")


@pytest.fixture
def ask() -> Asker:
    made = Asker(builders.gate([quota("acme", {"requests.cpu": "5"})]))
    made.gate.observe_kind("example.dev", "Widget", "widgets")
    made.gate.observe(KNOB, SEEN)
    return made


def decided(ask: Asker, replicas: int, made: Observed | None, operation: Operation = Operation.UPDATE) -> Decision:
    ref, bound = KNOB, Precondition("7", "u")
    if operation is Operation.CREATE:
        ref, bound = KNOB._replace(name="new"), Precondition(uid="new")
    write = Write(ref, operation, False, False, replicas, made, bound)
    return ask.gate.decide(write, "w1", ask.now_s)


@pytest.mark.parametrize("template", [CORE, None], ids=["declared", "priced-by-its-pods"])
def test_an_object_is_weighed_by_its_template_or_by_what_its_pods_cost(ask, template):
    def of(replicas: int) -> Observed:
        return Observed(replicas, template, "app=knob,more=1")

    refused = decided(ask, 8, of(8))
    assert (refused.verdict, refused.reason, refused.evidence.fits) == (Verdict.DENY, "exceeded-quota", 5)
    assert decided(ask, 5, of(5)).reason == "fits"
    assert ask.gate.ledger.drift() == {}
    ask.gate.observe(KNOB, replace(SEEN, replicas=5, resource_version="8"))
    assert ask.gate.ledger.pending_writes == 0


@pytest.mark.parametrize(("replicas", "reason"), [(1, "unknown-footprint"), (0, "no-growth")])
def test_of_a_new_one_without_a_template_nobody_knows_what_its_pods_will_cost(ask, replicas, reason):
    assert decided(ask, replicas, Observed(replicas, None), Operation.CREATE).reason == reason


@pytest.mark.parametrize(("replicas", "verdict"), [(3, Verdict.ALLOW), (4, Verdict.DENY)])
def test_a_new_one_costs_what_its_template_does(ask, replicas, verdict):
    assert decided(ask, replicas, Observed(replicas, CORE), Operation.CREATE).verdict is verdict


@pytest.mark.parametrize(("replicas", "verdict"), [(3, Verdict.ALLOW), (4, Verdict.DENY)])
def test_a_deployment_that_names_one_as_its_owner_needs_room_beside_it(ask, replicas, verdict):
    """Whoever may write Deployments may write that: it is of no kind that is known to make them."""
    owner = [{**owned_by("knob", "u", kind="Widget")[0], "apiVersion": "example.dev/v1"}]
    ask.gate.observe(KNOB, replace(SEEN, selector="app=knob", resource_version="8"))
    assert ask(create(workload("web", replicas, labels={"app": "knob"}, ownerReferences=owner))).verdict is verdict


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
