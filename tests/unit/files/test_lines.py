"""Which line a field stands on, in YAML and JSON, block and flow style, in documents and in items of Lists."""

from __future__ import annotations

import pytest

from extauthz.files.content import Content
from extauthz.files.lines import steps
from extauthz.files.objects import objects

LIST = """\
apiVersion: v1
items:
- kind: A
  spec:
    hard:
      requests.cpu: "1"
# é ü: not one byte each
- kind: B
  spec: {hard: {pods: 1,
    "requests.cpu": 2}}
  list:
  - x
  - y: [1,
     2]
kind: List
---
kind: C
spec:
  hard: {}
"""
JSON = '{"kind": "List", "items": [\n{"a": {"b":\n[1,\n2]}},\n\n{"a":\n{"b": [{"c":\t3}]}}]}'


def line(text: str, item: int, *path: str | int) -> int | None:
    placed = list(objects(Content("f", text.encode())))[item]
    return placed.problem(path, "", "", "").line


@pytest.mark.parametrize(
    ("text", "item", "path", "number"),
    [
        (LIST, 0, (), 3),
        (LIST, 0, ("spec",), 4),
        (LIST, 0, ("spec", "hard", "requests.cpu"), 6),
        (LIST, 1, ("kind",), 8),
        (LIST, 1, ("spec", "hard", "pods"), 9),
        (LIST, 1, ("spec", "hard", "requests.cpu"), 10),
        (LIST, 1, ("list", 0), 12),
        (LIST, 1, ("list", 1), 13),
        (LIST, 1, ("list", 1, "y", 1), 14),
        (LIST, 1, ("list", "1", "y"), 13),
        (LIST, 2, (), 17),
        (LIST, 2, ("spec", "hard"), 19),
        (JSON, 0, (), 2),
        (JSON, 0, ("a", "b", 1), 4),
        (JSON, 1, ("a",), 6),
        (JSON, 1, ("a", "b", 0, "c"), 7),
    ],
)
def test_a_field_is_found(text, item, path, number):
    assert line(text, item, *path) == number


@pytest.mark.parametrize(
    ("path", "number"),
    [
        pytest.param(("metadata", "name"), 3, id="nothing-of-it"),
        pytest.param(("spec", "mode"), 4, id="a-part-of-it"),
        pytest.param(("spec", 0), 4, id="a-number-in-a-mapping"),
        pytest.param(("kind", "x"), 3, id="below-a-scalar"),
    ],
)
def test_of_a_field_that_is_not_there_the_line_is_that_of_the_nearest_above(path, number):
    assert line(LIST, 0, *path) == number


@pytest.mark.parametrize("path", [("list", 7), ("list", "x")])
def test_of_an_element_that_is_not_there_the_line_is_that_of_the_list(path):
    assert line(LIST, 1, *path) == 11


def test_an_anchor_from_another_item_does_not_matter():
    text = "items:\n- &a {b: 1}\n- c: 1\n  d: *a\n  e:\n    f: 2\nkind: List\n"
    assert line(text, 1, "e", "f") == 6
    assert line(text, 1, "d", "b") == 4


def test_an_empty_item_stands_where_its_dash_is():
    assert line("items:\n- a: 1\n-\nkind: List\n", 1, "kind") == 3


def test_where_json_is_not_yaml_the_line_is_that_of_what_was_reached():
    assert line('{"a":\n1,\n"b":\n"\\ud83d\\ude00", "c": {"d":\n1}}', 0, "c", "d") == 1


@pytest.mark.parametrize(
    ("dotted", "path"),
    [
        ("", []),
        ("spec.replicas", ["spec", "replicas"]),
        ("spec.containers[0].name", ["spec", "containers", "0", "name"]),
        ("resources.requests[nvidia.com/gpu]", ["resources", "requests", "nvidia.com/gpu"]),
    ],
)
def test_steps_of_a_path_in_a_message(dotted, path):
    assert steps(dotted) == path
