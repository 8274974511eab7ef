"""Policies in quotas as sources read them: checked, or told that nobody can check them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from extauthz.core.quota.standing import Fault
from extauthz.files.content import FilesError
from extauthz.policies import cel
from extauthz.sources import file as quota_file
from extauthz.sources.gathering import Gathered, read


def tree(expression: str = "write.to < 9", **spec: Any) -> dict[str, Any]:
    policies = [{"name": "few", "expression": expression}]
    metadata = {"name": "acme", "uid": "u", "generation": 3, "resourceVersion": "7"}
    return {
        "apiVersion": "extauthz.dev/v1alpha1",
        "kind": "WorkspaceQuota",
        "metadata": metadata,
        "spec": {"namespaceSelector": {}, "hard": {"pods": "9"}, "policies": policies, **spec},
    }


@pytest.fixture
def no_cel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cel, "PACKAGE", "no_such_package")


def test_a_wrong_type_is_a_condition_with_the_place_and_the_last_good_spec_holds() -> None:
    gathered = Gathered()
    gathered.replace([read(tree())])
    gathered.take(read(tree("write.to < '9'")))
    found = gathered.quotas()
    (standing,) = found.standings
    assert (standing.fault, standing.in_force) == (Fault.INVALID, 3)
    assert standing.why.startswith("spec.policies[0].expression: line 1, column 10: found no matching overload")
    assert found.tree.nodes[0].quota.policies[0].expression == "write.to < 9"


@pytest.mark.usefixtures("no_cel")
def test_without_the_package_limits_hold_and_a_condition_says_what_to_install() -> None:
    gathered = Gathered()
    gathered.replace([read(tree())])
    (standing,) = gathered.quotas().standings
    assert (standing.fault, standing.in_force) == (Fault.POLICIES_UNREAD, 3)
    assert standing.why == (
        "spec.policies: this gate cannot evaluate expressions: few; install extauthz[cel] where it runs"
        ", with Python 3.14 or earlier"
    )
    assert gathered.quotas().tree.nodes[0].hard == {"pods": 9 * 10**9}


@pytest.mark.usefixtures("no_cel")
def test_a_parent_that_is_missing_is_told_first() -> None:
    gathered = Gathered()
    gathered.replace([read(tree(parent="nobody"))])
    assert gathered.quotas().standings[0].fault is Fault.PARENT_MISSING


def test_a_file_is_refused_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / "quotas.json"
    path.write_text(json.dumps(tree("write.form < 9"), indent=1))
    with pytest.raises(FilesError, match=r"quotas.json:\d+.*undeclared reference to 'write.form'"):
        quota_file.load(path)


@pytest.mark.usefixtures("no_cel")
def test_of_a_file_it_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "quotas.json"
    path.write_text(json.dumps(tree(), indent=1))
    (warning,) = quota_file.load(path).warnings
    assert "install extauthz[cel]" in str(warning)
