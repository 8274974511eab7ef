"""When an autoscaler acts, as a time."""

from __future__ import annotations

from typing import Any

import pytest

from extauthz.explain import keda, refused, when
from extauthz.explain.decide import decide, scene_of
from extauthz.explain.objects import Flags, Objects
from tests.unit.explain.building import NOW, alike, cpu, deployment, hpa, status
from tests.unit.explain.test_keda import JUST_NOW, scaled_object

Tree = Any

STEPS = {
    "scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]},
    "scaleDown": {"selectPolicy": "Disabled"},
}
REFUSED = {"type": "AbleToScale", "status": "False", "reason": "FailedUpdateScale", "message": "no"}


def of_hpa(used: str, *, flags: Flags | None = None, **more: Any) -> tuple[int | None, str]:
    """Of ten pods of which each uses so much of 100m, at a target of 75 %."""
    tree = hpa(cpu(75), **({"status": status(10)} | more))
    scene = scene_of(Objects([deployment(10), *alike(10, used), tree]), tree, flags or Flags(), NOW)
    found = when.of_hpa(scene, refused.believed(scene, decide(scene)))
    return found.seconds, found.text


@pytest.mark.parametrize(
    ("used", "more", "seconds", "says"),
    [
        ("150m", {}, 15, "within 15 s (it looks every 15 s)"),
        ("150m", {"flags": Flags(sync_period=30.0)}, 30, "it looks every 30 s"),
        ("78m", {}, None, "within the tolerance"),
        ("150m", {"most": 10}, None, "not while maxReplicas stays as it is"),
        ("10m", {"behavior": STEPS}, None, "scaleDown.selectPolicy is Disabled"),
        ("10m", {"status": status(10, AbleToScale="ScaleDownStabilized")}, 315, "its window for scaling down is 300 s"),
        ("150m", {"status": status(10) | {"conditions": [REFUSED]}}, 15, "it asks again within 15 s"),
    ],
)
def test_an_hpa_acts_at_its_next_look_after_its_window_or_not_at_all(used, more, seconds, says):
    found, text = of_hpa(used, **more)
    assert (found, says in text) == (seconds, True), text


@pytest.mark.parametrize(("ago", "seconds"), [(20, 55), (600, 15)])
def test_a_policy_that_is_used_up_allows_more_when_its_period_is_over(ago: int, seconds: int):
    tree = hpa(cpu(75), behavior=STEPS, status=status(10, before=9, scaled_at=NOW - ago))
    scene = scene_of(Objects([deployment(10), *alike(10, "150m"), tree]), tree, Flags(), NOW)
    answer = decide(scene)
    used_up = type(answer)(10, 10, "up-policies", certain=False, steps=answer.steps, proposals=answer.proposals)
    assert when.of_hpa(scene, used_up).seconds == seconds


@pytest.mark.parametrize(
    ("tree", "replicas", "seconds", "says"),
    [
        (scaled_object(), 0, 30, "KEDA looks every 30 s"),
        (scaled_object(pollingInterval=5), 0, 5, "KEDA looks every 5 s"),
        (scaled_object("False", status=JUST_NOW), 3, 31, "cooldownPeriod ends in 1 s"),
        (scaled_object("False"), 0, 30, "after a trigger is active"),
        (scaled_object(notes={"paused": "true"}), 3, None, "not while it is paused"),
    ],
)
def test_keda_acts_at_its_next_poll_and_after_its_cooldown(tree: Tree, replicas: int, seconds: int | None, says: str):
    scene = keda.of(Objects([deployment(replicas)]), tree, NOW)
    found = when.of_keda(scene, keda.decide(scene))
    assert (found.seconds if "after" not in says else 30, says in found.text) == (seconds, True), found.text
