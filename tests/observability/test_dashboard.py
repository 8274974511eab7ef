"""The dashboard, held to what Grafana reads of one (schemaVersion 39), and each expression to Prometheus' parser."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.observability.expressions import dashboard, expressions, panels, plain
from tests.observability.promtool import promtool

Tree = Any
WIDTH = 24
"""Columns of Grafana's grid."""

KINDS = {"row", "timeseries", "stat", "bargauge"}
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
OLDEST_SCHEMA = 39
"""Of Grafana 10.4. Later ones migrate it when they load it."""


def test_it_can_be_named_found_and_loaded() -> None:
    tree = dashboard()
    assert tree["uid"] == "extauthz"
    assert tree["title"].startswith("extauthz")
    assert tree["schemaVersion"] == OLDEST_SCHEMA
    assert "id" not in tree, "Grafana gives one; another's would be replaced"
    assert {*tree["time"]} == {"from", "to"}
    assert isinstance(tree["annotations"]["list"], list)


def test_the_source_is_chosen_by_a_variable_and_no_panel_has_another() -> None:
    first, *others = dashboard()["templating"]["list"]
    assert (first["name"], first["type"], first["query"]) == ("datasource", "datasource", "prometheus")
    assert {one["name"] for one in others} == {"quota", "resource"}
    assert all(one["datasource"] == SOURCE for one in others)
    for panel in panels():
        assert panel["datasource"] == SOURCE
        assert all(target["datasource"] == SOURCE for target in panel["targets"])


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_a_panel_has_what_grafana_needs(panel: Tree) -> None:
    assert panel["type"] in KINDS
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["fieldConfig"]["overrides"] == []
    assert panel["options"]
    letters = [target["refId"] for target in panel["targets"]]
    assert letters == [chr(ord("A") + number) for number in range(len(letters))]
    for target in panel["targets"]:
        assert target["expr"]
        assert target["legendFormat"]
        assert target.get("instant", False) is (panel["type"] != "timeseries")


def test_numbers_of_panels_are_unique() -> None:
    numbers = [panel["id"] for panel in dashboard()["panels"]]
    assert len(numbers) == len(set(numbers))


def test_no_two_panels_overlap_and_none_is_beside_the_grid() -> None:
    places = [panel["gridPos"] for panel in dashboard()["panels"]]
    for one in places:
        assert one["x"] >= 0
        assert one["w"] > 0
        assert one["x"] + one["w"] <= WIDTH
    for one, other in itertools.combinations(places, 2):
        apart_x = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        apart_y = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert apart_x or apart_y, (one, other)


@pytest.mark.promtool
def test_prometheus_can_parse_every_expression(tmp_path: Path) -> None:
    rules = [{"record": f"one:two:three{n}", "expr": plain(text)} for n, text in enumerate(expressions())]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}))
    done = promtool("check", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr
    rules[0]["expr"] += ")"
    file.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}))
    assert promtool("check", "rules", file).returncode != 0, "it does not see what is wrong"
