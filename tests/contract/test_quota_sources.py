"""The contract of a source of quotas: whatever the spelling, the same tree; whatever is wrong, all of it is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from extauthz.core.quota.spec import Mode
from extauthz.inputs.files.content import FilesError
from extauthz.inputs.files.watch import Watched
from extauthz.inputs.sources import file as quota_file


def quota(name: str, **spec: object) -> dict[str, object]:
    return {"apiVersion": "extauthz.dev/v1alpha1", "kind": "WorkspaceQuota", "metadata": {"name": name}, "spec": spec}


CORP = quota("corp", hard={"cpu": "100"})
ACME = quota(
    "acme",
    parent="corp",
    namespaceSelector={"matchLabels": {"workspace": "acme"}},
    hard={"requests.cpu": 10, "requests.nvidia.com/gpu": "4"},
    mode="Audit",
)


def yaml_documents(path: Path, *quotas: object) -> Path:
    (path / "q.yaml").write_text(yaml.safe_dump_all(quotas))
    return path / "q.yaml"


def yaml_list(path: Path, *quotas: object) -> Path:
    (path / "q.yaml").write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": list(quotas)}))
    return path / "q.yaml"


def yaml_typed_list(path: Path, *quotas: object) -> Path:
    whole = {"apiVersion": "extauthz.dev/v1alpha1", "kind": "WorkspaceQuotaList", "items": list(quotas)}
    (path / "q.yaml").write_text(yaml.safe_dump(whole))
    return path / "q.yaml"


def json_list(path: Path, *quotas: object) -> Path:
    (path / "q.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": quotas}, indent=4))
    return path / "q.json"


def directory(path: Path, *quotas: object) -> Path:
    for at, each in enumerate(quotas):
        (path / f"{at}.yaml").write_text(yaml.safe_dump(each))
    return path


SPELLINGS = [yaml_documents, yaml_list, yaml_typed_list, json_list, directory]


@pytest.fixture(params=SPELLINGS)
def spell(request) -> Callable[..., Path]:
    return request.param


def paths(quotas: quota_file.Quotas) -> list[tuple[str, ...]]:
    return [node.path for node in quotas.tree.nodes]


def test_the_tree_is_that_of_the_objects(spell, tmp_path):
    quotas = quota_file.load(spell(tmp_path, ACME, CORP))
    assert paths(quotas) == [("corp",), ("corp", "acme")]
    acme = quotas.tree.nodes[1].quota
    assert acme.hard == {"requests.cpu": 10 * 10**9, "requests.nvidia.com/gpu": 4 * 10**9}
    assert acme.mode is Mode.AUDIT
    assert [node.quota.name for node in quotas.tree.matching({"workspace": "acme"}, {})] == ["corp", "acme"]
    assert quotas.warnings == ()


def test_problems_of_all_objects_are_told_together(spell, tmp_path):
    bad = quota("bad", hard={"cpu": "x", "services": 1}, mode="Off")
    with pytest.raises(FilesError) as caught:
        quota_file.load(spell(tmp_path, bad, ACME, quota("B", namespaceSelektor={})))
    problems = caught.value.problems
    assert [problem.field for problem in problems] == [
        "spec.hard.cpu",
        "spec.hard.services",
        "spec.mode",
        "metadata.name",
        "spec.namespaceSelektor",
    ]
    assert all(problem.file and problem.line and problem.detail and problem.cure for problem in problems)


@pytest.mark.parametrize(
    ("quotas", "field", "details"),
    [
        pytest.param([ACME], "spec.parent", ['there is no WorkspaceQuota "corp"'], id="missing-parent"),
        pytest.param(
            [CORP, quota("corp")], "metadata.name", ['there is another WorkspaceQuota "corp"'], id="duplicate"
        ),
        pytest.param(
            [quota("a", parent="b"), quota("b", parent="a")],
            "spec.parent",
            ["parents run in a circle: a → b → a", "parents run in a circle: b → a → b"],
            id="circle",
        ),
    ],
)
def test_quotas_that_make_no_tree_are_refused_with_the_place(spell, tmp_path, quotas, field, details):
    with pytest.raises(FilesError) as caught:
        quota_file.load(spell(tmp_path, *quotas))
    problems = caught.value.problems
    assert [(problem.field, problem.detail) for problem in problems] == [(field, detail) for detail in details]
    for problem in problems:
        line = Path(problem.file).read_text().splitlines()[(problem.line or 0) - 1]
        assert field.rpartition(".")[2] in line


def test_a_limit_above_the_parents_is_told_and_taken(spell, tmp_path):
    quotas = quota_file.load(spell(tmp_path, CORP, quota("big", parent="corp", hard={"requests.cpu": "101"})))
    assert len(quotas.tree.nodes) == 2
    (warning,) = quotas.warnings
    assert warning.field == "spec.hard[requests.cpu]"
    assert "above that of the parent" in warning.detail


@pytest.mark.parametrize(
    "thing", [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}, "text", 3, None]
)
def test_what_is_no_workspace_quota_is_refused_with_the_cure(spell, tmp_path, thing):
    with pytest.raises(FilesError) as caught:
        quota_file.load(spell(tmp_path, CORP, {"kind": thing} if thing is None else thing))
    assert "write kind: WorkspaceQuota" in str(caught.value)


@pytest.mark.parametrize("spell", [yaml_documents, directory])
async def test_a_watched_source_keeps_to_the_good_and_tells_the_bad(spell, tmp_path):
    path = spell(tmp_path, CORP, ACME)
    watched = Watched(path, quota_file.parse)
    in_force = [watched.load()]
    refused: list[FilesError] = []
    changed = asyncio.Event()

    def accept(quotas: quota_file.Quotas) -> None:
        in_force.append(quotas)
        changed.set()

    def refuse(error: FilesError) -> None:
        refused.append(error)
        changed.set()

    task = asyncio.create_task(watched.watch(accept, refuse))
    spell(tmp_path, CORP, quota("acme", parent="nobody"))
    while not refused:  # a directory is written file by file, and may be good in between
        await asyncio.wait_for(changed.wait(), 5)
        changed.clear()
    assert paths(in_force[-1]) == [("corp",), ("corp", "acme")]
    spell(tmp_path, CORP, quota("other", parent="corp"))
    while paths(in_force[-1]) != [("corp",), ("corp", "other")]:
        await asyncio.wait_for(changed.wait(), 5)
        changed.clear()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_the_line_is_that_of_the_field(tmp_path):
    (tmp_path / "q.yaml").write_text(
        """\
