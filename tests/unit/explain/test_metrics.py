"""What one metric, and several, ask for. The counts are worked out by hand from the controller's rules.

An HPA without a status has never been looked at, so nothing but its present count is remembered.
"""

from __future__ import annotations

import pytest

from extauthz.core.quota import selector_text
from extauthz.explain import pods as podlist
from extauthz.explain import target
from extauthz.explain.objects import ExplainError, Flags, Objects
from extauthz.explain.specs import UnknownError
from tests.unit.explain.building import (
    alike,
    cpu,
    deployment,
    explained,
    external,
    hpa,
    memory,
    pod,
    said,
    status,
    used,
)

AT_ONCE = {"scaleDown": {"stabilizationWindowSeconds": 0}}


def without(tree, field: str):
    """A pod whose status does not have it."""
    del tree["status"][field]
    return tree


def outcome(answer) -> tuple[int, str, bool]:
    return answer.desired, answer.outcome, answer.certain


@pytest.mark.parametrize(
    ("usage", "target", "count"),
    [
        ("81m", 75, 12),  # 1.08 is within 0.1
        ("82m", 75, 12),  # 1.0933
        ("83m", 75, 14),  # 1.1067 × 12 = 13.28
        ("90m", 75, 15),
        ("81m", 70, 14),  # 1.157 × 12 = 13.89
        ("55m", 50, 12),  # 1.1 exactly is within
        ("45m", 50, 12),  # 0.9 exactly too
        ("44m", 50, 11),  # 0.88 × 12 = 10.56
    ],
)
def test_the_tolerance_comes_before_the_ceiling(usage, target, count):
    answer = explained(hpa(cpu(target), behavior=AT_ONCE), deployment(12), *alike(12, usage))
    assert answer.desired == count
    assert answer.certain


def test_utilization_is_an_integer_before_it_is_compared():
    """Two pods of 100m use 110m + 111m of 200m: 110.5 % is 110 %, and 1.1 of the target of 100 % is within."""
    objects = [pod("a"), pod("b"), used("a", "110m"), used("b", "111m")]
    assert outcome(explained(hpa(cpu(100)), deployment(2), *objects)) == (2, "tolerance", True)


@pytest.mark.parametrize(
    ("behavior", "flags", "count"),
    [
        (None, Flags(tolerance=0.05), 13),
        ({"scaleUp": {"tolerance": "50m"}}, Flags(), 13),
        ({"scaleDown": {"tolerance": "50m"}}, Flags(), 12),
        ({"scaleUp": {"tolerance": "0"}}, Flags(tolerance=0.5), 13),
        ({"scaleUp": {"tolerance": "0.2"}}, Flags(tolerance=0.05), 12),
    ],
)
def test_a_field_of_the_hpa_wins_over_the_flag(behavior, flags, count):
    assert explained(hpa(cpu(75), behavior=behavior), deployment(12), *alike(12, "81m"), flags=flags).desired == count


def test_pods_without_a_metric_use_nothing_on_the_way_up():
    """Three of four say 100 %, so a ratio of 2; with the fourth 300m/400m is 75 %, 1.5, and ⌈1.5 × 4⌉ = 6. Three of
    five say 90 %, 1.8; with the others it is 54 %, and 1.08 is within the tolerance."""
    objects = [*(pod(name) for name in "abcd"), *(used(name, "100m") for name in "abc")]
    assert outcome(explained(hpa(cpu(50)), deployment(4), *objects)) == (6, "scales-up", True)
    objects = [*(pod(name) for name in "abcde"), *(used(name, "90m") for name in "abc")]
    assert outcome(explained(hpa(cpu(50)), deployment(5), *objects)) == (5, "tolerance", True)


def test_pods_without_a_metric_use_all_that_they_request_on_the_way_down():
    """Three say 10 %; with 100m for the fourth it is 130m/400m, 32 %, 0.64: ⌈0.64 × 4⌉ = 3."""
    objects = [*(pod(name) for name in "abcd"), *(used(name, "10m") for name in "abc")]
    assert explained(hpa(cpu(50), behavior=AT_ONCE), deployment(4), *objects).desired == 3


def test_pods_without_a_metric_turn_it_round_and_nothing_happens():
    """One of two says 20 %: 0.4. With 100m for the other it is 60 %, 1.2: the other way."""
    objects = [pod("a"), pod("b"), used("a", "20m")]
    answer = explained(hpa(cpu(50), behavior=AT_ONCE), deployment(2), *objects)
    assert outcome(answer) == (2, "pods-not-counted", True)


