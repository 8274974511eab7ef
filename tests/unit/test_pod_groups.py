"""Objects with several pod templates: where the setting finds them, and what they cost together."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from extauthz.core.errors import ObjectError
from extauthz.core.ledger.pod_costs import PodCosts
from extauthz.core.objects import groups
from extauthz.core.objects.groups import Group, Groups
from extauthz.serve.service.loading import load
from extauthz.serve.service.pod_groups import parse
from extauthz.serve.service.setting_types import SettingsError
from extauthz.testing import pod
from tests.support.custom import JOB_SETS, LEADER_WORKER_SETS, RAY, jobset, leader_worker_set, raycluster, worker

Tree = Any
CPU = 10**9
RAY_GROUPS = parse(RAY)["rayclusters.ray.io"]
OF_JOB_SETS = parse(JOB_SETS)["jobsets.jobset.x-k8s.io"]


def cost(where: Groups, root: Tree) -> dict[str, int]:
    found = groups.template(where, root)
    assert found is not None
    return {key: amount // CPU for key, amount in PodCosts().per_pod("team-a", found).items()}


# What they cost.


def test_all_groups_are_summed_each_by_its_count():
    root = raycluster(worker("gpu", 3, {"nvidia.com/gpu": "8", "cpu": "2"}), worker("cpu", 2, {"cpu": "4"}))
    assert cost(RAY_GROUPS, root) == {
        "requests.cpu": 1 + 3 * 2 + 2 * 4,
        "requests.nvidia.com/gpu": 24,
        "pods": 6,
        "count/pods": 6,
    }


@pytest.mark.parametrize(
    ("group", "pods"),
    [
        pytest.param({"replicas": 3, "numOfHosts": 4}, 12, id="several-hosts-each"),
        pytest.param({"replicas": 1, "minReplicas": 2}, 2, id="less-than-the-least"),
        pytest.param({"minReplicas": 2}, 2, id="left-out-the-least"),
        pytest.param({"minReplicas": 0}, 0, id="left-out-and-none-at-least"),
        pytest.param({}, 0, id="nothing-is-said-and-the-definition-has-zero"),
        pytest.param({"replicas": 30, "maxReplicas": 3}, 3, id="more-than-the-most"),
        pytest.param({"replicas": 2, "maxReplicas": 3}, 2, id="less-than-the-most"),
        pytest.param({"replicas": 9, "maxReplicas": 3, "numOfHosts": 2}, 6, id="the-most-is-of-the-first-count"),
        pytest.param({"replicas": 1, "minReplicas": 4, "maxReplicas": 3}, 4, id="the-least-goes-before-the-most"),
        pytest.param({"replicas": 0}, 0, id="zero"),
        pytest.param({"replicas": 3, "suspend": True}, 0, id="suspended"),
        pytest.param({"replicas": 3, "suspend": False}, 3, id="not-suspended"),
    ],
)
def test_a_count_is_what_the_object_says(group, pods):
    assert cost(RAY_GROUPS, raycluster(worker("w", None, {"cpu": "1"}) | group)).get("pods", 0) == 1 + pods


def test_without_pods_it_costs_nothing_and_that_is_known():
    assert cost(RAY_GROUPS, raycluster(suspend=True)) == {}
    assert cost(OF_JOB_SETS, jobset(2, 3) | {"status": {"terminalState": "Completed"}}) == {}
    assert cost(OF_JOB_SETS, jobset(2, 3) | {"status": {"terminalState": ""}})["pods"] == 6


@pytest.mark.parametrize(
    ("job", "pods"),
    [
        pytest.param({"parallelism": 8, "completions": 4}, 2 * 4, id="no-more-than-are-to-complete"),
        pytest.param({"parallelism": 3, "completions": 4}, 2 * 3, id="no-more-than-at-once"),
        pytest.param({"completions": 4}, 2, id="one-at-once-by-default"),
        pytest.param({"parallelism": 8}, 2 * 8, id="a-work-queue"),
    ],
)
def test_of_a_job_set_each_job_counts_as_many_pods_as_it_runs_at_once(job, pods):
    made = jobset(2, 1)
    made["spec"]["replicatedJobs"][0]["template"]["spec"] = {"template": pod({"cpu": "1"})} | job
    assert cost(OF_JOB_SETS, made)["pods"] == pods


def test_lists_in_lists_are_followed():
    where = parse("{crews.example.dev: [{template: '.a[*].b[*].pod', count: ['.a[*].b[*].n', '.a[*].m', .k]}]}")
    root = {"k": 2, "a": [{"m": 3, "b": [{"n": 1, "pod": pod({"cpu": "1"})}, {"n": 4, "pod": pod({"cpu": "1"})}]}, {}]}
    assert cost(where["crews.example.dev"], root)["pods"] == 2 * 3 * (1 + 4)


def test_an_optional_group_may_be_missing_and_an_object_without_any_is_of_unknown_cost():
    assert cost(RAY_GROUPS, {"spec": {"workerGroupSpecs": [worker("w", 2, {"cpu": "1"})]}})["pods"] == 2
    assert groups.template(RAY_GROUPS, {"spec": {}}) is None
    assert groups.template(RAY_GROUPS, {"spec": {"workerGroupSpecs": []}}) is None


def test_equal_templates_are_one_whatever_group_they_are_in():
    one = groups.template(RAY_GROUPS, raycluster(worker("a", 1, {"cpu": "2"}), worker("b", 3, {"cpu": "2"})))
    other = groups.template(RAY_GROUPS, raycluster(worker("b", 3, {"cpu": "2"}), worker("a", 1, {"cpu": "2"})))
    moved = groups.template(RAY_GROUPS, raycluster(worker("a", 4, {"cpu": "2"})))
    assert one is other is moved
    assert [each["count"] for each in json.loads(one.text)["groups"]] == [1, 4]
    several = [worker("a", 1, {"cpu": "3"}), worker("b", 1, {"cpu": "2"})]
    assert groups.template(RAY_GROUPS, raycluster(*several)) is groups.template(
        RAY_GROUPS, raycluster(*reversed(several))
    )


@pytest.mark.parametrize(("leader", "size", "cpu"), [("2", 3, 2 + 2), (None, 3, 3), ("2", None, 2), (None, 0, 1)])
def test_a_leader_may_have_the_template_of_the_others(leader, size, cpu):
    where = parse(LEADER_WORKER_SETS)["leaderworkersets.leaderworkerset.x-k8s.io"]
    assert cost(where, leader_worker_set(2, size, leader))["requests.cpu"] == cpu


@pytest.mark.parametrize(
    ("root", "path", "detail"),
    [
        (raycluster({"groupName": "w"}), "spec.workerGroupSpecs[0].template", "is no pod template, as it has no"),
        (raycluster(None), "spec.workerGroupSpecs[0].template", "is no pod template"),
        ({"spec": {"workerGroupSpecs": {}}}, "spec.workerGroupSpecs", "must be a list, not an object"),
        ({"spec": {"headGroupSpec": {"template": {}}}}, "spec.headGroupSpec.template", "correct it, or `pod-groups`"),
        (raycluster(worker("w", "many", {})), "spec.workerGroupSpecs[0].replicas", "must be a whole number, not"),
        (raycluster(worker("w", -1, {})), "spec.workerGroupSpecs[0].replicas", "must not be below zero"),
        (raycluster(worker("w", 2**20, {}) | {"numOfHosts": 2**20}), "spec.workerGroupSpecs[0].template", "has more"),
        (
            raycluster({"template": {"spec": {"containers": [{"resources": {"requests": []}}]}}}),
            "spec.workerGroupSpecs[0].template.spec.containers[0].resources.requests",
            "must be an object",
        ),
    ],
)
def test_what_cannot_be_read_is_named_with_its_place(root, path, detail):
    with pytest.raises(ObjectError) as caught:
        groups.template(RAY_GROUPS, root)
    assert caught.value.path == path
    assert caught.value.detail.startswith(f"{path}: ")
    assert detail in caught.value.detail


def test_pods_that_do_not_say_what_they_need_are_counted_and_named():
    found = groups.template(RAY_GROUPS, raycluster(worker("w", 3, {"memory": "1Gi"})))
    assert found is not None
    costs = PodCosts()
    costs.require({"requests.cpu", "requests.memory"})
    assert costs.per_pod("team-a", found)["unspecified requests.cpu"] == 3 * CPU
    assert costs.per_pod("team-a", found)["unspecified requests.memory"] == CPU
    assert costs.unspecified("team-a", found)["requests.cpu"] == ("main",)


def test_devices_of_which_nothing_is_known_are_named():
    one = worker("w", 3, {})
    one["template"]["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "four-gpus"}]
    found = groups.template(RAY_GROUPS, raycluster(one))
    assert found is not None
    assert PodCosts().unknown_devices("team-a", found) == ["four-gpus"]


# The setting.

PAGE = Path(__file__).parents[2] / "docs" / "internals" / "counting.md"


def test_the_page_shows_these():
    (shown,) = re.findall(r"```yaml\n(pod-groups:\n.*?)```", PAGE.read_text(), re.DOTALL)
    assert parse(json.dumps(yaml.safe_load(shown)["pod-groups"])) == {
        **parse(RAY),
        **parse(JOB_SETS),
        **parse(LEADER_WORKER_SETS),
    }


def test_it_is_a_mapping_in_the_file_and_a_text_elsewhere(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(f"pod-groups: {RAY}\n")
    for settings in (
        load({}, {}, file),
        load({"pod_groups": RAY}, {}, None),
        load({}, {"EXTAUTHZ_POD_GROUPS": RAY}, None),
    ):
        assert parse(settings.pod_groups) == {"rayclusters.ray.io": RAY_GROUPS}
    assert parse("{a.b: .spec.pod}") == {"a.b": ("spec", "pod")}


def test_a_group_by_its_paths():
    (head, workers) = RAY_GROUPS.each
    assert head == Group(("spec", "headGroupSpec", "template"), unless=(("spec", "suspend"),))
    of = ("spec", "workerGroupSpecs", "*")
    assert workers == Group(
        (*of, "template"),
        counts=((*of, "replicas"), (*of, "numOfHosts")),
        least=(*of, "minReplicas"),
        most=(*of, "maxReplicas"),
        unless=(("spec", "suspend"), (*of, "suspend")),
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("[", "'[' is no YAML or JSON; write for example {rayclusters.ray.io:"),
        ("x", "'x' is no mapping of custom resources; write for example"),
        ("{rayclusters: [{template: .spec.t}]}", "'rayclusters' is no custom resource; write for example"),
        ("{1: []}", "'1' is no custom resource"),
        ("{deployments.apps: [{template: .spec.t}]}", "deployments.apps: is read without this setting; leave it out"),
        ("{a.b: spec.pods}", "a.b: 'spec.pods' is no path; write for example"),
        ("{a.b: '.spec.pods[*].t'}", "a.b: goes over a list; write for example"),
        ("{a.b: {}}", "a.b: must be a list of groups; write for example"),
        ("{a.b: []}", "a.b: must be a list of groups"),
        ("{a.b: [{count: .spec.n}]}", "a.b[0]: must have a template; write for example"),
        ("{a.b: [x]}", "a.b[0]: must have a template"),
        ("{a.b: [{template: .t, counts: .n}]}", "a.b[0].counts: no such field; there are template"),
        ("{a.b: [{template: spec.t}]}", "a.b[0].template: 'spec.t' is no path; write for example .spec.worker"),
        ("{a.b: [{template: 7}]}", "a.b[0].template: 7 is no path"),
        ("{a.b: [{template: '.spec.pods[*]'}]}", "a.b[0].template: ends in a list; name the template"),
        ("{a.b: [{template: '.a[*].t', count: '.b[*].n'}]}", "a.b[0].count: goes over another list than its template"),
        ("{a.b: [{template: .t, count: '.a[*]'}]}", "a.b[0].count: goes over another list than its template"),
        ("{a.b: [{template: .t, unless: ['.a[*].x']}]}", "a.b[0].unless: goes over another list"),
        ("{a.b: [{template: .t, least: .n}]}", "a.b[0].least: needs a count that may be less, or missing"),
        ("{a.b: [{template: .t, instead: [.a, .b]}]}", "a.b[0].instead: must be one path"),
        ("{a.b: [{template: .t, minus: -1}]}", "a.b[0].minus: must be a whole number of pods, not -1; write"),
        ("{a.b: [{template: .t, minus: '1'}]}", "a.b[0].minus: must be a whole number of pods, not '1'"),
        ("{a.b: [{template: .t, through: jobs}]}", "a.b[0].through: must be pods: StatefulSets that"),
        (
            "{a.b: [{template: .t, through: pods}], c.d: [{template: .t, through: pods}]}",
            "c.d: through: one kind may have it, and a.b has; leave one out",
        ),
        ("{a.b: [{template: .t, most: .n}]}", "a.b[0].most: needs a count that may be more"),
        ("{a.b: [{template: .t, count: .n, least: [.m, .o]}]}", "a.b[0].least: must be one path"),
    ],
)  # fmt: skip
def test_a_wrong_group_is_refused_with_the_field_and_the_cure(given, said):
    with pytest.raises(SettingsError) as caught:
        load({"pod_groups": given}, {}, None)
    assert str(caught.value).startswith(f"--pod-groups: {said}")


def test_something_else_than_a_text_is_refused(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("pod-groups: 7\n")
    with pytest.raises(SettingsError, match="pod-groups: must be a text, not"):
        load({}, {}, file)
