"""What KEDA does itself with a ScaledObject. (A real operator: tests/e2e/test_keda.py.)"""

from __future__ import annotations

from typing import Any

import pytest

from extauthz.explain import keda
from extauthz.explain.objects import ExplainError, Objects
from tests.unit.explain.building import NOW, deployment, text

Tree = Any

NOTE = "autoscaling.keda.sh/"


def scaled_object(
    active: str = "True", ready: Tree = None, status: Tree = None, notes: Tree = None, **spec: Any
) -> Tree:
    annotations = {NOTE + name: value for name, value in (notes or {}).items()}
    conditions = [{"type": "Active", "status": active}, {"type": "Ready", "status": "True"} | (ready or {})]
    return {
        "kind": "ScaledObject",
        "metadata": {
            "name": "web",
            "namespace": "shop",
            "annotations": annotations,
            "creationTimestamp": text(NOW - 1000),
        },
        "spec": {"scaleTargetRef": {"name": "web"}, **spec},
        "status": {"conditions": conditions, **(status or {})},
    }


def decided(tree: Tree, replicas: int) -> keda.Answer:
    return keda.decide(keda.of(Objects([deployment(replicas)]), tree, NOW))


LONG_AGO, JUST_NOW = {"lastActiveTime": text(NOW - 301)}, {"lastActiveTime": text(NOW - 299)}


@pytest.mark.parametrize(
    ("tree", "replicas", "expected"),
    [
        (scaled_object(notes={"paused": "true"}), 3, (3, "paused", True)),
        (scaled_object(notes={"paused": ""}), 3, (3, "paused", True)),
        (scaled_object(notes={"paused": "false"}), 3, (3, "", False)),
        (scaled_object(notes={"paused-replicas": "5"}), 3, (5, "paused", True)),
        (scaled_object(notes={"paused-replicas": "some"}), 3, (3, "paused", True)),
        (scaled_object(), 3, (3, "", False)),
        (scaled_object(), 0, (1, "scales-up", False)),
        (scaled_object(minReplicaCount=4), 0, (4, "scales-up", False)),
        (scaled_object(minReplicaCount=4, idleReplicaCount=1), 1, (4, "scales-up", False)),
        (scaled_object(minReplicaCount=4, idleReplicaCount=1), 4, (4, "", False)),
        (scaled_object(notes={"paused-scale-out": "1"}), 0, (0, "paused", False)),
        (scaled_object("False", notes={"force-activation": "true"}), 0, (1, "scales-up", True)),
        (scaled_object("False"), 0, (0, "idle", False)),
        (scaled_object("False"), 3, (0, "scales-down", False)),
        (scaled_object("False", status=LONG_AGO), 3, (0, "scales-down", False)),
        (scaled_object("False", status=JUST_NOW), 3, (3, "cooldown", False)),
        (scaled_object("False", status=LONG_AGO, cooldownPeriod=400), 3, (3, "cooldown", False)),
        (scaled_object("False", initialCooldownPeriod=1100), 3, (3, "cooldown", False)),
        (scaled_object("False", notes={"paused-scale-in": "true"}), 3, (3, "paused", False)),
        (scaled_object("False", minReplicaCount=4, idleReplicaCount=1), 4, (1, "scales-down", False)),
        (scaled_object("False", minReplicaCount=4, idleReplicaCount=1), 1, (1, "idle", False)),
        (scaled_object("False", minReplicaCount=4), 2, (4, "scales-up", True)),
        (scaled_object("False", minReplicaCount=2), 2, (2, "", False)),
        (scaled_object("False", {"reason": "TriggerError"}), 3, (3, "", False)),
        (scaled_object("Unknown"), 3, (3, "", False)),
    ],
)
def test_what_keda_does(tree, replicas, expected):
    answer = decided(tree, replicas)
    assert (answer.desired, answer.outcome, answer.certain) == expected


def test_a_refused_write_is_told_by_the_condition():
    refused = {"status": "False", "reason": "ErrorScalingTarget", "message": "denied the request: exceeded quota"}
    answer = decided(scaled_object("True", refused), 0)
    assert (answer.desired, answer.outcome) == (1, "refused")
    assert answer.steps[0].text == "its write was refused: denied the request: exceeded quota"


FAILING = {"health": {"s0-kafka": {"numberOfFailures": 4, "status": "Failing"}, "s1-cron": {"status": "Happy"}}}


@pytest.mark.parametrize(
    ("behavior", "wanted"),
    [
        (None, 6),
        ("static", 6),
        ("currentReplicas", 3),
        ("currentReplicasIfHigher", 6),
        ("currentReplicasIfLower", 3),
        ("scalingModifiers", None),
    ],
)
def test_fallback_tells_the_hpa_another_count(behavior, wanted):
    fallback = {"failureThreshold": 3, "replicas": 6} | ({"behavior": behavior} if behavior else {})
    tree = scaled_object("True", status=FAILING, fallback=fallback)
    tree["status"]["conditions"].append({"type": "Fallback", "status": "True"})
    step = decided(tree, 3).steps[-1]
    assert (step.rule, step.replicas) == ("fallback", wanted)
    assert "more than 3 failures in a row (s0-kafka: 4)" in step.text


def test_with_a_fallback_triggers_that_fail_do_not_end_in_zero():
    tree = scaled_object("False", status=FAILING | LONG_AGO, fallback={"failureThreshold": 3, "replicas": 6})
    assert decided(tree, 3).outcome == ""
    tree["spec"]["fallback"]["replicas"] = 0
    assert decided(tree, 3).outcome == "scales-down"


def test_a_pause_of_one_way_is_told_where_the_hpa_decides():
    steps = decided(scaled_object(notes={"paused-scale-in": "true"}), 3).steps
    assert [step.rule for step in steps] == ["active", "paused"]
    assert "scaleDown.selectPolicy is Disabled" in steps[1].text


def test_the_hpa_has_a_name_of_three_places():
    assert keda.hpa_name(scaled_object()) == "keda-hpa-web"
    named = scaled_object(advanced={"horizontalPodAutoscalerConfig": {"name": "mine"}})
    assert keda.hpa_name(named) == "mine"
    assert keda.hpa_name(named | {"status": {"hpaName": "real"}}) == "real"


def test_what_it_scales_must_be_there():
    tree = scaled_object()
    tree["spec"]["scaleTargetRef"] = {"kind": "StatefulSet", "name": "db"}
    with pytest.raises(ExplainError, match="kubectl get statefulset db -n shop"):
        decided(tree, 1)
