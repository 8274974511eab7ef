"""Lists are read item by item as they would be whole."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extauthz.kube.lists import members

VALUES = st.sampled_from(
    [None, True, 1, -2.5, "", "}]", '"\\', "\u2028é", [], {}, [1, {"items": [3]}], {"a": {"b": []}}]
)
LISTS = st.dictionaries(st.sampled_from(["items", "metadata", "", "kind"]), VALUES | st.lists(VALUES, max_size=3))
SPACING = st.sampled_from([{}, {"separators": (",", ":")}, {"indent": 2}, {"ensure_ascii": False}])


@given(LISTS, SPACING)
def test_every_member_and_every_item_comes_in_order(tree: dict, spacing: dict):
    wanted: list[tuple[str, object]] = []
    for name, value in tree.items():
        is_items = name == "items" and isinstance(value, list)
        wanted += [(name, item) for item in value] if is_items else [(name, value)]
    assert list(members(f"\n {json.dumps(tree, **spacing)} \n")) == wanted


WHOLE = '{"metadata": {"a": "b"}, "items": [{"c": 1}, {"d": [2]}], "kind": "L"}'
OTHERS = [WHOLE + "x", "[]", "3", WHOLE.replace(",", ";", 1), '{"items": [1 2]}', '{"items": [1}']


def test_a_list_that_breaks_off_anywhere_is_told():
    for end in range(len(WHOLE)):
        with pytest.raises(ValueError, match=r"."):
            list(members(WHOLE[:end]))


@pytest.mark.parametrize("text", OTHERS)
def test_what_is_not_one_object_is_told(text: str):
    with pytest.raises(ValueError, match=r"."):
        list(members(text))