def test_a_target_above_100_percent_is_what_a_pod_without_a_metric_counts_as():
    """One of two says 60 % of a target of 200 %, 0.3. With 200m for the other it is 130 %, 0.65: ⌈1.3⌉."""
    objects = [pod("a"), pod("b"), used("a", "60m")]
    assert explained(hpa(cpu(200), behavior=AT_ONCE), deployment(3), *objects).desired == 2
    objects = [pod("a"), pod("b"), used("a", "180m")]
    assert explained(hpa(cpu(200), behavior=AT_ONCE), deployment(3), *objects).desired == 3, "0.95 is within"


def test_more_pods_than_the_count_never_turn_the_way():
    """One pod too many: the ratio says less, and the ceiling of all three pods would be more than the count of two."""
    objects = [*(pod(name) for name in "abc"), used("a", "50m"), used("b", "60m")]
    assert explained(hpa(cpu(80), behavior=AT_ONCE), deployment(2), *objects).outcome == "pods-not-counted"


@pytest.mark.parametrize(
    ("other", "count"),
    [
        (pod("b", ready="False", started=3600, changed=3590), 2),  # never ready: 0 on the way up, 50 %, 1.04
        (pod("b", ready="False", started=3600, changed=100), 4),  # it was ready once, so it counts
        (pod("b", ready="False", started=100, changed=90), 2),  # within the initialization period
        (pod("b", ready="True", started=100, changed=20), 2),  # its sample began before it was ready
        (pod("b", ready="True", started=100, changed=80), 4),
        (pod("b", phase="Pending"), 2),
        (without(pod("b"), "conditions"), 2),
        (without(pod("b"), "startTime"), 2),
    ],
)
def test_cpu_of_pods_that_warm_up_does_not_count(other, count):
    objects = [pod("a"), other, used("a", "100m"), used("b", "100m")]
    assert explained(hpa(cpu(48)), deployment(2), *objects).desired == count


def test_only_cpu_has_that_rule():
    objects = [pod("a"), pod("b", ready="False", started=100, changed=90)]
    objects += [used(name, memory="2Gi") for name in "ab"]
    assert explained(hpa(memory("1Gi")), deployment(2), *objects).desired == 4


def test_failed_and_ending_pods_do_not_count_at_all():
    ending = pod("c")
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    objects = [pod("a"), pod("b", phase="Failed"), ending, used("a", "100m"), used("b", "1m"), used("c", "1m")]
    assert explained(hpa(cpu(50)), deployment(3), *objects).desired == 3, "it remembers the count of three"
    assert explained(hpa(cpu(50), behavior=AT_ONCE), deployment(3), *objects).desired == 2


def test_a_pod_that_is_about_to_change_its_group_makes_it_likely():
    objects = [pod("a"), pod("b", ready="False", started=290, changed=100), used("a", "100m"), used("b", "100m")]
    assert not explained(hpa(cpu(50)), deployment(2), *objects).certain


def test_the_largest_of_several_metrics_wins():
    objects = [deployment(4), *alike(4, "75m"), said("queue", "170")]
    assert explained(hpa(cpu(50), external("queue", "100")), *objects).desired == 7
    assert explained(hpa(cpu(50), external("queue", "170")), *objects).desired == 6


def test_a_metric_that_fails_blocks_the_way_down_and_not_the_way_up():
    broken = external("gone", "100")
    for usage, expected in (("10m", (4, "failed", True)), ("75m", (6, "scales-up", True))):
        answer = explained(hpa(cpu(50), broken, behavior=AT_ONCE), deployment(4), *alike(4, usage), asked=["gone"])
        assert outcome(answer) == expected


def test_a_container_without_a_request_fails_the_percentage():
    objects = alike(2, "100m")
    del objects[0]["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    answer = explained(hpa(cpu(50)), deployment(2), *objects)
    assert outcome(answer) == (2, "failed", True)
    assert "container app of pod web-0 requests no cpu" in answer.steps[0].text


def test_an_external_value_goes_by_ready_pods_and_an_average_by_the_status():
    objects = [deployment(4, observed=5), pod("a"), pod("b"), pod("c", ready="False"), said("queue", "90")]
    assert explained(hpa(external("queue", "30")), *objects).desired == 6, "⌈3 × 2⌉"
    assert explained(hpa(external("queue", average="15")), *objects).desired == 6, "⌈90 / 15⌉"
    assert explained(hpa(external("queue", average="17")), *objects).desired == 5, "90 / (17 × 5) is within: the status"


def test_in_the_band_the_status_is_enough_to_be_certain():
    """Unready pods, and pods without a metric, bring a ratio nearer to 1 or past it."""
    current = [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 81}}}]
    told = status(12) | {"currentMetrics": current}
    assert outcome(explained(hpa(cpu(75), status=told), deployment(12))) == (12, "tolerance", True)
    current[0]["resource"]["current"]["averageUtilization"] = 90
    assert outcome(explained(hpa(cpu(75), status=told), deployment(12))) == (15, "scales-up", False)


