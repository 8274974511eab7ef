"""Label selectors: what they match, against a naive oracle, and what is refused, as Kubernetes refuses it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extauthz.core.quota.problems import Problems, dotted
from extauthz.core.quota.selectors import LabelSelector, is_subdomain, parse

KEYS = st.sampled_from(["a", "b", "example.com/c"])
VALUES = st.sampled_from(["", "x", "y", "z"])
LABELS = st.dictionaries(KEYS, VALUES)
EXPRESSIONS = st.one_of(
    st.fixed_dictionaries(
        {"key": KEYS, "operator": st.sampled_from(["In", "NotIn"]), "values": st.lists(VALUES, min_size=1, max_size=3)}
    ),
    st.fixed_dictionaries({"key": KEYS, "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
)
SELECTORS = st.fixed_dictionaries(
    {}, optional={"matchLabels": LABELS, "matchExpressions": st.lists(EXPRESSIONS, max_size=3)}
)


def read(tree) -> LabelSelector:
    problems = Problems()
    selector = parse(tree, ("spec", "selector"), problems)
    assert list(problems) == []
    return selector


def refused(tree) -> dict[str, str]:
    problems = Problems()
    parse(tree, (), problems)
    return {dotted(path): f"{detail}; {cure}" for path, detail, cure in problems}


def oracle(tree, labels) -> bool:
    """The words of the Kubernetes documentation, one by one."""
    for key, value in tree.get("matchLabels", {}).items():
        if key not in labels or labels[key] != value:
            return False
    for line in tree.get("matchExpressions", []):
        present = line["key"] in labels
        listed = present and labels[line["key"]] in line.get("values", [])
        holds = {"In": listed, "NotIn": not listed, "Exists": present, "DoesNotExist": not present}
        if not holds[line["operator"]]:
            return False
    return True


@given(SELECTORS, LABELS)
def test_matches_what_the_documentation_says(tree, labels):
    assert read(tree).matches(labels) == oracle(tree, labels)


@given(SELECTORS, LABELS)
def test_labels_that_match_carry_one_of_each_set_of_anchors(tree, labels):
    selector = read(tree)
    carried = {*labels.items(), *((key, None) for key in labels)}
    if selector.matches(labels):
        assert all(carried & set(alternatives) for alternatives in selector.anchors())


@pytest.mark.parametrize("tree", [{}, {"matchLabels": {}}, {"matchLabels": None, "matchExpressions": None}])
def test_an_empty_selector_selects_all(tree):
    assert read(tree).selects_all
    assert read(tree).matches({})


def test_a_selector_that_asks_for_a_label_does_not_select_all():
    assert not read({"matchLabels": {"a": "x"}}).selects_all
    assert not read({"matchExpressions": [{"key": "a", "operator": "Exists"}]}).selects_all


@pytest.mark.parametrize(
    ("tree", "path", "says"),
    [
        ("web", "the object", "'web' is not a mapping; write `key: value` pairs"),
        ({"matchLabel": {}}, "matchLabel", 'unknown field "matchLabel"; did you mean matchLabels?'),
        ({"zz": {}}, "zz", "known fields: matchLabels, matchExpressions"),
        ({"matchLabels": ["a"]}, "matchLabels", "['a'] is not a mapping"),
        ({"matchLabels": {"a": True}}, "matchLabels.a", "true is not a string; put it in quotes"),
        ({"matchLabels": {"a": None}}, "matchLabels.a", "null is not a string; give it a value"),
        ({"matchLabels": {1: "a"}}, "matchLabels", "the key 1 is not a string; put the key in quotes"),
        ({"matchLabels": {"a": "-x"}}, "matchLabels.a", "'-x' is not a label value"),
        ({"matchLabels": {"a": "x" * 64}}, "matchLabels.a", "is not a label value"),
        ({"matchLabels": {"a": "x\n"}}, "matchLabels.a", "is not a label value"),
        ({"matchLabels": {"-a": "x"}}, "matchLabels.-a", "'-a' is not a label key"),
        ({"matchLabels": {"": "x"}}, "matchLabels[]", "'' is not a label key"),
        ({"matchLabels": {"A.com/a": "x"}}, "matchLabels[A.com/a]", "write example.com/name"),
        ({"matchLabels": {"/a": "x"}}, "matchLabels[/a]", "the prefix of label key '/a'"),
        ({"matchLabels": {"a/b/c": "x"}}, "matchLabels[a/b/c]", "the prefix of label key"),
        ({"matchExpressions": {"key": "a"}}, "matchExpressions", "is not a list; write `- item` lines"),
        ({"matchExpressions": [{"operator": "Exists"}]}, "matchExpressions[0].key", "give it a value"),
        (
            {"matchExpressions": [{"key": "-", "operator": "Exists"}]},
            "matchExpressions[0].key",
            "'-' is not a label key",
        ),
        (
            {"matchExpressions": [{"key": "a", "operator": "Exist"}]},
            "matchExpressions[0].operator",
            "'Exist' is not an operator; use one of In, NotIn, Exists, DoesNotExist",
        ),
        ({"matchExpressions": [{"key": "a", "operator": ""}]}, "matchExpressions[0].operator", "is not an operator"),
        (
            {"matchExpressions": [{"key": "a", "operator": "In", "values": []}]},
            "matchExpressions[0].values",
            "In without values; list at least one value",
        ),
        (
            {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]},
            "matchExpressions[0].values",
            "Exists takes no values; remove values, or use In or NotIn",
        ),
        (
            {"matchExpressions": [{"key": "a", "operator": "In", "values": ["x", 3]}]},
            "matchExpressions[0].values[1]",
            "3 is not a string; put it in quotes",
        ),
        (
            {"matchExpressions": [{"key": "a", "operator": "Exists", "vals": []}]},
            "matchExpressions[0].vals",
            "did you mean values?",
        ),
    ],
)
def test_what_kubernetes_refuses_is_refused_with_field_and_cure(tree, path, says):
    found = refused(tree)
    assert list(found) == [path]
    assert says in found[path]


def test_all_problems_are_listed():
    tree = {
        "matchLabels": {"a": 1},
        "matchExpressions": [{"key": "a", "operator": "In"}, {"key": "b", "operator": "Foo"}],
    }
    assert list(refused(tree)) == ["matchLabels.a", "matchExpressions[0].values", "matchExpressions[1].operator"]


@pytest.mark.parametrize("name", ["a", "a-b.c", "0", "a" * 253])
def test_subdomains(name):
    assert is_subdomain(name)


@pytest.mark.parametrize("name", ["", "A", "-a", "a-", "a..b", "a.", "a\n", "ä", "a_b", "a" * 254])
def test_no_subdomains(name):
    assert not is_subdomain(name)
