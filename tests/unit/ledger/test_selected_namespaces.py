"""Which namespaces a quota selects by itself, as namespaces come, change and go."""

from __future__ import annotations

from collections.abc import Mapping

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
        assert set(coverage.selection.of(node)) == selected, name
