"""When an autoscaler acts, as a time."""

from __future__ import annotations

from typing import Any

import pytest

from extauthz.explain import keda, refused, when
from extauthz.explain.decide import decide, scene_of
from extauthz.explain.knative.decide import decide as knative_decide
from extauthz.explain.knative.decider import Values
from extauthz.explain.objects import Flags, Objects
from tests.unit.explain.building import NOW, alike, cpu, deployment, hpa, status
from tests.unit.explain.knativebuilding import config, kpa, look, refusal
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
        ("150m", {"most": 10}, None, "not upwards while maxReplicas stays as it is"),
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


NEVER_ZERO = config(enable_scale_to_zero="false")
IN_PATH = {"target_burst_capacity": "-1"}
DELAYED = {"scale_down_delay": "30s"}
NO_TIME = kpa()
del NO_TIME["status"]["conditions"][0]["lastTransitionTime"]


@pytest.mark.parametrize(
    ("tree", "values", "more", "replicas", "seconds", "says"),
    [
        (kpa(), Values(15, 15), [], 1, 2, "within 2 s (it looks every 2 s)"),
        (kpa(), Values(10, 10), [], 1, None, "at the last 60 s, and for a surge at the last 6 s"),
        (kpa(window="20s"), Values(10, 10), [], 1, None, "at the last 20 s, and for a surge at the last 2 s"),
        (kpa(scale=3, max_scale="3"), Values(55, 55), [], 3, None, "not upwards while max-scale stays as it is"),
        (kpa(scale=3, max_scale="3"), None, [], 3, None, "probably not upwards while max-scale stays as it is"),
        (kpa(scale=2, min_scale="2"), Values(10, 10), [], 2, None, "not downwards while min-scale stays as it is"),
        (kpa(scale=2, min_scale="2"), None, [], 2, None, "probably not downwards while min-scale stays as it is"),
        (kpa(ran=False, ready=0, initial_scale="3"), Values(0, 0), [], 3, None, "has had its initial scale once"),
        (kpa(scale=5, ready=5), Values(30, 30), [], 5, 62, "ends 60 s after the last surge (its stable window)"),
        (kpa(scale=5, ready=5), Values(30, 30, False), [], 5, 2, "within 2 s"),
        (kpa(scale=5, ready=5, **DELAYED), Values(30, 30, False), [], 5, 32, "within 32 s: scale-down-delay is 30 s"),
        (kpa(scale=5, ready=5, **DELAYED), Values(30, 30, True), [], 5, 92, "within 92 s: a panic mode ends 60 s"),
        (kpa(since=10), Values(0, 0, False), [], 1, 82, "probably to zero within 82 s"),
        (kpa(since=10, **IN_PATH), Values(0, 0, False), [], 1, 82, "to zero within 82 s, if nothing asks"),
        (kpa(since=100, **IN_PATH), Values(0, 0, False), [], 1, 32, "to zero within 32 s"),
        (kpa(since=58, **IN_PATH), Values(0, 0, False), [], 1, 34, "to zero within 34 s"),
        (kpa(since=58, **IN_PATH), Values(0, 0), [], 1, 92, "to zero within 92 s"),  # it may be in panic mode
        (kpa(since=58, **IN_PATH, **DELAYED), Values(0, 0), [], 1, 92, "within 92 s: a panic mode ends"),
        (kpa(active="False", since=10), Values(0, 0, False), [], 1, 22, "probably to zero within 22 s"),
        (
            kpa(active="False", since=10, scale_to_zero_pod_retention_period="5m"),
            Values(0, 0, False),
            [],
            1,
            292,
            "probably to zero within 292 s",
        ),
        (kpa(scale=0, since=10), None, [], 1, 82, "probably to zero within 82 s"),
        (kpa(active="Unknown", since=10), Values(0, 0, False), [], 1, 622, "as soon as it is ready; to zero within"),
        (NO_TIME, Values(0, 0, False), [], 1, None, "not known: its condition Active has no time"),
        (kpa(), Values(0, 0, False), [NEVER_ZERO], 1, None, "not to zero while enable-scale-to-zero is false"),
        (kpa(), None, [refusal(3)], 1, 995, "it asks again within 995 s"),
        (kpa(scale=None), None, [], 1, None, "within 2 s after it has metrics"),
    ],
)
def test_knative_acts_at_its_next_look_after_its_windows_or_on_its_way_to_zero(
    tree: Tree, values: Values | None, more: list[Tree], replicas: int, seconds: int | None, says: str
):
    scene = look(tree, *more, replicas=replicas)
    found = when.of_knative(scene, knative_decide(scene, values))
    assert (found.seconds, says in found.text) == (seconds, True), found
    assert found.text.startswith("probably") == says.startswith("probably")
