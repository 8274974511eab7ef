"""``sharing`` of a quota: ``turns``, ``turnSeconds`` and ``weight``."""

from __future__ import annotations

from typing import Any

import pytest

from extauthz.core.quota.spec import QuotaSpecError, parse
from extauthz.core.quota.tree import QuotaTree, QuotaTreeError
from extauthz.testing import quota


def spec(**fields: Any) -> Any:
    tree = {"apiVersion": "extauthz.dev/v1alpha1", "kind": "WorkspaceQuota", "metadata": {"name": "root"}}
    return {**tree, "spec": {"hard": {"pods": "4"}, **fields}}


@pytest.mark.parametrize(
    ("sharing", "parent", "turn_s", "weight"),
    [
        (None, None, None, 1),
        ({}, None, None, 1),
        ({"turns": "FirstCome"}, None, None, 1),
        ({"turns": "Share"}, None, 300, 1),
        ({"turns": "Share", "turnSeconds": 1}, None, 1, 1),
        ({"turns": "Share", "turnSeconds": 3600}, None, 3600, 1),
        ({"weight": 1000}, "root", None, 1000),
    ],
)
def test_they_are_read(sharing: Any, parent: str | None, turn_s: int | None, weight: int):
    read = parse(spec(sharing=sharing, parent=parent))
    assert (read.turn_s, read.weight) == (turn_s, weight)


NO_TURNS = "it has no turns; write turns: Share, or remove it"
WHOLE = "is no whole number from 1 to"


@pytest.mark.parametrize(
    ("sharing", "parent", "problem"),
    [
        ({"turns": "share"}, None, "turns: 'share' is no order; use one of FirstCome, Share"),
        ({"turns": True}, None, "turns: true is no order; use one of FirstCome, Share"),
        (
            {"turns": "FirstCome"},
            "x",
            "turns: the root of its tree says it; write it there, or remove parent",
        ),
        ({"turnSeconds": 60}, None, f"turnSeconds: {NO_TURNS}"),
        (
            {"turns": "FirstCome", "turnSeconds": 60},
            None,
            f"turnSeconds: {NO_TURNS}",
        ),
        ({"turns": "Share", "turnSeconds": 0}, None, f"turnSeconds: 0 {WHOLE} 3600; write one, or remove it"),
        ({"turns": "Share", "turnSeconds": 3601}, None, f"turnSeconds: 3601 {WHOLE} 3600; write one, or remove it"),
        ({"weight": True}, "x", f"weight: true {WHOLE} 1000; write one, or remove it"),
        ({"weight": 1001}, "x", f"weight: 1001 {WHOLE} 1000; write one, or remove it"),
        ({"weight": 2}, None, "weight: a root shares with nobody; write it on its children, or remove it"),
        ({"turn": "Share"}, None, 'turn: unknown field "turn"; did you mean turns?'),
    ],
)
def test_what_is_wrong_or_without_effect_is_told_with_field_and_cure(
    sharing: dict[str, Any], parent: str | None, problem: str
):
    with pytest.raises(QuotaSpecError) as error:
        parse(spec(sharing=sharing, parent=parent))
    assert str(error.value) == f"spec.sharing.{problem}"


@pytest.mark.parametrize("field", ["turns", "turnSeconds", "weight"])
def test_a_field_that_sharing_has_now_names_it(field: str):
    with pytest.raises(QuotaSpecError) as error:
        parse(spec(**{field: "Share"}))
    assert str(error.value) == f"spec.{field}: it is a field of sharing; write sharing: {{{field}: …}}"


@pytest.mark.parametrize(
    ("turn_s", "heavy", "refused"),
    [
        (60, ["child"], []),
        (60, ["grandchild"], ["grandchild"]),
        (None, ["child", "grandchild"], ["child", "grandchild"]),
    ],
    ids=["a child of a root with turns", "a grandchild", "no turns"],
)
def test_a_weight_where_nothing_is_shared_by_weight_is_refused_and_an_object_of_the_cluster_stays_in_force(
    turn_s: int | None, heavy: list[str], refused: list[str]
):
    parents = {"root": None, "child": "root", "grandchild": "child"}
    times, weights = {"root": turn_s}, dict.fromkeys(heavy, 2)
    quotas = [
        quota(name, {"pods": "4"}, parent=parent, weight=weights.get(name), turn_s=times.get(name))
        for name, parent in parents.items()
    ]
    tree, problems = QuotaTree.salvage(quotas)
    assert [problem.quota for problem in problems] == refused
    assert [node.quota for node in tree.nodes] == quotas
    if not refused:
        assert QuotaTree.build(quotas).nodes[1].quota.weight == 2
        return
    with pytest.raises(QuotaTreeError, match=f'"{refused[0]}": spec.sharing.weight: its parent'):
        QuotaTree.build(quotas)


def test_a_quota_that_hangs_below_none_takes_its_turns_and_a_child_has_none_of_its_own():
    tree = QuotaTree.build([quota("a", {}, turn_s=60), quota("b", {}, parent="a"), quota("c", {})])
    assert [node.turn_s for node in tree.nodes] == [60, None, None]
    assert tree.has_turns
    assert not QuotaTree.build([quota("a", {})]).has_turns
