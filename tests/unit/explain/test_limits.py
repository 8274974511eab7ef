"""What becomes of a recommendation: bounds, windows and policies, and what of it is certain."""

from __future__ import annotations

import copy

import pytest

from extauthz.explain.decide import decide
from extauthz.explain.objects import Flags
from extauthz.explain.sentence import changes, sentence
from tests.unit.explain.building import (
    NOW,
    alike,
    cpu,
    deployment,
    explained,
    external,
    hpa,
    said,
    scene,
    status,
    text,
)


def run(count: int, percent: int, **how) -> tuple[int, str, bool]:
    """``count`` pods that use so much of a target of 50 %."""
    answer = explained(hpa(cpu(50), **how), deployment(count), *alike(count, f"{percent}m"))
    return answer.desired, answer.outcome, answer.certain


@pytest.mark.parametrize(
    ("count", "least", "most", "expected"),
    [
        (0, 1, 9, (0, "disabled", True)),
        (12, 1, 9, (9, "above-max", True)),
        (2, 3, 9, (3, "below-min", True)),
        (4, 1, 6, (6, "scales-up", True)),
        (6, 1, 6, (6, "max-replicas", True)),
    ],
)
def test_the_count_is_held_between_minimum_and_maximum(count, least, most, expected):
    assert run(count, 100, least=least, most=most) == expected


def test_the_policies_that_the_api_server_fills_in():
    assert run(2, 500, behavior={}) == (6, "scales-up", True), "4 pods are more than 100 %"
    assert run(9, 500, behavior={}) == (18, "scales-up", True)


def test_without_behavior_it_at_most_doubles_or_goes_to_four():
    assert run(1, 500) == (4, "scales-up", True)
    assert run(5, 250) == (10, "scales-up", True)


def test_the_first_look_remembers_the_count_that_it_finds():
    assert run(4, 25) == (4, "stabilized", True)
    assert run(4, 25, behavior={"scaleDown": {"stabilizationWindowSeconds": 0}}) == (2, "scales-down", True)
    assert run(4, 100, behavior={"scaleUp": {"stabilizationWindowSeconds": 60}}) == (4, "stabilized", True)


def test_the_flag_is_the_window_where_the_hpa_has_none():
    answer = explained(hpa(cpu(50)), deployment(4), *alike(4, "25m"), flags=Flags(downscale_stabilization=0))
    assert answer.desired == 2


UP, DOWN = "scaleUp", "scaleDown"


def policies(way: str, *each: tuple[str, int], select: str = "Max") -> dict[str, object]:
    rules = {
        "selectPolicy": select,
        "policies": [{"type": kind, "value": by, "periodSeconds": 60} for kind, by in each],
    }
    return {DOWN: {"stabilizationWindowSeconds": 0}} | {way: rules | {"stabilizationWindowSeconds": 0}}


@pytest.mark.parametrize(
    ("behavior", "count"),
    [
        (policies(UP, ("Pods", 3)), 13),
        (policies(UP, ("Percent", 25)), 13),  # ⌈12.5⌉
        (policies(UP, ("Pods", 3), ("Percent", 50)), 15),
        (policies(UP, ("Pods", 3), ("Percent", 50), select="Min"), 13),
        (policies(UP, ("Pods", 3), select="Disabled"), 10),
        ({}, 20),  # as the API server fills it in: the larger of 100 % and 4 pods
    ],
)
def test_policies_bound_the_way_up(behavior, count):
    assert run(10, 200, behavior=behavior)[::2] == (count, True)


@pytest.mark.parametrize(
    ("behavior", "count"),
    [
        (policies(DOWN, ("Pods", 3)), 7),
        (policies(DOWN, ("Percent", 25)), 7),  # 7.5 without its fraction
        (policies(DOWN, ("Pods", 3), ("Percent", 50)), 5),
        (policies(DOWN, ("Pods", 3), ("Percent", 50), select="Min"), 7),
        (policies(DOWN, ("Pods", 3), select="Disabled"), 10),
    ],
)
def test_policies_bound_the_way_down(behavior, count):
    assert run(10, 5, behavior=behavior)[::2] == (count, True)


