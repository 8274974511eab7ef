"""``.github``: workflows call targets of the Makefile and hold no logic of their own."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.parts import find
from tests.environment import HASHES

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z0-9-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
each = pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)


def jobs(workflow: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(workflow.read_text())["jobs"])


def steps(workflow: Path) -> list[dict[str, Any]]:
    return [step for job in jobs(workflow).values() for step in job["steps"]]


@pytest.mark.actionlint
def test_a_linter_of_workflows_finds_nothing():
    command = [str(find("actionlint")), "-shellcheck=", "-pyflakes=", *map(str, WORKFLOWS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@each
def test_a_step_is_an_action_or_targets_of_the_makefile(workflow: Path):
    for step in steps(workflow):
        if "uses" not in step:
            said = re.fullmatch(r"make((?: [a-z0-9-]+)+)(?: [A-Z_]+=\"[^\"$`]*\")?", step["run"])
            assert said, step["run"]
            assert set(said[1].split()) <= TARGETS


@each
def test_an_action_is_one_commit_and_says_its_version(workflow: Path):
    """A tag can be moved to another commit."""
    used = re.findall(r"uses: (.*)", workflow.read_text())
    assert len(used) == sum("uses" in step for step in steps(workflow))
    for each in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", each)


@each
def test_a_job_ends_and_may_write_nothing_but_the_release(workflow: Path):
    assert yaml.safe_load(workflow.read_text())["permissions"] == {"contents": "read"}
    assert all(job["timeout-minutes"] for job in jobs(workflow).values())
    assert [name for name, job in jobs(workflow).items() if "permissions" in job] == (
        ["release"] if workflow.stem == "release" else []
    )


def test_a_release_is_checked_built_and_signed_before_it_is_published():
    path = ROOT / ".github/workflows/release.yml"
    tree = yaml.safe_load(path.read_text())
    assert tree[True] == {"push": {"tags": ["v*"]}}, "on a tag, and on nothing else"
    order = [step["run"] for step in steps(path) if "run" in step]
    assert order == ["make check", "make release", "make sign", "make publish"]


def test_what_builds_a_release_may_not_sign_it_and_what_signs_it_builds_nothing():
    found = jobs(ROOT / ".github/workflows/release.yml")
    assert {name: job.get("needs") for name, job in found.items()} == {"build": None, "release": "build"}
    assert [step["run"] for step in found["release"]["steps"] if "run" in step] == ["make sign", "make publish"]
    assert set(found["release"]["permissions"]) == {"contents", "packages", "id-token", "attestations"}


def test_a_release_takes_the_versions_that_are_tested_by_their_hashes():
    """And so does what signs it."""
    found = jobs(ROOT / ".github/workflows/release.yml")
    assert all(job["env"]["REQUIRE_HASHES"] for job in found.values())
    text = (ROOT / HASHES).read_text()
    assert not re.search(r"https?:|--index|--find", text), "where packages come from is for whoever runs it"
    pinned = [re.findall(r"^(\S+)==(\S+)", one, re.MULTILINE) for one in (text, (ROOT / "constraints.txt").read_text())]
    by_hash, tested = ({(re.sub("[_.]", "-", name).lower(), version) for name, version in one} for one in pinned)
    assert by_hash <= tested
    assert all("--hash=sha256:" in one for one in re.split(r"^(?=\S)", text, flags=re.MULTILINE)[2:])


def test_each_python_of_the_classifiers_is_tested_on_each_machine():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pythons = [one.rpartition(" ")[2] for one in project["classifiers"] if "Python :: 3." in one]
    found = jobs(ROOT / ".github/workflows/tests.yml")
    assert pythons
    assert [found[job]["strategy"]["matrix"]["python"] for job in ("linux", "macos")] == [pythons, pythons]
    assert found["linux"]["strategy"]["matrix"]["machine"] == ["ubuntu-24.04", "ubuntu-24.04-arm"]


def test_tests_that_a_workflow_names_are_there():
    named = re.findall(r"tests/[\w/]+", "".join(step.get("run", "") for path in WORKFLOWS for step in steps(path)))
    assert named
    assert all((ROOT / one).exists() for one in named)


def test_a_commit_is_checked_as_ci_checks_it():
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [hook["entry"] for hook in repository["hooks"]] == ["make check"]


def test_forms_ask_for_what_is_needed():
    for form in sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("[!c]*.yml")):
        tree = yaml.safe_load(form.read_text())
        assert {"name", "description", "body"} <= tree.keys()
        assert any(field.get("validations", {}).get("required") for field in tree["body"])
    updated = yaml.safe_load((ROOT / ".github/dependabot.yml").read_text())["updates"]
    assert {one["package-ecosystem"] for one in updated} == {"pip", "github-actions"}


def test_few_names_greet_a_visitor():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = {line.partition("/")[0] for line in listed.splitlines()}
    assert len([name for name in names if not name.startswith(".")]) < 20