@pytest.mark.parametrize(("shown", "certain"), [("10", False), ("12", True)])
def test_an_average_of_the_status_is_rounded_up_and_certain_only_if_that_does_not_matter(shown, certain):
    """5 pods, 10 each at most: 49.996 to 50 in all, and between these is three times 16.666. 12 is 60 in all."""
    aim = {"10": "16666m", "12": "7"}[shown]
    current = [{"type": "External", "external": {"metric": {"name": "queue"}, "current": {"averageValue": shown}}}]
    told = status(5) | {"currentMetrics": current}
    answer = explained(hpa(external("queue", average=aim), status=told), deployment(5))
    assert answer.certain is certain


def test_what_is_neither_given_nor_in_the_status_is_unknown_and_not_failed():
    with pytest.raises(UnknownError, match="External queue"):
        explained(hpa(external("queue", "30")), deployment(2))


def test_a_selector_that_two_hpas_share_is_refused():
    other = hpa(cpu(50))
    other["metadata"]["name"] = "twin"
    answer = explained(hpa(cpu(50)), other, deployment(4), *alike(4, "100m"))
    assert outcome(answer) == (4, "failed", True)
    assert "hpa/twin" in answer.steps[-1].text


def test_that_it_is_shared_may_be_known_from_the_status_alone():
    told = status(4)
    told["conditions"][1] |= {"status": "False", "reason": "AmbiguousSelector", "message": "pods by selector app=web"}
    answer = explained(hpa(cpu(50), status=told), deployment(4), *alike(4, "100m"))
    assert outcome(answer) == (4, "failed", False)


def test_the_tolerance_for_the_way_down_is_its_own():
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 0, "tolerance": "0.05"}}
    assert explained(hpa(cpu(75), behavior=behavior), deployment(12), *alike(12, "70m")).desired == 12, ()
    assert explained(hpa(cpu(100), behavior=behavior), deployment(12), *alike(12, "91m")).desired == 11, "0.91 × 12"
    assert explained(hpa(cpu(100), behavior=AT_ONCE), deployment(12), *alike(12, "91m")).desired == 12


def two_containers(name: str) -> tuple:
    """A pod whose sidecar requests 300m, and what both use."""
    made, said_of_it = pod(name), used(name, "100m")
    side = {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "300m", "memory": "1Gi"}}}
    made["spec"]["initContainers"] = [{"name": "once", "resources": {}}, side]
    said_of_it["containers"].append({"name": "side", "usage": {"cpu": "300m", "memory": "0"}})
    return made, said_of_it


def test_restartable_init_containers_request_too():
    """400m of 400m."""
    assert explained(hpa(cpu(50)), deployment(1), *two_containers("a")).desired == 2


def test_a_metric_of_one_container_looks_at_that_one_alone():
    metric = {"type": "ContainerResource", "containerResource": cpu(50)["resource"] | {"container": "app"}}
    assert explained(hpa(metric), deployment(1), *two_containers("a")).desired == 2, "100m of 100m"


def test_requests_of_the_whole_pod_win_over_its_containers():
    made, said_of_it = two_containers("a")
    made["spec"]["resources"] = {"requests": {"cpu": "150m"}}
    made["spec"]["overhead"] = {"cpu": "50m"}
    assert explained(hpa(cpu(100)), deployment(1), made, said_of_it).desired == 2, "400m of 200m"


def test_a_container_that_the_metrics_leave_out_leaves_the_pod_without_one():
    silent = used("b", "100m")
    silent["containers"] = []
    objects = [pod("a"), pod("b"), used("a", "30m"), silent]
    answer = explained(hpa(cpu(50), behavior=AT_ONCE), deployment(2), *objects)
    assert answer.outcome == "pods-not-counted", "65 % with all that b requests"


