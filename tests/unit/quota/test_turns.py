"""``turns``, ``turnSeconds`` and ``weight`` of a quota."""

from __future__ import annotations

from typing import Any

import pytest

from extauthz.core.quota.spec import QuotaSpecError, parse
from extauthz.core.quota.tree import QuotaTree
from extauthz.testing import quota


def spec(**fields: Any) -> Any:
    tree = {"apiVersion": "extauthz.dev/v1alpha1", "kind": "WorkspaceQuota", "metadata": {"name": "root"}}
    return {**tree, "spec": {"hard": {"pods": "4"}, **fields}}


@pytest.mark.parametrize(
    ("fields", "turn_s", "weight"),
    [
        ({}, None, 1),
        ({"turns": "FirstCome"}, None, 1),
        ({"turns": "Share"}, 300, 1),
        ({"turns": "Share", "turnSeconds": 1}, 1, 1),
        ({"turns": "Share", "turnSeconds": 3600, "weight": 1000}, 3600, 1000),
    ],
)
def test_they_are_read(fields: dict[str, Any], turn_s: int | None, weight: int):
    read = parse(spec(**fields))
    assert (read.turn_s, read.weight) == (turn_s, weight)


WHOLE = "is no whole number from 1 to"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"turns": "share"}, "turns: 'share' is no order; use one of FirstCome, Share"),
        ({"turns": True}, "turns: true is no order; use one of FirstCome, Share"),
        (
            {"turns": "Share", "parent": "x"},
            "turns: a quota with a parent has its turns; write it there, or remove parent",
        ),
        ({"turnSeconds": 60}, "turnSeconds: it has no turns; write turns: Share, or remove it"),
        ({"turns": "Share", "turnSeconds": 0}, f"turnSeconds: 0 {WHOLE} 3600; write one, or remove it"),
        ({"turns": "Share", "turnSeconds": 3601}, f"turnSeconds: 3601 {WHOLE} 3600; write one, or remove it"),
        ({"weight": True}, f"weight: true {WHOLE} 1000; write one, or remove it"),
        ({"weight": 1001}, f"weight: 1001 {WHOLE} 1000; write one, or remove it"),
    ],
)
def test_what_is_wrong_is_told_with_field_and_cure(fields: dict[str, Any], problem: str):
    with pytest.raises(QuotaSpecError) as error:
        parse(spec(**fields))
    assert str(error.value) == f"spec.{problem}"


def test_a_quota_that_hangs_below_none_takes_its_turns_and_a_child_has_none_of_its_own():
    tree = QuotaTree.build([quota("a", {}, turn_s=60), quota("b", {}, parent="a"), quota("c", {})])
    assert [node.turn_s for node in tree.nodes] == [60, None, None]
    assert tree.has_turns
    assert not QuotaTree.build([quota("a", {})]).has_turns