def test_a_step_within_the_period_makes_the_next_one_likely():
    behavior = policies(UP, ("Pods", 3))
    recent = status(10, before=8, scaled_at=NOW - 30, AbleToScale="SucceededRescale")
    assert run(10, 200, behavior=behavior, status=recent) == (11, "scales-up", False)
    old = status(10, before=8, scaled_at=NOW - 600, AbleToScale="SucceededRescale")
    assert run(10, 200, behavior=behavior, status=old) == (13, "scales-up", True)


@pytest.mark.parametrize(("age_s", "expected"), [(60, (4, "stabilized")), (600, (2, "scales-down"))])
@pytest.mark.parametrize(
    ("since", "decided"), [("creationTimestamp", 4), ("creationTimestamp", 0), ("lastScaleTime", 4)]
)
def test_the_window_probably_keeps_a_count_that_is_younger_though_the_last_look_found_no_metrics(
    since, decided, age_s, expected
):
    """One that never had metrics remembers the count that it found, and its status says 0."""
    failed = status(decided, AbleToScale="SucceededGetScale", ScalingActive="")
    tree = hpa(cpu(50), status=failed)
    tree["status" if since == "lastScaleTime" else "metadata"][since] = text(NOW - age_s)
    answer = explained(tree, deployment(4), *alike(4, "25m"))
    assert (answer.desired, answer.outcome, answer.certain) == (*expected, False)


def test_policies_that_let_it_go_no_further_when_it_last_looked_probably_still_do_not():
    for ago_s, expected in ((30, (10, "up-policies", False)), (70, (13, "scales-up", False))):
        limited = status(10, scaled_at=NOW - ago_s, ScalingLimited="ScaleUpLimit")
        assert run(10, 200, behavior=policies(UP, ("Pods", 3)), status=limited) == expected


@pytest.mark.parametrize(
    ("told", "percent", "expected"),
    [
        # All was quiet when it last looked, so nothing higher is remembered, and the present count is.
        (status(4), 100, (8, "scales-up", True)),
        (status(4), 25, (4, "stabilized", True)),
        # Something higher was held back, but not more than what it has: no more than that is remembered.
        (status(4, AbleToScale="ScaleDownStabilized"), 75, (6, "scales-up", True)),
        (status(4, AbleToScale="ScaleDownStabilized"), 25, (4, "stabilized", False)),
        # It asked for more than the maximum, and may remember that.
        (status(4, ScalingLimited="TooManyReplicas"), 75, (6, "scales-up", False)),
        (status(4, ScalingLimited="TooManyReplicas"), 25, (5, "scales-up", False)),
        # Its write was refused, so it remembers that it wanted more.
        (status(4, AbleToScale=""), 75, (6, "scales-up", False)),
        (status(4, AbleToScale=""), 100, (8, "scales-up", True)),
        # Somebody else has set the count.
        (status(9), 75, (6, "scales-up", False)),
        # It could not read its metrics.
        (status(4, ScalingActive=""), 75, (6, "scales-up", False)),
        # It was above the maximum: no metric was read for that.
        (status(4, before=200, AbleToScale="SucceededRescale"), 25, (2, "scales-down", False)),
        (status(4, before=2, AbleToScale="SucceededRescale"), 75, (6, "scales-up", True)),
    ],
)
def test_what_the_status_proves_of_the_memory(told, percent, expected):
    assert run(4, percent, status=told) == expected


@pytest.mark.parametrize(
    ("told", "percent", "expected"),
    [
        (status(4), 100, (4, "stabilized", True)),  # the last recommendation was 4, and counts for a minute
        (status(4), 25, (4, "stabilized", True)),
        (status(4, AbleToScale="ScaleUpStabilized"), 100, (4, "stabilized", False)),
        (status(4, AbleToScale="ScaleUpStabilized"), 25, (4, "stabilized", True)),  # it was above 4
        (status(4, AbleToScale="ScaleDownStabilized"), 100, (4, "stabilized", True)),  # it was below 4
        (status(4, before=2, AbleToScale="SucceededRescale"), 25, (4, "stabilized", True)),
        (status(4, before=9, AbleToScale="SucceededRescale"), 100, (4, "stabilized", True)),
    ],
)
def test_windows_in_both_directions(told, percent, expected):
    behavior = {way: {"stabilizationWindowSeconds": 60} for way in (UP, DOWN)}
    assert run(4, percent, status=told, behavior=behavior) == expected


