"""Who is told of namespaces that are labelled for a quota that is not there."""

from __future__ import annotations

import pytest

from extauthz.core.quota.spec import parse
from extauthz.core.quota.tree import QuotaTree
from extauthz.tell.observe.strays import AT_ONCE, Strays
from extauthz.testing import gate

SELECTING = {"namespaceSelector": {"matchLabels": {"team": "a"}}}


def quota(name: str, **spec: object) -> dict[str, object]:
    spec = {"hard": {"pods": "1"}, **spec}
    return {"apiVersion": "extauthz.dev/v1alpha1", "kind": "WorkspaceQuota", "metadata": {"name": name}, "spec": spec}


async def told(*quotas: dict[str, object], looks: int = 3) -> list[tuple[str, str]]:
    known = gate([])
    known.load_quotas(QuotaTree.build([parse(one) for one in quotas]), 0.0)
    for name, labels in {
        "shop": {"workspace": "acme"},
        "mistyped": {"workspace": "acmee"},
        "by-team": {"workspace": "other", "team": "a"},
        "plain": {},
    }.items():
        known.observe_namespace(name, labels)
    known.state_synced(True)
    found: list[tuple[str, str]] = []
    strays = Strays(known, lambda name, label: found.append((name, label)))
    for _ in range(looks):
        await strays.look()
    return found


@pytest.mark.parametrize(
    ("quotas", "looks", "expected"),
    [
        pytest.param([quota("acme")], 3, {"mistyped": "acmee", "by-team": "other"}, id="once"),
        pytest.param([quota("acme")], 1, {}, id="not-at-the-first-look"),
        pytest.param([quota("acme"), quota("a", **SELECTING)], 3, {"mistyped": "acmee"}, id="another-quota-selects-it"),
        pytest.param([quota("a", **SELECTING)], 3, {}, id="no-quota-looks-at-that-label"),
        pytest.param([quota("acme"), quota("acmee"), quota("other")], 3, {}, id="all-covered"),
    ],
)
async def test_a_label_that_no_quota_covers_is_told_once(quotas, looks, expected):
    assert sorted(await told(*quotas, looks=looks)) == sorted(expected.items())


async def test_what_may_be_out_of_date_is_told_to_nobody_and_a_label_that_comes_back_is_told_again():
    known = gate([])
    known.load_quotas(QuotaTree.build([parse(quota("acme"))]), 0.0)
    found: list[tuple[str, str]] = []
    strays = Strays(known, lambda name, label: found.append((name, label)))
    for labels, stale in [
        ({"workspace": "x"}, "old"),
        ({"workspace": "x"}, None),
        ({}, None),
        ({"workspace": "x"}, None),
    ]:
        known.observe_namespace("shop", labels)
        known.stale(stale)
        for _ in range(2):
            await strays.look()
    assert found == [("shop", "x")] * 2


async def test_of_many_a_few_are_told_at_each_look_and_in_the_end_all():
    known = gate([])
    known.load_quotas(QuotaTree.build([parse(quota("acme"))]), 0.0)
    for number in range(AT_ONCE + 1):
        known.observe_namespace(f"n{number:02}", {"workspace": "x"})
    known.state_synced(True)
    found: list[str] = []
    strays = Strays(known, lambda name, label: found.append(name))
    told = []
    for _ in range(4):
        await strays.look()
        told.append(len(found))
    assert told == [0, AT_ONCE, AT_ONCE + 1, AT_ONCE + 1]