# our quotas
apiVersion: extauthz.dev/v1alpha1
kind: WorkspaceQuota
metadata: {name: acme}
spec:
  hard:
    requests.cpu: "10"
    requests.memory: 64GB
---
apiVersion: extauthz.dev/v1alpha1
kind: WorkspaceQuota
metadata:
  name: corp
spec:
  namespaceSelector:
    matchLabels: {a: b,
      "c": yes}
  mod: Audit
"""
    )
    with pytest.raises(FilesError) as caught:
        quota_file.load(tmp_path / "q.yaml")
    told = str(caught.value).replace(str(tmp_path), "").splitlines()
    assert told[0].startswith("/q.yaml:8: spec.hard[requests.memory]: '64GB' is not a quantity: ")
    assert told[0].endswith('; write for example "10", 500m or 64Gi')
    assert told[1:] == [
        '/q.yaml:18: spec.mod: unknown field "mod"; did you mean mode?',
        "/q.yaml:17: spec.namespaceSelector.matchLabels.c: true is not a string; put it in quotes",
    ]


def test_broken_files_of_a_directory_are_told_with_the_rest(tmp_path):
    (tmp_path / "a.yaml").write_text("a: [")
    (tmp_path / "b.yaml").write_text("")
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(quota("C")))
    with pytest.raises(FilesError) as caught:
        quota_file.load(tmp_path)
    assert [Path(problem.file).name for problem in caught.value.problems] == ["a.yaml", "b.yaml", "c.yaml"]


def test_no_quotas_at_all_must_be_said(tmp_path):
    (tmp_path / "q.yaml").write_text("{apiVersion: v1, kind: List, items: []}")
    assert quota_file.load(tmp_path / "q.yaml").tree.nodes == ()
    (tmp_path / "q.yaml").write_text("")
    with pytest.raises(FilesError, match="the file holds no objects"):
        quota_file.load(tmp_path / "q.yaml")
