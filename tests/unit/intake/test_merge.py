"""Merge patches give what RFC 7386 and the API server's library say."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extauthz.core.effects.patches.merge import merge
from extauthz.core.errors import PatchError
from extauthz.core.objects.partial import Hidden, Partial


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
    ids=repr,
)
def test_the_examples_of_rfc_7386_give_what_it_says(document, patch, expected):
    assert merge(document, patch) == expected


def test_nulls_inside_new_lists_go_too_as_the_library_has_it():
    assert merge({}, {"a": [{"b": None, "c": 1}, None]}) == {"a": [{"c": 1}, None]}


def test_null_removes_what_is_not_there():
    assert merge({"a": 1}, {"b": None}) == {"a": 1}


@pytest.mark.parametrize("patch", [None, [], "text", 5, True], ids=repr)
def test_a_patch_of_an_object_must_be_an_object(patch):
    with pytest.raises(PatchError) as caught:
        merge({}, patch)
    assert caught.value.code == "patch-malformed"


def test_what_was_never_seen_is_replaced_by_a_value_and_not_merged_with_an_object():
    assert merge({"replicas": Hidden.BASE}, {"replicas": 5}) == {"replicas": 5}
    with pytest.raises(PatchError) as caught:
        merge({"template": Hidden.BASE}, {"template": {"spec": {}}})
    assert caught.value.code == "object-not-seen"


def test_a_partial_object_stays_partial():
    assert merge({"a": Partial("spec", {"replicas": 1})}, {"a": {"replicas": 2}})["a"].of == "spec"


trees = st.recursive(
    st.none() | st.integers(0, 3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from("abc"), trees, max_size=3)


def has_null_member(tree):
    if isinstance(tree, dict):
        return any(value is None or has_null_member(value) for value in tree.values())
    return isinstance(tree, list) and any(has_null_member(item) for item in tree)


@given(objects, objects)
def test_merging_twice_changes_nothing_more_and_never_the_patch(document, patch):
    before = copy.deepcopy(patch)
    once = copy.deepcopy(merge(document, patch))
    assert merge(copy.deepcopy(once), patch) == once
    assert patch == before


@given(objects)
def test_merging_into_nothing_gives_the_patch_without_nulls(patch):
    assert not has_null_member(merge({}, patch))
