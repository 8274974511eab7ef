"""The file of memory-pressure: its defaults, and what is refused, with the field and the cure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from memory_pressure.looking import FILE, WatchedMemory, from_environment, load
from memory_pressure.marks import Marks
from memory_pressure.options import PressureOptionsError, parse

from extauthz.inputs.files.content import FilesError
from extauthz.inputs.policies.plugins import Missing, enlisted

ALL = {"name": "all", "nodeSelector": {}}


def test_without_more_it_has_the_default_marks() -> None:
    options = parse({"pools": [ALL]})
    assert options.every_s == 15
    (pool,) = options.pools
    assert (pool.name, pool.marks) == ("all", Marks(90, 85, 3, 1))
    assert pool.selector.matches({})


def test_all_of_it_can_be_said() -> None:
    pool = {"name": "a", "nodeSelector": {"matchLabels": {"pool": "a"}}, "upper": 80, "lower": 70} | {
        "patience": 2,
        "step": 4,
    }
    options = parse({"everySeconds": 30, "pools": [pool]})
    assert options.every_s == 30
    assert options.pools[0].marks == Marks(80, 70, 2, 4)
    assert not options.pools[0].selector.matches({"pool": "b"})


def pools(**pool: Any) -> dict[str, Any]:
    return {"pools": [ALL | pool]}


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ([], "the object: [] is not a mapping"),
        ({}, "pools: there are 0 pools; write 1 to 64, such as {name: all, nodeSelector: {}}"),
        ({"pools": [ALL | {"name": f"p{at}"} for at in range(65)]}, "pools: there are 65 pools"),
        ({"pools": [ALL], "mode": "Audit"}, 'mode: unknown field "mode"'),
        ({"pools": [ALL], "everySeconds": 0}, "everySeconds: 0 is no whole number from 1 to 60; write for"),
        ({"pools": [ALL], "everySeconds": True}, "everySeconds: true is no whole number"),
        (pools(colour="red"), 'pools[0].colour: unknown field "colour"'),
        (pools(name="A b"), "pools[0].name: 'A b' is no name"),
        (pools(name=None), "pools[0].name: null is not a string; give it a value"),
        ({"pools": [ALL, ALL]}, "pools[1].name: 'all' is the name of an earlier pool; give it another one"),
        ({"pools": [{"name": "a"}]}, "pools[0].nodeSelector: is missing; write matchLabels, or {} for all nodes"),
        (pools(nodeSelector={"pool": "a"}), 'pools[0].nodeSelector.pool: unknown field "pool"'),
        (pools(upper=101), "pools[0].upper: 101 is no whole number from 1 to 100; write for example 90"),
        (pools(upper=85), "pools[0].lower: 85 is not below upper, 85"),
        (pools(lower=95), "pools[0].lower: 95 is not below upper, 90"),
        (pools(patience=0), "pools[0].patience: 0 is no whole number from 1 to 1000"),
        (pools(step="2"), "pools[0].step: '2' is no whole number from 1 to 10000"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_field_and_a_cure(tree: Any, said: str) -> None:
    with pytest.raises(PressureOptionsError) as refused:
        parse(tree)
    assert said in str(refused.value)


def test_a_file_says_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "pressure.yaml"
    path.write_text("everySeconds: 9\npools:\n- name: a\n  nodeSelector: {}\n  upper: 120\n  lower: 200\n")
    with pytest.raises(FilesError) as refused:
        load(path)
    assert [(one.line, one.field) for one in refused.value.problems] == [(5, "pools[0].upper"), (6, "pools[0].lower")]
    path.write_text("pools: [{name: a, nodeSelector: {}}]\n---\npools: []\n")
    with pytest.raises(FilesError, match=r"pressure\.yaml:3: there is a second document; write all pools in one"):
        load(path)
    path.write_text("pools: [{name: a, nodeSelector: {}}]\n")
    assert load(path).pools[0].name == "a"


def test_a_file_without_an_object_says_what_to_write(tmp_path: Path) -> None:
    path = tmp_path / "pressure.yaml"
    path.write_text("{apiVersion: v1, kind: List, items: []}\n")
    with pytest.raises(FilesError, match=r"pressure\.yaml: there is nothing in it; write pools: "):
        load(path)


def test_the_environment_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "pressure.yaml"
    path.write_text("everySeconds: 7\npools: [{name: a, nodeSelector: {}}]\n")
    assert from_environment({FILE: str(path)}).pools(0.0)[0].name == "a"
    with pytest.raises(FilesError, match="MEMORY_PRESSURE_FILE: is not set; name the file"):
        from_environment({})
    with pytest.raises(FilesError, match="/nowhere: cannot be read"):
        from_environment({FILE: "/nowhere"})


def test_the_gate_finds_it_by_its_entry_point_and_says_what_is_wrong_with_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "pressure.yaml"
    monkeypatch.setenv(FILE, str(path))
    path.write_text("pools: [{name: a, nodeSelector: {}}]\n")
    (one,) = enlisted(["memory-pressure=Audit"])
    if not isinstance(one.policy, WatchedMemory):
        pytest.fail(f"{one.policy}: install this folder first: pip install examples/memory-pressure")
    assert one.audits
    path.write_text("pools: []\n")
    (one,) = enlisted(["memory-pressure"])
    assert isinstance(one.policy, Missing)
    assert "pressure.yaml:1: pools: there are 0 pools; write 1 to 64" in one.policy.why
