"""What an HPA says itself of a refusal is believed before any arithmetic."""

from __future__ import annotations

from typing import Any

import pytest

from extauthz.explain import refused
from extauthz.explain.decide import decide, scene_of
from extauthz.explain.objects import Flags, Objects, moment
from extauthz.explain.sentence import changes, sentence
from tests.unit.explain.building import NOW, alike, cpu, deployment, external, hpa, said, status

Tree = Any

BEFORE = "the HPA controller was unable to update the target scale: "
WEBHOOK = 'admission webhook "workspacequotas.extauthz.dev" denied the request: '
OURS = (
    'deployments.apps "web" is forbidden: exceeded workspace quota: acme, requested: pods=12, used: pods=12, limited: '
    "pods=21; largest allowed replicas: 21"
)


def able(message: str, reason: str = "FailedUpdateScale", value: str = "False") -> Tree:
    return {"type": "AbleToScale", "status": value, "reason": reason, "message": message}


def event(reason: str, message: str, at: str = "2026-01-01T00:00:00Z") -> Tree:
    about = {"kind": "HorizontalPodAutoscaler", "name": "web"}
    return {
        "kind": "Event",
        "metadata": {"name": reason, "namespace": "shop"},
        "involvedObject": about,
        "reason": reason,
        "message": message,
        "lastTimestamp": at,
    }


def answered(conditions: list[Tree], *events: Tree, used: str = "200m", replicas: int = 12) -> tuple[str, Any]:
    """The sentence and the answer for an HPA with so much CPU used in each pod; its target is 75 % of 100m."""
    told = status(replicas) | {"currentReplicas": replicas}
    if conditions:
        told["conditions"] = conditions
    autoscaler = hpa(cpu(75), status=told, most=100)
    scene = scene_of(
        Objects([deployment(replicas), *alike(replicas, used), autoscaler, *events]), autoscaler, Flags(), NOW
    )
    answer = refused.believed(scene, decide(scene))
    return sentence(scene, answer, ()), answer


def test_the_condition_wins_over_the_arithmetic_and_our_sentence_is_quoted():
    said, answer = answered([able(BEFORE + WEBHOOK + OURS)])
    assert (answer.outcome, answer.current, answer.certain) == ("refused", 12, True)
    assert said == f"hpa/web stays at 12 replicas: it asks for {answer.desired}, and is refused: {OURS}."


def test_by_envoy_there_is_no_name_of_a_webhook():
    assert answered([able(BEFORE + OURS)])[0].endswith(f"and is refused: {OURS}.")


def test_where_the_metric_has_fallen_since_the_last_look_it_still_says_what_was_refused():
    said, _ = answered([able(BEFORE + WEBHOOK + OURS)], used="75m")
    assert said == f"hpa/web stays at 12 replicas: it asked for more when it last looked, and is refused: {OURS}."


def test_the_controllers_event_tells_for_how_many_it_asked():
    text = f"New size: 24; reason: cpu above target; error: {WEBHOOK}{OURS}"
    said, answer = answered([able(BEFORE + WEBHOOK + OURS)], event("FailedRescale", text), used="75m")
    assert answer.desired == 24
    assert "it asks for 24, and is refused: deployments.apps" in said


@pytest.mark.parametrize(
    "condition",
    [
        able("recommended size matches current size", "ReadyForNewScale", "True"),
        able("unable to get the target's current scale: no", "FailedGetScale"),
        able(BEFORE + 'Operation cannot be fulfilled on deployments.apps "web": the object has been modified'),
    ],
    ids=["taken", "another fault", "conflict"],
)
def test_what_is_no_refusal_changes_nothing(condition: Tree):
    assert answered([condition])[1].outcome == "scales-up"


def test_where_it_goes_down_a_refusal_of_growth_holds_nothing():
    assert answered([able(BEFORE + OURS)], used="10m")[1].outcome == "scales-down"


