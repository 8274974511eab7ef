"""Which namespaces a quota selects by itself, as namespaces come, change and go."""

from __future__ import annotations

from collections.abc import Mapping

from extauthz.core.quota.tree import QuotaTree
from extauthz.testing import gate, quota

ACME = {"workspace": "acme"}


def test_a_quota_selects_what_is_labelled_into_it_and_no_more():
    made = gate([quota("acme", {"pods": "9"})], namespaces={})
    coverage = made.ledger.coverage
    (node,) = coverage.tree.nodes
    steps: list[tuple[str, Mapping[str, str] | None, set[str]]] = [
        ("a", ACME, {"a"}),
        ("a", {}, set()),
        ("a", ACME, {"a"}),
        ("b", ACME, {"a", "b"}),
        ("c", ACME, {"a", "b", "c"}),
        ("b", None, {"a", "c"}),
        ("a", {"workspace": "zoo"}, {"c"}),
        ("c", None, set()),
        ("d", ACME, {"d"}),
    ]
    for name, labels, selected in steps:
        made.observe_namespace(name, labels)
        assert set(coverage.selected(node)) == selected, name


def test_what_is_learnt_of_namespaces_while_a_tree_is_prepared_is_in_it():
    made = gate([quota("zoo", {"pods": "9"})], namespaces={f"n{number:03}": ACME for number in range(130)})
    quotas = [quota("acme", {"pods": "9"}), *(quota(f"q{number:03}", {"pods": "1"}) for number in range(130))]
    salvaging = QuotaTree.salvaging(quotas)
    steps = 0
    while True:
        try:
            next(salvaging)
        except StopIteration as ended:
            tree, problems = ended.value
            break
        steps += 1
    assert (steps > 5, problems) == (True, ())
    assert [node.path for node in tree.nodes] == [node.path for node in QuotaTree.build(quotas).nodes]
    placing = made.ledger.coverage.placing(tree)
    next(placing)
    made.observe_namespace("n001", None)
    next(placing)
    made.observe_namespace("n002", {"workspace": "none"})
    made.observe_namespace("n129", None)
    made.observe_namespace("new", ACME)
    for _ in placing:
        pass
    made.load_quotas(tree, 0.0)
    named = {node.quota.name: node for node in made.ledger.coverage.tree.nodes}
    assert set(made.ledger.coverage.selected(named["acme"])) == {
        "new",
        *(f"n{number:03}" for number in range(130) if number not in (1, 2, 129)),
    }