def test_pods_that_request_nothing_and_pods_that_all_warm_up_fail_the_metric():
    naught = pod("a")
    naught["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "0"
    assert explained(hpa(cpu(50)), deployment(1), naught, used("a", "100m")).outcome == "failed"
    waiting = [pod("a", phase="Pending"), used("a", "100m", "1Gi")]
    assert explained(hpa(memory("1Gi")), deployment(1), *waiting).outcome == "failed"


def test_external_values_that_the_selector_matches_are_added_up():
    metric = external("queue", "30")
    metric["external"]["metric"]["selector"] = {"matchLabels": {"name": "mail"}}
    values = [said("queue", "20") | {"metricLabels": {"name": name}} for name in ("mail", "mail", "other")]
    answer = explained(hpa(metric), deployment(3), *(pod(name) for name in "abc"), *values)
    assert answer.desired == 4, "40 / 30 × 3"


def test_a_pod_that_has_ended_is_not_ready_for_an_external_value():
    objects = [deployment(2), pod("a"), pod("b", phase="Succeeded"), said("queue", "90")]
    assert explained(hpa(external("queue", "30")), *objects).desired == 3


def asking(name, cpu, restarts=None):
    more = {"restartPolicy": restarts} if restarts else {}
    return {"name": name, "resources": {"requests": {"cpu": cpu}}} | more


def test_an_external_value_wakes_a_workload_that_the_hpa_put_to_sleep():
    asleep = status(0, ScaledToZero="ScaledToZero")
    answer = explained(hpa(external("queue", "30"), status=asleep), deployment(0), said("queue", "50"), asked=["x"])
    assert answer.desired == 2
    assert explained(hpa(cpu(50), least=0, status=asleep), deployment(0)).outcome == "disabled"


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        ("app=web", {"app": "web"}, True),
        ("app=web,tier!=old", {"app": "web", "tier": "old"}, False),
        ("app=web,tier!=old", {"app": "web"}, True),
        ("tier in (a, b)", {"tier": "b"}, True),
        ("tier in (a, b)", {"tier": "c"}, False),
        ("tier notin (a,b)", {"tier": "a"}, False),
        ("tier", {"tier": ""}, True),
        ("tier", {}, False),
        ("!tier", {}, True),
        ("!tier", {"tier": ""}, False),
    ],
)
def test_a_selector_as_a_text_and_its_text_again(selector, labels, matches):
    found = selector_text.parsed(selector)
    assert found is not None
    again = selector_text.parsed(selector_text.spelled(found))
    assert again is not None
    assert found.matches(labels) is again.matches(labels) is matches


def test_a_selector_as_an_object():
    expressions = [{"key": "tier", "operator": "NotIn", "values": ["old"]}, {"key": "app", "operator": "Exists"}]
    found = selector_text.labelled({"matchLabels": {"app": "web"}, "matchExpressions": expressions})
    assert found.matches({"app": "web"})
    assert not found.matches({"app": "web", "tier": "old"})
    of_controller = selector_text.labelled({"app": "web"})
    assert of_controller.matches({"app": "web"}), "of a ReplicationController"
    assert not of_controller.matches({})


def test_a_scale_tells_what_its_object_does():
    scale = {
        "kind": "Scale",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 4},
        "status": {"replicas": 4, "selector": "app=web"},
    }
    assert explained(hpa(cpu(50)), scale, *alike(4, "75m")).desired == 6


def test_without_a_selector_or_a_target_there_is_nothing_to_do():
    bare = deployment(4)
    del bare["spec"]["selector"]
    assert explained(hpa(cpu(50)), bare, *alike(4, "75m")).outcome == "failed"
    with pytest.raises(ExplainError, match="Deployment shop/web"):
        target.required(Objects([]), hpa(cpu(50)), "hpa")


@pytest.mark.parametrize("labels", [None, {}, {"other": "x"}])
def test_an_external_value_counts_where_its_adapter_repeats_no_labels(labels):
    """The API filters by the selector; KEDA's adapter prints ``metricLabels: null``."""
    metric = external("queue", "30")
    metric["external"]["metric"]["selector"] = {"matchLabels": {"scaledobject.keda.sh/name": "so"}}
    answer = explained(
        hpa(metric), deployment(1), pod("a"), said("queue", "60") | {"metricLabels": labels}, asked=["queue"]
    )
    assert (answer.desired, answer.outcome) == (2, "scales-up")


def test_a_container_that_no_metric_names_fails_the_metric_as_the_controller_says():
    by_container = {"name": "cpu", "container": "gone", "target": {"type": "AverageValue", "averageValue": "1"}}
    metric = {"type": "ContainerResource", "containerResource": by_container}
    answer = explained(hpa(metric), deployment(1), pod("a"), used("a"))
    assert answer.outcome == "failed"
    assert "the metrics of a pod have no container gone" in answer.steps[0].text


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"resources": {"requests": {"memory": "1Gi"}}}, 300),
        ({"resources": {"requests": {"cpu": "2"}}, "overhead": {"cpu": "100m"}}, 2100),
        ({"overhead": {"cpu": "100m"}}, 300),
        ({"resources": {"requests": {"memory": "1Gi"}}, "initContainers": [asking("i", "900m")]}, 900),
        ({"resources": {"requests": {"memory": "1Gi"}}, "initContainers": [asking("s", "1", "Always")]}, 1300),
    ],
)
def test_what_a_pod_requests_as_calculate_requests_of_the_controller_has_it(spec, wanted):
    containers = [asking("a", "200m"), asking("b", "100m")]
    made = {"metadata": {"name": "p"}, "spec": {"containers": containers} | spec}
    assert podlist.requests([made], "", "cpu") == {"p": wanted}
