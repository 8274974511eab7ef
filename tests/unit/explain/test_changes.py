"""What would have to change for one more replica: each is tried, and the next smaller change would not do."""

from __future__ import annotations

import copy

import pytest

from extauthz.explain.decide import decide
from extauthz.explain.sentence import changes, sentence
from tests.unit.explain.building import alike, cpu, deployment, external, hpa, said, scene, status


def found(*objects) -> dict[str, tuple[str, int]]:
    seen = scene(*objects)
    return {one.kind: (one.value, one.replicas) for one in changes(seen, decide(seen))}


def test_twelve_pods_at_81_percent_of_75():
    assert found(hpa(cpu(75)), deployment(12), *alike(12, "81m")) == {
        "metric": ("83 %", 14),
        "target": ("73 %", 14),
        "tolerance": ("0.07", 13),
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
