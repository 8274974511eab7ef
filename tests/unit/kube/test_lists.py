"""Lists are read item by item as they would be whole."""

from __future__ import annotations

import json
import math
import random
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extauthz.inputs.kube.clock import KEPT_S, ClockCheck
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


# How far a clock is off is told by answers that come anyway, and never for more than it is.


class Clocks:
    """Ours, which is off, and the server's, which is right."""

    def __init__(self, off_s: float) -> None:
        self.off_s = off_s
        self.now_s = 1_800_000_000.25
        self.check = ClockCheck(lambda: self.now_s + self.off_s, lambda: self.now_s - 1_799_999_000.0)

    def ask(self, there_s: float = 0.0, back_s: float = 0.0, after_s: float = 1.0) -> float:
        """How far it is off at least, after one answer more."""
        self.now_s += after_s
        began_s = self.check.begin()
        self.now_s += there_s
        date = formatdate(math.floor(self.now_s), usegmt=True)
        self.now_s += back_s
        self.check.answered(began_s, date)
        return self.check.off_s


@pytest.mark.parametrize("off_s", [-3600.0, -7.0, -2.5, 0.0, 0.9, 2.5, 5.5, 3600.0])
def test_what_is_said_is_a_bound_that_becomes_narrow(off_s: float):
    clocks, chance = Clocks(off_s), random.Random(1)
    for _ in range(60):
        least = clocks.ask(chance.random(), chance.random(), chance.uniform(0.0, 3.0))
        assert abs(least) <= abs(off_s)
        assert least * off_s >= 0
    assert abs(least - off_s) < 0.3 or off_s < 1.0


def test_before_an_answer_nothing_is_said():
    assert Clocks(60.0).check.off_s == 0.0


def test_the_way_there_and_back_is_no_difference():
    clocks = Clocks(0.0)
    assert clocks.ask(there_s=8.0) == 0.0
    assert clocks.ask(back_s=8.0) == 0.0
    assert Clocks(6.0).ask(back_s=8.0) == pytest.approx(5.25), "it may be 14.25 s, and it is 5.25 s at least"
    assert Clocks(-6.0).ask(there_s=8.0) == pytest.approx(-5.75)


def test_a_clock_that_was_set_is_told_by_the_next_answer():
    clocks = Clocks(60.0)
    clocks.ask()
    clocks.off_s = 0.0
    assert clocks.ask() == 0.0
    clocks.off_s = -60.0
    assert clocks.ask() < -59.0


def test_what_was_said_long_ago_is_forgotten_and_what_was_said_lately_is_not():
    clocks = Clocks(5.1)
    for _ in range(40):
        clocks.ask(after_s=1.03)
    fine = clocks.check.off_s
    assert fine > 5.0
    assert clocks.ask(there_s=0.9, after_s=KEPT_S) == fine
    assert clocks.ask(there_s=0.9, after_s=KEPT_S) < fine


@pytest.mark.parametrize("date", [None, "", "yesterday", "Thu, 99 Jan 2026 00:00:00 GMT"])
def test_an_answer_without_a_date_says_nothing(date: str | None):
    clocks = Clocks(0.0)
    clocks.check.answered(clocks.check.begin(), date)
    assert clocks.check.off_s == 0.0
