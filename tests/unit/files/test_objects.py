"""Objects in YAML and JSON texts: how they are found, that both spellings agree, and where a text goes wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extauthz.inputs.files.content import Content, FileProblem, FilesError
from extauthz.inputs.files.objects import objects
from tests.waiting import not_hanging

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=8)
KEYS = TEXTS.filter(lambda key: key != "items")
SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=12
)
OBJECTS = st.dictionaries(KEYS, TREES, min_size=1, max_size=4).map(lambda tree: {"kind": "Thing", **tree})


def read(text: str | bytes) -> list[Any]:
    found, problems = objects([Content("f", text if isinstance(text, bytes) else text.encode())])
    if problems:
        raise FilesError(problems)
    return [placed.tree for placed in found]


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
        pytest.param("kind: Thing\nitems:\n- a: 1\n", [{"kind": "Thing", "items": [{"a": 1}]}], id="not-a-list"),
        pytest.param("kind: Thing\nitems: 3\n", [{"kind": "Thing", "items": 3}], id="items-of-another-type"),
        pytest.param('\ufeff{"a": 1}', [{"a": 1}], id="byte-order-mark-json"),
        pytest.param("\ufeffa: 1", [{"a": 1}], id="byte-order-mark-yaml"),
        pytest.param('{"a": 1}\n---\n{"b": 2}\n', [{"a": 1}, {"b": 2}], id="json-with-dashes-between"),
        pytest.param('---\n{"a": 1}\n---\nb: 2\n', [{"a": 1}, {"b": 2}], id="yaml-after-json"),
        pytest.param('{"a": 1,}\n', [{"a": 1}], id="yaml-that-looks-like-json"),
        pytest.param('{"a": 1} # one\n', [{"a": 1}], id="comment-after-json"),
        pytest.param(
            "a: yes\nb: 0x10\nc: '1'\nd: 010\ne: ~\n", [{"a": True, "b": 16, "c": "1", "d": 8, "e": None}], id="scalars"
        ),
        pytest.param("a: 3.0\nb: 0.1\nc: 1_000\n", [{"a": 3, "b": 0.1, "c": 1000}], id="numbers"),
        pytest.param(
            "a: 2026-11-28\nb: 12:30\nc: 1:0.5\n", [{"a": "2026-11-28", "b": "12:30", "c": "1:0.5"}], id="times"
        ),
        pytest.param("a: !!str 5\nb: !!int '5'\n", [{"a": "5", "b": 5}], id="tags"),
        pytest.param("8080: a\nyes: b\n", [{"8080": "a", "yes": "b"}], id="a-key-is-text"),
        pytest.param("a: &x {b: 1}\nc: *x\n", [{"a": {"b": 1}, "c": {"b": 1}}], id="alias"),
        pytest.param("a: &x {b: 1}\nc:\n  d: 2\n  <<: *x\n", [{"a": {"b": 1}, "c": {"b": 1, "d": 2}}], id="merge"),
        pytest.param("<<: [{a: 1}, {a: 2, b: 3}]\nb: 4\n", [{"a": 1, "b": 4}], id="merge-of-a-list"),
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
        pytest.param('{"a": 1,\n', "f:2: not YAML: did not find expected node content", id="cut-off-json"),
        pytest.param('{"a": [1,\n2', "f:2: not YAML: did not find expected ',' or ']'", id="cut-off-json-list"),
        pytest.param('{"a": 1 "b": 2}', "f:1: not YAML: did not find expected ',' or '}'", id="comma"),
        pytest.param(
            '{"a": 1}\n{"b": 1,\n ]}', "f:3: not YAML: did not find expected node content", id="fault-in-second-json"
        ),
        pytest.param("a: 1\na: 2", "f:2: 'a' is given more than once; keep one of them", id="duplicate-key"),
        pytest.param("x:\n  a: 1\n  a: 2", "f:3: 'a' is given more than once", id="duplicate-inner-key"),
        pytest.param('{"a": 1,\n "a": 2}', "f:2: 'a' is given more than once", id="duplicate-json-key"),
        pytest.param('{"b":\n{"a": 1, "a": 2}}', "f:2: 'a' is given more than once", id="duplicate-inner-json-key"),
        pytest.param("a:\n .nan", "f:2: .nan has no spelling in JSON; write a number", id="nan"),
        pytest.param('{"a": ' + "1" * 5000 + "}", "f:1: a number of 5000 characters", id="long-number"),
        pytest.param('{"a": ' + "[" * 50_000, "f:1: nested more than 100 deep", id="deep-json"),
        pytest.param('{"a":\n' + "[" * 101 + "]" * 101 + "}", "f:2: nested more than 100 deep", id="deep-whole-json"),
        pytest.param("a: " + "[" * 50_000, "f:1: nested more than 100 deep", id="deep-yaml"),
        pytest.param('{"a":\n"\\ud800"}', "f:2: not YAML: found invalid Unicode character escape code", id="surrogate"),
        pytest.param("a: 1\nb: *x", "f:2: there is no anchor 'x' before it; write the value out", id="unknown-anchor"),
        pytest.param("a: &x [1,\n*x]", "f:2: there is no anchor 'x' before it", id="contains-itself"),
        pytest.param("a: !!binary x", "f:1: 'x' has the tag tag:yaml.org,2002:binary; remove the tag", id="tag"),
        pytest.param("a: !x y", "f:1: 'y' has the tag !x; remove the tag", id="local-tag"),
        pytest.param("a: !!int 3.x", "f:1: '3.x' is no number, and has the tag of one; remove the tag", id="no-number"),
        pytest.param("a: !!bool 5", "f:1: '5' has the tag tag:yaml.org,2002:bool", id="no-bool"),
        pytest.param("a: 1\n[b]: 1", "f:2: a key is not a string; put the key in quotes", id="list-as-key"),
        pytest.param("a: 1\n<<: 5", "f:2: << needs a mapping or a list of mappings", id="merge-of-a-number"),
        pytest.param('a: "\\ud800"', "f:1: not YAML: found invalid Unicode", id="half-a-pair-in-yaml"),
        pytest.param(
            "kind: List\nmetadata: {continue: abc}\nitems: []",
            "f:1: the List is only a part: it has metadata.continue; fetch it whole: kubectl get --chunk-size=0",
            id="part-of-a-list",
        ),
    ],
)
def test_where_a_text_goes_wrong_is_told_with_line_and_cure(text, message):
    assert message in refused(text)


@pytest.mark.parametrize(
    "row",
    [
        pytest.param("&a{n} [*a{m}, *a{m}, *a{m}, *a{m}, *a{m}, *a{m}, *a{m}, *a{m}, *a{m}]", id="lists"),
        pytest.param("&a{n} {{a: *a{m}, b: *a{m}, c: *a{m}, d: *a{m}, e: *a{m}, f: *a{m}}}", id="mappings"),
        pytest.param("&a{n} {{<<: *a{m}, x{n}: *a{m}, y{n}: *a{m}}}", id="merges"),
    ],
)
def test_aliases_that_explode_are_refused_and_hang_nothing(row):
    text = "k0: &a0 {z: 1}\n" + "".join(f"k{n}: {row.format(n=n, m=n - 1)}\n" for n in range(1, 40))
    with not_hanging():
        assert "more than 20000 values, aliases counted in full" in refused(text)


def test_an_alias_is_a_copy_so_that_changing_one_leaves_the_other():
    (tree,) = read("a: &x {c: [0.5]}\nb: *x")
    tree["a"]["c"].append(2)
    assert [one.text for one in tree["b"]["c"]] == ["0.5"]


def test_what_stands_before_the_fault_is_handed_out():
    found, problems = objects([Content("f", b"a: 1\n---\nb: [")])
    assert ([placed.tree for placed in found], len(problems)) == ([{"a": 1}], 1)


def test_of_files_with_objects_one_of_comments_alone_is_passed_over():
    found, problems = objects([Content("f", b"---\n# disabled\n---\n"), Content("g", b"a: 1")])
    assert ([placed.tree for placed in found], problems) == ([{"a": 1}], [])


def test_an_empty_file_is_refused_beside_others():
    """It may be one that is being written."""
    _, problems = objects([Content("f", b" \n"), Content("g", b"a: 1")])
    assert [str(problem) for problem in problems] == [f"f:1: {EMPTY}"]


def test_nesting_that_ends_pyyaml_is_refused_and_the_lines_before_it_are_found():
    """``yaml.compose`` calls itself in C once a level."""
    found, problems = objects([Content("f", b"a: 1\nb: 2\n---\n" + b"[" * 200_000)])
    assert [problem.line for problem in problems] == [4]
    assert found[0].problem(["b"], "b", "", "").line == 2
