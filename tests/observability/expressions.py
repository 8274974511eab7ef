"""The expressions of the alerts and of the dashboard, and the metrics and labels that they name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "charts" / "extauthz" / "observability"
ALERTS = FOLDER / "alerts.yaml"
DASHBOARD = FOLDER / "dashboard.json"

Tree = Any

METRIC = re.compile(r"\b(extauthz_[a-z_]+)(?:\{([^}]*)\})?")
LABEL = re.compile(r"([a-z_]+)\s*(?:=~|!~|!=|=)")
GROUPED = re.compile(r"\b(?:by|on) \(([^)]*)\)")
FROM_PROMETHEUS = frozenset({"instance", "job", "pod", "namespace", "le"})
"""Labels that scrapes add, and that of a histogram's buckets."""


def alerts() -> list[Tree]:
    """Every rule."""
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def dashboard() -> Tree:
    return json.loads(DASHBOARD.read_text())


def panels() -> list[Tree]:
    """Those that show something."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[str]:
    """All of them, those of the dashboard with Grafana's variables."""
    for rule in alerts():
        yield rule["expr"]
    for panel in panels():
        for target in panel["targets"]:
            yield target["expr"]


def queries() -> Iterator[str]:
    """What fills the dashboard's variables: ``label_values(SERIES, LABEL)``."""
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


def named(text: str) -> Iterator[tuple[str, set[str]]]:
    """Each metric in an expression, by the name of its family, and the labels that it selects by."""
    for name, selected in METRIC.findall(text):
        family = re.sub(r"(?<=_seconds)_(bucket|sum|count)$", "", name)
        yield family, set(LABEL.findall(selected))


def plain(text: str) -> str:
    """An expression without Grafana's variables, as Prometheus gets it."""
    return text.replace("$__rate_interval", "5m").replace("$quota", ".*").replace("$resource", ".*")
