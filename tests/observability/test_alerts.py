"""The alerts: promtool fires each of them, and each only when it should."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.observability.expressions import ALERTS, ROOT, alerts
from tests.observability.promtool import promtool

CASES = Path(__file__).parent / "alerts.yaml"
PAGE = ROOT / "docs" / "metrics.md"
NAMES = [rule["alert"] for rule in alerts()]

pytestmark = pytest.mark.promtool


def holds(folder: Path, rules: str) -> bool:
    """Whether the cases hold of other rules."""
    (folder / "rules.yaml").write_text(rules)
    cases = yaml.safe_load(CASES.read_text()) | {"rule_files": ["rules.yaml"]}
    (folder / "cases.yaml").write_text(yaml.safe_dump(cases))
    return promtool("test", "rules", folder / "cases.yaml").returncode == 0


def test_the_rules_are_rules() -> None:
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", ALERTS)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_fires_when_it_should_and_not_else() -> None:
    done = promtool("test", "rules", CASES)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("expression", ["vector(0) > 1", "vector(1)"], ids=["never", "always"])
def test_the_cases_notice_an_alert_that_fires_never_or_always(tmp_path: Path, name: str, expression: str) -> None:
    tree = yaml.safe_load(ALERTS.read_text())
    assert holds(tmp_path, yaml.safe_dump(tree)), "unchanged it is well"
    for group in tree["groups"]:
        for rule in group["rules"]:
            rule["expr"] = expression if rule["alert"] == name else rule["expr"]
    assert not holds(tmp_path, yaml.safe_dump(tree))


def test_the_page_has_every_alert() -> None:
    assert re.findall(r"^- `(Extauthz\w+)`: ", PAGE.read_text(), re.MULTILINE) == NAMES


@pytest.mark.parametrize("rule", alerts(), ids=NAMES)
def test_each_alert_says_what_it_means_and_what_to_do(rule: dict) -> None:
    assert rule["labels"]["severity"] in ("info", "warning", "critical")
    assert {*rule["annotations"]} == {"summary", "description"}