def test_without_conditions_the_gates_own_event_is_the_last_word():
    soon, long_ago = "2026-01-01T00:00:00Z", "2020-01-01T00:00:00Z"
    exceeded = event("WorkspaceQuotaExceeded", f"{OURS}; see: extauthz explain deployments.apps/web -n shop", soon)
    at_that_time = moment(soon)

    def outcome(*events: Tree, now: float = at_that_time + 60) -> tuple[str, str]:
        autoscaler = hpa(cpu(75), status=status(12), most=100)
        autoscaler["status"].pop("conditions", None)
        scene = scene_of(Objects([deployment(12), *alike(12, "200m"), autoscaler, *events]), autoscaler, Flags(), now)
        answer = refused.believed(scene, decide(scene))
        return answer.outcome, answer.steps[0].text

    assert outcome(exceeded) == ("refused", OURS)
    assert outcome(exceeded, event("WorkspaceQuotaHasRoom", "", "2026-01-01T00:00:30Z"))[0] == "scales-up"
    assert outcome(exceeded | {"lastTimestamp": long_ago})[0] == "scales-up"


IN_KEDA = "(advanced.horizontalPodAutoscalerConfig.behavior.scaleUp of scaledobject/so)"


@pytest.mark.parametrize(
    ("value", "most", "told"),
    [
        ("150", 4, {"max-replicas": "maxReplicaCount of scaledobject/so: 5"}),
        ("150", 9, {"policies": IN_KEDA}),
        (
            "32",
            9,
            {
                "target": "(triggers[1].metadata.threshold of scaledobject/so)",
                "tolerance": IN_KEDA,
                "another-metric": "asks for 5",
            },
        ),
    ],
)
def test_keda_writes_its_hpa_anew_so_its_scaled_object_is_what_to_change(value, most, told):
    behavior = {"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 15}]}}
    autoscaler = hpa(external("s1-prometheus", "30"), behavior=behavior, most=most, status=status(4))
    autoscaler["metadata"] |= {"ownerReferences": [{"kind": "ScaledObject", "name": "so"}]}
    triggers = [{"type": "cron"}, {"type": "prometheus", "metadata": {"query": "q", "threshold": "30"}}]
    owner = {"kind": "ScaledObject", "metadata": {"name": "so", "namespace": "shop"}, "spec": {"triggers": triggers}}
    objects = Objects([deployment(4), *alike(4, "10m"), autoscaler, owner, said("s1-prometheus", value)])
    scene = scene_of(objects, autoscaler, Flags(), NOW)
    found = {one.kind: one.text for one in changes(scene, decide(scene)) if one.kind != "metric"}
    assert found.keys() == told.keys()
    assert all(told[kind] in found[kind] for kind in told), found


@pytest.mark.parametrize(
    ("told", "pods", "expected"),
    [
        pytest.param(status(4), False, ("pods-not-counted", 4), id="it-stayed-with-these-values"),
        pytest.param(status(4, before=2), False, ("scales-up", 8), id="it-had-another-count"),
        pytest.param(status(4, ScalingLimited="TooManyReplicas"), False, ("scales-up", 8), id="a-limit-kept-it"),
        pytest.param(status(4), True, ("scales-up", 8), id="the-values-are-of-a-metrics-server"),
    ],
)
def test_values_with_which_it_stayed_when_it_last_looked_probably_let_it_stay(told, pods, expected):
    """Which pods have metrics is in no status, so arithmetic over all of them would say 8."""
    current = [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 100}}}]
    autoscaler = hpa(cpu(50), status=told | {"currentMetrics": current})
    trees = [one for one in alike(4, "100m") if pods or "containers" not in one]
    scene = scene_of(Objects([deployment(4), *trees, autoscaler]), autoscaler, Flags(), NOW)
    answer = refused.believed(scene, decide(scene))
    assert (answer.outcome, answer.desired) == expected
