"""What a real gate exposes: names by Prometheus' conventions, and all that alerts and dashboard ask for."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from extauthz.tell.observe.metrics import TABLE
from tests.observability.expressions import FROM_PROMETHEUS, GROUPED, expressions, named, queries
from tests.observability.promtool import promtool
from tests.servers.running import Running

LABELS = {family.name: family.labels for family in TABLE}
ASKED = [text for text in (*expressions(), *queries()) if not re.search(r"\b(apiserver|kube)_", text)]
"""Of our own metrics; some alerts watch the API server's and those of kube-state-metrics."""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """/metrics of a gate that has allowed one write, and refused another."""
    with Running(tmp_path_factory.mktemp("gate")) as gate:
        gate.check(4)
        gate.check(9)
        yield gate.get("/metrics")[1]


@pytest.mark.promtool
def test_the_names_are_as_prometheus_wants_them(page: str) -> None:
    done = promtool("check", "metrics", given=page)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    bad = "# HELP extauthz_things things\n# TYPE extauthz_things counter\nextauthz_things 1\n"
    assert promtool("check", "metrics", given=bad).returncode != 0, "it does not see what is wrong"


def test_each_number_without_a_label_is_told(page: str) -> None:
    found = {s.name: s.value for family in text_string_to_metric_families(page) for s in family.samples if not s.labels}
    without = {name for name, labels in LABELS.items() if not labels} - {"extauthz_check_seconds"}
    assert without - found.keys() == {"extauthz_webhook_reached"}, "it has no webhook"
    assert {name for name in without & found.keys() if found[name]} == {
        "extauthz_quotas", "extauthz_intents", "extauthz_workloads", "extauthz_ready",
    }  # fmt: skip


@pytest.mark.parametrize("text", ASKED)
def test_alerts_and_dashboard_ask_for_what_is_there(page: str, text: str) -> None:
    there = {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE ")}
    asked = list(named(text))
    assert asked
    for name, labels in asked:
        assert name in there
        assert labels <= {*LABELS[name], *FROM_PROMETHEUS}


@pytest.mark.parametrize("text", [text for text in ASKED if GROUPED.search(text)])
def test_what_they_group_by_are_labels_of_what_they_ask_for(text: str) -> None:
    labels = {label for name, _ in named(text) for label in LABELS[name]}
    grouped = {label.strip() for group in GROUPED.findall(text) for label in group.split(",")}
    assert grouped <= labels | FROM_PROMETHEUS


def test_a_refusal_is_told_of_its_quota(page: str) -> None:
    found = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }
    acme = (("quota", "acme"), ("refusal", "ExceedsHard"), ("resource", "pods"))
    assert found["extauthz_quota_refusals_total", *acme] == 1
    assert found["extauthz_quota_episodes", *acme] == 1
    assert found["extauthz_quota_oldest_episode_seconds", *acme] >= 0
    # 4 are reserved, 5 more were asked for, and 4 are the limit.
    assert found["extauthz_quota_denied_demand", ("quota", "acme"), ("resource", "pods")] == 5
