"""What pyproject.toml asks for at run time is imported, and what is imported is asked for."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
COMES_WITH = {"betterproto2": "envoy-data-plane", "yarl": "aiohttp", "pydantic-core": "pydantic"}
"""Part of what another package has its users write: messages, URLs, schemas."""
TEST_KIT = "extauthz/testing"
PACKAGES = metadata.packages_distributions()


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def asked_for(requirements: list[str]) -> set[str]:
    return {normal(re.split(r"[<>=\[;! ]", requirement)[0]) for requirement in requirements}


def imported(*, test_kit: bool) -> set[str]:
    """The top packages that the code imports, wherever the import stands."""
    found: set[str] = set()
    for file in (ROOT / "extauthz").rglob("*.py"):
        if test_kit != (TEST_KIT in file.as_posix()):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names - {"extauthz"}


def distributions(module: str) -> set[str]:
    """Who brings it; several may share a namespace."""
    return {COMES_WITH.get(name, name) for name in map(normal, PACKAGES[module])}


def test_every_dependency_is_imported():
    used = set().union(*(distributions(module) for module in imported(test_kit=False)))
    assert asked_for(PROJECT["dependencies"]) - used == set()


ON_DEMAND = {"matplotlib"}
"""Imported where a chart is drawn. Without it the command says what is missing."""


@pytest.mark.parametrize("module", sorted(ON_DEMAND))
def test_what_is_imported_on_demand_is_for_developers(module: str):
    assert distributions(module) & asked_for(PROJECT["optional-dependencies"]["dev"])


@pytest.mark.parametrize("module", sorted(imported(test_kit=False) - ON_DEMAND))
def test_what_is_imported_is_asked_for(module: str):
    optional = PROJECT["optional-dependencies"]["cel"] if module == "cel_expr_python" else []
    assert distributions(module) & asked_for([*PROJECT["dependencies"], *optional])


@pytest.mark.parametrize("module", sorted(imported(test_kit=True)))
def test_the_test_kit_needs_the_extra_of_developers_at_most(module: str):
    extras = PROJECT["optional-dependencies"]
    extra = asked_for([*PROJECT["dependencies"], *extras["dev"], *extras["demo"]])
    assert distributions(module) & extra