def test_a_step_down_that_policies_cut_short_goes_on():
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 60}}
    told = status(4, ScalingLimited="ScaleDownLimit")
    assert run(4, 25, status=told, behavior=behavior) == (3, "scales-down", False), "3 or less was recommended"


def test_a_window_shorter_than_two_looks_may_hold_nothing():
    behavior = {way: {"stabilizationWindowSeconds": 20} for way in (UP, DOWN)}
    assert run(4, 100, status=status(4), behavior=behavior) == (4, "stabilized", False)


def found(*objects) -> dict[str, tuple[str, int]]:
    seen = scene(*objects)
    return {one.kind: (one.value, one.replicas) for one in changes(seen, decide(seen))}


def test_twelve_pods_at_81_percent_of_75():
    assert found(hpa(cpu(75)), deployment(12), *alike(12, "81m")) == {
        "metric": ("83 %", 14),
        "target": ("73 %", 14),
        "tolerance": ("0.07", 13),
        "another-metric": ("13", 13),
    }


@pytest.mark.parametrize(("way", "value", "count"), [("at", 83, 14), ("at", 82, 12), ("to", 73, 14), ("to", 74, 12)])
def test_the_value_and_the_target_are_the_nearest_that_do(way, value, count):
    aim = value if way == "to" else 75
    seen = scene(hpa(cpu(aim)), deployment(12), *alike(12, "81m"))
    assert decide(seen, {"cpu": value} if way == "at" else {}).desired == count


def test_a_tolerance_is_offered_only_where_it_is_what_holds():
    assert "tolerance" not in found(hpa(cpu(75)), deployment(12), *alike(12, "70m"))
    assert "tolerance" not in found(
        hpa(cpu(75), behavior={"scaleUp": {"tolerance": "0"}}), deployment(1), *alike(1, "75m")
    )


def test_at_the_maximum_only_the_maximum_helps():
    assert found(hpa(cpu(50), most=4), deployment(4), *alike(4, "100m")) == {"max-replicas": ("5", 5)}


def test_a_window_and_policies_for_scaling_up():
    held = {"scaleUp": {"stabilizationWindowSeconds": 300}}
    assert found(hpa(cpu(50), behavior=held), deployment(4), *alike(4, "100m")) == {"window": ("0", 8)}
    disabled = {"scaleUp": {"selectPolicy": "Disabled"}}
    assert found(hpa(cpu(50), behavior=disabled), deployment(4), *alike(4, "75m")) == {"policies": ("", 5)}


def test_the_objects_are_left_as_they_are():
    autoscaler = hpa(cpu(50), behavior={"scaleUp": {"stabilizationWindowSeconds": 300}})
    before = copy.deepcopy(autoscaler)
    found(autoscaler, deployment(4), *alike(4, "100m"))
    assert autoscaler == before


def test_a_value_of_an_object_or_an_external_one_is_a_quantity():
    objects = [deployment(4), *alike(4, "1m"), said("queue", "100")]
    assert found(hpa(external("queue", "100")), *objects)["metric"] == ("110001m", 5)


@pytest.mark.parametrize(
    ("percent", "how", "said"),
    [
        (
            81,
            {},
            "hpa/web stays at 12 replicas: cpu is 81 %, the target is 75 %, and that is within the tolerance of 10 %;"
            " it acts at 83 %.",
        ),
        (75, {}, "hpa/web stays at 12 replicas: that is what its metrics ask for."),
        (90, {}, "hpa/web goes from 12 to 15 replicas: cpu is 90 %, the target is 75 %."),
        (90, {"status": status(9)}, "hpa/web probably goes from 12 to 15 replicas: cpu is 90 %, the target is 75 %."),
        (20, {}, "hpa/web stays at 12 replicas: its stabilization window keeps it there."),
        (
            90,
            {"most": 12},
            "hpa/web stays at 12 replicas: its metrics ask for more, and maxReplicas does not allow it.",
        ),
    ],
)
def test_the_sentence(percent, how, said):
    seen = scene(hpa(cpu(75), **how), deployment(12), *alike(12, f"{percent}m"))
    answer = decide(seen)
    assert sentence(seen, answer, changes(seen, answer)) == said
