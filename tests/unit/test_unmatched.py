"""A quota whose selector fits no namespace is told, in file mode."""

from __future__ import annotations

from pathlib import Path

from extauthz.core.ledger.coverage import Coverage
from extauthz.core.quota.selectors import LabelSelector
from extauthz.core.quota.spec import WorkspaceQuota
from extauthz.core.quota.tree import QuotaTree
from extauthz.service import sources

FILE = Path("quotas.yaml")


def over(*quotas: WorkspaceQuota, **namespaces: dict[str, str]) -> Coverage:
    made = Coverage()
    made.set_tree(QuotaTree.build(quotas))
    for name, labels in namespaces.items():
        made.set_labels(name, labels)
    return made


def quota(name: str, *, parent: str | None = None, **labels: str) -> WorkspaceQuota:
    return WorkspaceQuota(name, parent, LabelSelector(tuple(labels.items())) if labels else None)


def test_a_selector_that_fits_no_namespace_is_told_by_name():
    found = sources.unmatched(over(quota("acme", team="acme"), quota("typo", tem="b"), shop={"team": "acme"}), FILE)
    assert [str(each) for each in found] == [
        "quotas.yaml: WorkspaceQuota typo: its namespaceSelector selects no namespace; "
        "compare it with the labels of the namespaces in the state"
    ]


def test_a_parent_that_selects_nothing_itself_is_meant_so():
    assert not sources.unmatched(over(quota("big"), quota("a", parent="big", team="a"), shop={"team": "a"}), FILE)


def test_a_parent_whose_own_selector_fits_nothing_is_told_though_its_child_covers_something():
    tree = quota("big", team="b"), quota("a", parent="big", team="a")
    (told,) = sources.unmatched(over(*tree, shop={"team": "a"}), FILE)
    assert told.field == "WorkspaceQuota big"


def test_before_a_state_is_known_nothing_is_told():
    assert not sources.unmatched(over(quota("acme", team="acme")), FILE)


def test_many_are_counted():
    quotas = [quota(f"q{number:03}", team=str(number)) for number in range(100)]
    found = sources.unmatched(over(*quotas, shop={"team": "x"}), FILE)
    assert len(found) == sources.MOST_TOLD + 1
    assert found[-1].field == "80 WorkspaceQuotas more"
