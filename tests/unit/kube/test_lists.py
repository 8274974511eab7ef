"""Lists are read item by item as they would be whole."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extauthz.inputs.kube.lists import MAX_DEPTH, listed, loads
from extauthz.inputs.kube.resource import scaled
from tests.contract.test_discovery import SCALE, crews, definition, version

VALUES = st.sampled_from(
    [None, True, 1, -2.5, "", "}]", '"\\', "\u2028é", [], {}, [1, {"items": [3]}], {"a": {"b": []}}]
)
LISTS = st.fixed_dictionaries(
    {}, optional={"items": st.lists(VALUES, max_size=3), "metadata": VALUES, "": VALUES, "kind": VALUES}
)
SPACING = st.sampled_from([{}, {"separators": (",", ":")}, {"indent": 2}, {"ensure_ascii": False}])


def read(text: str) -> tuple[list[object], object]:
    """Items and metadata."""
    found = listed(text.encode())
    return [loads(bytes(item)) for item in found.items or ()], loads(bytes(found.metadata))


@given(LISTS, SPACING)
def test_every_item_comes_in_order(tree: dict, spacing: dict):
    found = read(f"\n {json.dumps(tree, **spacing)} \n")
    assert found == (tree.get("items", []), tree.get("metadata"))


def test_a_list_of_nothing_may_be_null():
    assert read('{"items": null}') == ([], None)


WHOLE = '{"metadata": {"a": "b"}, "items": [{"c": 1}, {"d": [2]}], "kind": "L"}'
OTHERS = ["", WHOLE + "x", "[]", "3", WHOLE.replace(",", ";", 1), '{"items": [1 2]}', '{"items": [1}', '{"items": {}}']


def test_a_list_that_breaks_off_anywhere_is_told():
    for end in range(len(WHOLE)):
        with pytest.raises(ValueError, match=r"."):
            read(WHOLE[:end])


@pytest.mark.parametrize("text", OTHERS)
def test_what_is_no_list_is_told(text: str):
    with pytest.raises(ValueError, match=r"."):
        read(text)


@given(VALUES, st.sampled_from(["", " ", "\n "]))
def test_one_text_is_read_as_it_is(value: object, space: str):
    assert loads(f"{space}{json.dumps(value)}{space}".encode()) == value


def nested(depth: int) -> str:
    return '{"a": [' * (depth // 2) + "]}" * (depth // 2)


@pytest.mark.parametrize("deep", [nested(4_000), nested(60_000), "[" * 5_000 + '"], {"' + "]" * 5_000])
def test_what_is_nested_too_deep_is_left_out_and_nothing_else(deep: str):
    text = f'{{"items": [{{"name": "a", "data": {deep}, "after": [1, "]"]}}, {{"name": "b"}}], "kind": "L"}}'
    first, second = read(text)[0]
    assert (first["name"], first["after"], second) == ("a", [1, "]"], {"name": "b"})
    assert MAX_DEPTH - 3 <= depth_of(first["data"]) <= MAX_DEPTH
    assert [item["name"] for item in loads(text.encode())["items"]] == ["a", "b"]


def depth_of(tree: object) -> int:
    depth = 0
    while isinstance(tree, dict | list) and tree:
        tree, depth = next(iter(tree.values() if isinstance(tree, dict) else tree)), depth + 1
    return depth


def test_an_integer_that_is_too_long_is_a_text():
    assert read(f'{{"items": [{{"a": {"9" * 5_000}, "b": 7}}]}}') == ([{"a": "9" * 5_000, "b": 7}], None)


@pytest.mark.parametrize("text", ["[" * 5_000, nested(4_000)[:-1], nested(4_000) + "x", "9" * 5_000 + "x"])
def test_what_breaks_off_in_the_deep_is_told(text: str):
    with pytest.raises(ValueError, match=r"."):
        loads(text.encode())


@pytest.mark.parametrize(
    "status", [{}, {"conditions": []}, {"conditions": [{"type": "Established", "status": "False"}]}]
)
def test_a_definition_that_is_not_served_yet_is_not_told(status: dict[str, object]):
    tree = definition("example.com", version("v1", scale=SCALE, stored=True))
    assert scaled(tree | {"status": status}) is None
    assert scaled(tree) == crews("example.com")
