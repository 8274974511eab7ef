"""Objects in YAML and JSON texts: how they are found, that both spellings agree, and where a text goes wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from extauthz.inputs.files.content import Content, FileProblem, FilesError
from extauthz.inputs.files.objects import objects

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=8)
KEYS = TEXTS.filter(lambda key: key != "items")
SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=12
)
OBJECTS = st.dictionaries(KEYS, TREES, min_size=1, max_size=4).map(lambda tree: {"kind": "Thing", **tree})


def read(text: str | bytes) -> list[Any]:
    return [placed.tree for placed in objects(Content("f", text if isinstance(text, bytes) else text.encode()))]


def refused(text: str | bytes) -> str:
    with pytest.raises(FilesError) as caught:
        read(text)
    (problem,) = caught.value.problems
    assert str(caught.value) == str(problem)
    return str(problem)


@given(st.lists(OBJECTS, min_size=1, max_size=3), st.sampled_from([None, 2]), st.booleans())
def test_json_gives_back_what_json_dumps_wrote(trees, indent, escaped):
    assert read("\n".join(json.dumps(tree, indent=indent, ensure_ascii=escaped) for tree in trees)) == trees


@given(st.lists(OBJECTS, min_size=1, max_size=3))
def test_a_list_gives_its_items_in_json_and_in_yaml(trees):
    texts = [json.dumps(tree, ensure_ascii=False) for tree in trees]
    assert read(f'{{"apiVersion": "v1", "items": [{", ".join(texts)}], "kind": "List"}}') == trees
    assert read("\n- ".join(["apiVersion: v1\nkind: List\nitems:", *texts])) == trees


@given(st.binary(max_size=200) | st.text(st.sampled_from("{}[]:,\"'-&*!%|>#? \n\tab1"), max_size=60).map(str.encode))
def test_whatever_the_bytes_a_file_is_read_or_refused_with_a_line(data):
    problems: tuple[FileProblem, ...] = ()
    try:
        read(data)
    except FilesError as error:
        problems = error.problems
    assert all(problem.line is not None and problem.line >= 1 for problem in problems)


@pytest.mark.parametrize(
    ("text", "trees"),
    [
        pytest.param("a: 1\n---\nb: 2\n", [{"a": 1}, {"b": 2}], id="documents"),
        pytest.param("---\na: 1\n---\n---\n# nothing\n", [{"a": 1}], id="empty-documents-do-not-count"),
        pytest.param('{"a": 1}\n{"b": 2}', [{"a": 1}, {"b": 2}], id="json-after-json"),
        pytest.param("{a: 1}", [{"a": 1}], id="flow-yaml-is-no-json"),
        pytest.param("{}", [{}], id="empty-object"),
        pytest.param("kind: List\nitems: []\n", [], id="empty-list"),
        pytest.param('{"kind": "List", "items": [ ] }', [], id="empty-json-list"),
        pytest.param("kind: List\n", [], id="list-without-items"),
        pytest.param("kind: ConfigMapList\nitems:\n- a: 1\n", [{"a": 1}], id="typed-list"),
        pytest.param("items:\n- 1\n- null\nkind: List\n", [1, None], id="items-of-no-kind-are-handed-on"),
        pytest.param("- 1\n", [[1]], id="no-mapping-is-handed-on"),
        pytest.param("kind: Thing\nitems:\n- a: 1\n", [{"a": 1}, {"kind": "Thing", "items": None}], id="not-a-list"),
        pytest.param("kind: Thing\nitems: 3\n", [{"kind": "Thing", "items": 3}], id="items-of-another-type"),
        pytest.param('\ufeff{"a": 1}', [{"a": 1}], id="byte-order-mark-json"),
        pytest.param("\ufeffa: 1", [{"a": 1}], id="byte-order-mark-yaml"),
        pytest.param("a: yes\nb: 0x10\nc: '1'\n", [{"a": True, "b": 16, "c": "1"}], id="scalars-as-kubectl-reads-them"),
        pytest.param("a: &x {b: 1}\nc: *x\n", [{"a": {"b": 1}, "c": {"b": 1}}], id="alias"),
        pytest.param("a: &x {b: 1}\nc:\n  <<: *x\n  d: 2\n", [{"a": {"b": 1}, "c": {"b": 1, "d": 2}}], id="merge"),
        pytest.param('{"a": "\\u00e9\\ud83d\\ude00"}', [{"a": "é😀"}], id="json-escapes"),
    ],
)
def test_what_a_text_holds(text, trees):
    assert read(text) == trees


EMPTY = "the file holds no objects; add an object, or, if none is meant, write {apiVersion: v1, kind: List, items: []}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", f"f:1: {EMPTY}", id="empty"),
        pytest.param("# quotas\n---\n", f"f:1: {EMPTY}", id="comments-only"),
        pytest.param("a: 1\nb: [\n", "f:3: not YAML: did not find expected node content", id="cut-off-yaml"),
        pytest.param("a:\n\tb: 1\n", "f:2: not YAML: found character that cannot start any token", id="tab"),
        pytest.param("a: 1\nb: \x01", "f:2: not YAML: control characters are not allowed", id="control-character"),
        pytest.param(b"a: 1\nb: \xff", "f:2: a byte is not UTF-8", id="not-utf-8"),
        pytest.param('{"a": 1,\n', "f:2: not JSON: Expecting value", id="cut-off-json"),
        pytest.param('{"a": [1,\n2', "f:2: not JSON: Expecting ',' delimiter", id="cut-off-json-list"),
        pytest.param('{"a" 1}', "f:1: not JSON: Expecting ':'", id="colon"),
        pytest.param('{"a": 1 "b": 2}', "f:1: not JSON: Expecting ','", id="comma"),
        pytest.param('{"a": 1,\n3: 4}', "f:2: not JSON: a key is not a string", id="json-key"),
        pytest.param('{"kind": "List", "items": [{},\n]}', "f:2: not JSON: Expecting value", id="trailing-comma"),
        pytest.param('{"a": 1}\nx', "f:2: not JSON: Expecting '{'", id="text-after-json"),
        pytest.param("a: 1\na: 2", "f:2: 'a' is given more than once; keep one of them", id="duplicate-key"),
        pytest.param("x:\n  a: 1\n  a: 2", "f:3: 'a' is given more than once", id="duplicate-inner-key"),
        pytest.param('{"a": 1,\n "a": 2}', "f:2: 'a' is given more than once", id="duplicate-json-key"),
        pytest.param('{"b":\n{"a": 1, "a": 2}}', "f:2: 'a' is given more than once", id="duplicate-inner-json-key"),
        pytest.param('{"a":\nNaN}', "f:2: NaN is not JSON; write a number", id="nan"),
        pytest.param('{"a": ' + "1" * 5000 + "}", "f:1: a number is too long", id="long-number"),
        pytest.param('{"a": ' + "[" * 50_000, "f:1: nested more than 100 deep", id="deep-json"),
        pytest.param('{"a":\n' + "[" * 101 + "]" * 101 + "}", "f:2: nested more than 100 deep", id="deep-whole-json"),
        pytest.param("a: " + "[" * 50_000, "f:1: nested more than 100 deep", id="deep-yaml"),
        pytest.param('{"a":\n"\\ud800"}', "f:1: '\\ud800' holds half a surrogate pair", id="surrogate"),
        pytest.param("a: 1\nb: *x", "f:2: unknown anchor 'x'; write the value out", id="unknown-anchor"),
        pytest.param("a: !!binary x", "remove the tag", id="tag"),
        pytest.param(
            "kind: List\nmetadata: {continue: abc}\nitems: []",
            "f:1: the List is only a part: it has metadata.continue; fetch it whole: kubectl get --chunk-size=0",
            id="part-of-a-list",
        ),
    ],
)
def test_where_a_text_goes_wrong_is_told_with_line_and_cure(text, message):
    assert message in refused(text)


def test_an_alias_bomb_is_refused():
    levels = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]\n" for n in range(1, 10))
    assert "f:5: more than 20000 YAML values" in refused(f"l0: &l0 [x, x, x, x, x, x, x, x, x, x]\n{levels}")


def test_what_stands_before_the_fault_is_handed_out():
    found = []
    with pytest.raises(FilesError):
        found.extend(placed.tree for placed in objects(Content("f", b"a: 1\n---\nb: [")))
    found_first = next(iter(objects(Content("f", b"a: 1\n---\nb: ["))))
    assert found_first.tree == {"a": 1}


@pytest.mark.parametrize("of", [json.dumps, yaml.safe_dump])
def test_a_list_is_not_held_in_memory_as_a_whole(of):
    """The second item is broken, and the first one was handed out before that was noticed."""
    text = of({"items": [{"kind": "A"}, {"kind": "SECOND"}], "kind": "List"})
    broken = text.replace("SECOND", '"{[')
    items = objects(Content("f", broken.encode()))
    assert next(items).tree == {"kind": "A"}
    with pytest.raises(FilesError):
        list(items)
