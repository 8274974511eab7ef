"""Lists are read item by item as they would be whole."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extauthz.kube.lists import MAX_DEPTH, loads, members
from extauthz.kube.resource import ScaledKind, ScaledKinds
from tests.contract.test_discovery import SCALE, crews, definition, version

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


@given(VALUES, st.sampled_from(["", " ", "\n "]))
def test_one_text_is_read_as_it_is(value: object, space: str):
    assert loads(f"{space}{json.dumps(value)}{space}".encode()) == value


def nested(depth: int) -> str:
    return '{"a": [' * (depth // 2) + "]}" * (depth // 2)


@pytest.mark.parametrize("deep", [nested(4_000), nested(60_000), "[" * 5_000 + '"], {"' + "]" * 5_000])
def test_what_is_nested_too_deep_is_left_out_and_nothing_else(deep: str):
    text = f'{{"items": [{{"name": "a", "data": {deep}, "after": [1, "]"]}}, {{"name": "b"}}], "kind": "L"}}'
    *items, last = members(text)
    assert last == ("kind", "L")
    (_, first), second = items
    assert (first["name"], first["after"], second) == ("a", [1, "]"], ("items", {"name": "b"}))
    assert MAX_DEPTH - 3 <= depth_of(first["data"]) <= MAX_DEPTH
    assert [item["name"] for item in loads(text.encode())["items"]] == ["a", "b"]


def depth_of(tree: object) -> int:
    depth = 0
    while isinstance(tree, dict | list) and tree:
        tree, depth = next(iter(tree.values() if isinstance(tree, dict) else tree)), depth + 1
    return depth


def test_an_integer_that_is_too_long_is_a_text():
    assert list(members(f'{{"items": [{{"a": {"9" * 5_000}, "b": 7}}]}}')) == [("items", {"a": "9" * 5_000, "b": 7})]


@pytest.mark.parametrize("text", ["[" * 5_000, nested(4_000)[:-1], nested(4_000) + "x", "9" * 5_000 + "x"])
def test_what_breaks_off_in_the_deep_is_told(text: str):
    with pytest.raises(ValueError, match=r"."):
        loads(text.encode())


@pytest.mark.parametrize(
    "status", [{}, {"conditions": []}, {"conditions": [{"type": "Established", "status": "False"}]}]
)
def test_a_definition_that_is_not_served_yet_is_not_told(status: dict[str, object]):
    told: list[frozenset[ScaledKind]] = []
    handler = ScaledKinds(told.append)
    tree = definition("example.com", version("v1", scale=SCALE, stored=True))
    asyncio.run(handler.replaced([handler.convert(tree | {"status": status})], "1"))
    handler.changed("MODIFIED", handler.convert(tree))
    handler.changed("MODIFIED", handler.convert(tree))
    handler.changed("MODIFIED", handler.convert(tree | {"status": status}))
    assert told == [frozenset(), frozenset({crews("example.com")}), frozenset()]
