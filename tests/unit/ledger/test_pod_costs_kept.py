"""No memory of costs grows with what has been and is no more, and costs that were kept are right."""

from __future__ import annotations

import json

import pytest

from extauthz.core.footprint import LimitRangeDefaults
from extauthz.core.ledger.pod_costs import PodCosts, Terms, count_each
from extauthz.core.model import Template, WorkloadRef
from extauthz.core.objects.workloads import intern
from extauthz.core.quantities import NANO
from extauthz.testing import pod


def template(cpu: int) -> Template:
    return intern({"template": pod({"cpu": str(cpu)})})


def test_no_more_footprints_are_kept_than_that_nor_their_sizes():
    costs = PodCosts()
    costs.max_footprints = 3
    for cpu in (*range(1, 20), *range(1, 20)):
        assert costs.per_pod("anywhere", template(cpu))["requests.cpu"] == cpu * NANO
        assert sum(map(len, costs._costs.values())) <= 3
        assert len(costs._sizes) <= 3


def test_sizes_under_an_overhead_that_has_changed_are_forgotten():
    costs = PodCosts()
    boxed = pod({"cpu": "1"})
    boxed["spec"]["runtimeClassName"] = "gvisor"
    for overhead in range(1, 9):
        costs.set_overhead("gvisor", {"cpu": overhead * NANO})
        cost = costs.per_pod("anywhere", intern({"template": boxed}))
        assert (cost["requests.cpu"], len(costs._sizes)) == ((1 + overhead) * NANO, 1)


def test_templates_of_one_size_share_one_table_of_amounts():
    costs = PodCosts()
    first, second = pod({"cpu": "1"}), pod({"cpu": "1"})
    second["spec"]["containers"][0]["name"] = "other"
    found = [costs.per_pod("anywhere", intern({"template": one})) for one in (first, second)]
    assert found[0] is found[1]


def test_costs_under_limit_ranges_that_are_no_more_are_dropped_and_those_in_force_are_shared():
    costs = PodCosts()
    costs.max_footprints = 5
    bare = intern({"template": pod({})})
    for number in range(1, 30):
        costs.set_terms("other", Terms((LimitRangeDefaults((("memory", 1),)),)))
        costs.set_terms("team", Terms((LimitRangeDefaults((("cpu", number),)),)))
        assert costs.per_pod("team", bare)["requests.cpu"] == number
        assert costs.per_pod("other", bare)["requests.memory"] == 1
        assert sum(map(len, costs._costs.values())) <= 5
    costs.set_terms("third", Terms((LimitRangeDefaults((("cpu", 29),)),)))
    assert costs.per_pod("third", bare) is costs.per_pod("team", bare)
    costs.set_terms("team", Terms(()))
    assert "requests.cpu" not in costs.per_pod("team", bare)


def test_objects_of_one_kind_count_alike_in_all_namespaces_and_are_kept_once():
    here, there = (WorkloadRef("apps", "deployments", namespace, "web") for namespace in ("a", "b"))
    assert count_each(here) is count_each(there)


@pytest.mark.parametrize("name", ["main", "käse", "\ud800", "\U0001f600"])
def test_a_template_has_one_text_whoever_wrote_it(name: str):
    tree = {"template": {"spec": {"containers": [{"name": name, "resources": {"limits": {"cpu": "1", "a": "2"}}}]}}}
    assert intern(tree).text == json.dumps(tree, sort_keys=True, separators=(",", ":")).encode()
