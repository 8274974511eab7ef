"""JSON Patch does what the API server's library does, on documents known in whole and in part."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extauthz.core.budget import of_meaning
from extauthz.core.effects.outcome import Area
from extauthz.core.effects.patches import jsonpatch
from extauthz.core.errors import PatchError
from extauthz.core.objects.partial import Hidden, Partial


def applied(document, operations):
    return jsonpatch.apply(document, operations, of_meaning(scale=False))


def patched(document, *operations):
    return applied(document, operations)[0]


def op(name, path, *value, **more):
    return {"op": name, "path": path} | ({"value": value[0]} if value else {}) | more


def move(source, path):
    return {"op": "move", "from": source, "path": path}


def copy_(source, path):
    return {"op": "copy", "from": source, "path": path}


@pytest.mark.parametrize(
    ("document", "operation", "expected"),
    [
        pytest.param({"foo": "bar"}, op("add", "/baz", "qux"), {"baz": "qux", "foo": "bar"}, id="A.1-add-a-member"),
        pytest.param(
            {"foo": ["bar", "baz"]}, op("add", "/foo/1", "qux"), {"foo": ["bar", "qux", "baz"]}, id="A.2-add-an-element"
        ),
        pytest.param({"baz": "qux", "foo": "bar"}, op("remove", "/baz"), {"foo": "bar"}, id="A.3-remove-a-member"),
        pytest.param(
            {"foo": ["bar", "qux", "baz"]}, op("remove", "/foo/1"), {"foo": ["bar", "baz"]}, id="A.4-remove-an-element"
        ),
        pytest.param(
            {"baz": "qux", "foo": "bar"}, op("replace", "/baz", "boo"), {"baz": "boo", "foo": "bar"}, id="A.5-replace"
        ),
        pytest.param(
            {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
            move("/foo/waldo", "/qux/thud"),
            {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
            id="A.6-move-a-value",
        ),
        pytest.param(
            {"foo": ["all", "grass", "cows", "eat"]},
            move("/foo/1", "/foo/3"),
            {"foo": ["all", "cows", "eat", "grass"]},
            id="A.7-move-an-element",
        ),
        pytest.param({"baz": "qux"}, op("test", "/baz", "qux"), {"baz": "qux"}, id="A.8-test"),
        pytest.param(
            {"foo": "bar"},
            op("add", "/child", {"grandchild": {}}),
            {"foo": "bar", "child": {"grandchild": {}}},
            id="A.10-nested",
        ),
        pytest.param(
            {"foo": "bar"}, op("add", "/baz", "qux", xyz=123), {"foo": "bar", "baz": "qux"}, id="A.11-unknown-member"
        ),
        pytest.param({"/": 9, "~1": 10}, op("remove", "/~01"), {"/": 9}, id="A.14-escapes"),
        pytest.param(
            {"foo": ["bar"]}, op("add", "/foo/-", ["abc", "def"]), {"foo": ["bar", ["abc", "def"]]}, id="A.16-append"
        ),
    ],
)
def test_the_examples_of_rfc_6902_give_what_it_says(document, operation, expected):
    assert patched(document, operation) == expected


@pytest.mark.parametrize(
    ("document", "operation"),
    [
        pytest.param({"foo": "bar"}, op("add", "/baz/bat", "qux"), id="A.12-nonexistent-target"),
        pytest.param({"foo": "bar"}, op("remove", "/baz"), id="missing-member"),
        pytest.param({"foo": "bar"}, move("/baz", "/foo"), id="move-of-a-missing-member"),
        pytest.param({"foo": [1]}, op("add", "/foo/2", 5), id="past-the-end"),
        pytest.param({"foo": [1]}, op("replace", "/foo/1", 5), id="replace-past-the-end"),
        pytest.param({"foo": [1]}, op("replace", "/foo/-", 5), id="dash-is-for-add-only"),
        pytest.param({"foo": [1]}, op("remove", "/foo/-2"), id="before-the-start"),
        pytest.param({"foo": [1]}, op("add", "/foo/0_0", 5), id="python-number"),
        pytest.param({"foo": [1]}, op("add", "/foo/" + "9" * 5000, 5), id="index-of-5000-digits"),
        pytest.param({"foo": 1}, op("add", "/foo/a", 5), id="into-a-number"),
        pytest.param({"foo": None}, op("add", "/foo/a", 5), id="into-null"),
        pytest.param({"foo": 1}, op("add", "", {"a": 1}), id="add-has-no-root"),
        pytest.param({"foo": 1}, op("remove", "foo"), id="no-slash"),
        pytest.param({"foo": 1}, copy_("", "/foo"), id="copy-of-the-root"),
    ],
)
def test_what_the_library_refuses_does_not_apply(document, operation):
    with pytest.raises(PatchError) as caught:
        patched(document, operation)
    assert caught.value.code == "patch-does-not-apply"


@pytest.mark.parametrize(
    ("document", "operation", "expected"),
    [
        pytest.param({"a": {"b": 1}}, op("replace", "x/a/b", 2), {"a": {"b": 2}}, id="what-is-before-the-first-slash"),
        pytest.param({"a": 1}, op("replace", "/b", 2), {"a": 1, "b": 2}, id="replace-of-a-missing-member"),
        pytest.param({"a": 1}, copy_("/b", "/c"), {"a": 1, "c": None}, id="copy-of-a-missing-member"),
        pytest.param({"a": 1}, op("add", "/a"), {"a": None}, id="no-value-is-null"),
        pytest.param({"a": [1, 2, 3]}, op("replace", "/a/-1", 9), {"a": [1, 2, 9]}, id="from-the-end"),
        pytest.param({"a": [1, 2]}, op("add", "/a/-1", 9), {"a": [1, 2, 9]}, id="add-from-past-the-end"),
        pytest.param({"a": [1, 2]}, op("remove", "/a/+01"), {"a": [1]}, id="sign-and-leading-zero"),
        pytest.param({"a": [[1]]}, copy_("/a/0", "/a/0"), {"a": [[1], [1]]}, id="copy-of-an-element"),
        pytest.param({"a": {"b": 1}}, op("replace", "", {"c": 3}), {"c": 3}, id="replace-of-the-whole"),
        pytest.param({"a": 1}, op("add", "/", 3), {"a": 1, "": 3}, id="empty-key"),
        pytest.param({"a": 1}, op("test", "/nowhere/b", 3), {"a": 1}, id="failing-test-is-taken-as-passed"),
    ],
)
def test_the_library_is_followed_where_it_departs_from_the_rfc(document, operation, expected):
    assert patched(document, operation) == expected


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param({"path": "/a"}, id="no-op"),
        pytest.param(op("Add", "/a", 1), id="capital"),
        pytest.param(op(["add"], "/a", 1), id="op-a-list"),
        pytest.param({"op": "add", "value": 1}, id="no-path"),
        pytest.param(op("test", 5, 1), id="path-a-number"),
        pytest.param(op("move", "/a"), id="no-from"),
        pytest.param(op("copy", "/a", **{"from": None}), id="from-null"),
        pytest.param(op("replace", "", [1]), id="whole-a-list"),
        pytest.param(op("replace", ""), id="whole-without-a-value"),
    ],
)
def test_an_operation_that_is_none_is_malformed(operation):
    with pytest.raises(PatchError) as caught:
        patched({"a": 1}, operation)
    assert caught.value.code == "patch-malformed"


@pytest.mark.parametrize(
    ("operations", "area"),
    [
        pytest.param([op("replace", "", {})], ~Area.NONE, id="whole"),
        pytest.param([op("add", "/metadata", {})], Area.LABELS | Area.OWNER, id="metadata"),
        pytest.param([op("add", "/metadata/ownerReferences", [])], Area.OWNER, id="owner"),
        pytest.param([op("add", "/spec", {})], Area.REPLICAS | Area.TEMPLATE, id="spec"),
        pytest.param([op("add", "/spec/replicas", 1)], Area.REPLICAS, id="replicas"),
        pytest.param([op("add", "x/spec/template/spec/overhead", {})], Area.TEMPLATE, id="template"),
        pytest.param([op("add", "/spec/volumeClaimTemplates", [])], Area.TEMPLATE, id="claims"),
        pytest.param([op("add", "/metadata/labels/a", "b")], Area.LABELS, id="label"),
        pytest.param(
            [move("/spec/replicas", "/metadata/labels/a")], Area.REPLICAS | Area.LABELS, id="move-touches-both"
        ),
        pytest.param([copy_("/spec/replicas", "/metadata/labels/a")], Area.LABELS, id="copy-touches-its-target"),
        pytest.param([op("test", "/spec/replicas", 1)], Area.NONE, id="test-touches-nothing"),
        pytest.param([op("add", "/status", {}), op("add", "/metadata/name", "x")], Area.NONE, id="what-does-not-count"),
    ],
)
def test_what_was_touched_is_told(operations, area):
    spec = {"replicas": 1, "template": {"spec": {}}}
    assert applied({"metadata": {"labels": {}}, "spec": spec}, operations)[1] == area


def partial():
    """Known in part: spec may have other fields, and is known to have no ``replicas``."""
    container = Partial("container", {"name": "app", "resources": {}})
    return Partial("object", {"spec": Partial("spec", {"template": {"containers": [container]}})})


@pytest.mark.parametrize(
    "operation",
    [
        op("add", "/metadata2/annotations/a/b", "1"),
        op("add", "/spec/template/containers/0/env/0/value", "1"),
        op("remove", "/spec/paused"),
        op("replace", "/status/replicas/y", 1),
        op("remove", "/status/replicas/x"),
        move("/spec/paused", "/spec/selector/x"),
    ],
    ids=lambda operation: operation["path"],
)
def test_what_happens_to_a_field_that_was_not_kept_changes_nothing(operation):
    assert patched(partial(), operation) == partial()


@pytest.mark.parametrize("source", ["/spec/minReadySeconds", "/status/replicas", "/spec/template/containers/0/env/0"])
@pytest.mark.parametrize("operation", [move, copy_])
def test_a_value_from_a_field_that_was_not_kept_is_marked(source, operation):
    assert patched(partial(), operation(source, "/spec/replicas"))["spec"]["replicas"] is Hidden.MOVED


def test_a_value_that_a_patch_put_where_nothing_was_kept_is_known():
    tree = patched(partial(), op("add", "/spec/minReadySeconds", 7), copy_("/spec/minReadySeconds", "/spec/replicas"))
    assert tree["spec"]["replicas"] == 7


def test_a_field_that_is_known_to_be_absent_is_null_when_copied_and_cannot_be_removed():
    assert patched(partial(), copy_("/spec/replicas", "/spec/x"))["spec"]["x"] is None
    with pytest.raises(PatchError):
        patched(partial(), op("remove", "/spec/replicas"))


def test_a_partial_object_stays_partial_when_it_is_copied_or_moved():
    spec = patched(
        partial(),
        copy_("/spec/template/containers/0", "/spec/template/containers/-"),
        move("/spec/template/containers/0", "/spec/template/containers/-"),
    )["spec"]
    assert [item.of for item in spec["template"]["containers"]] == ["container", "container"]


def unseen():
    return Partial("object", {"spec": Partial("spec", {"replicas": Hidden.BASE, "template": Hidden.BASE})})


def test_what_was_never_seen_can_be_replaced_and_is_marked_when_it_is_taken_from():
    assert patched(unseen(), op("replace", "/spec/replicas", 5))["spec"]["replicas"] == 5
    for operation in (move, copy_):
        assert patched(unseen(), operation("/spec/template", "/spec/x"))["spec"]["x"] is Hidden.MOVED
        assert patched(unseen(), operation("/spec", "/x"))["x"]["template"] is Hidden.MOVED


def test_what_was_never_seen_cannot_be_changed_inside():
    with pytest.raises(PatchError) as caught:
        patched(unseen(), op("add", "/spec/template/spec/overhead", {}))
    assert caught.value.code == "object-not-seen"


def test_copies_that_double_are_cut_off():
    bomb = [op("add", "/a", ["x" * 100_000]), *[copy_("/a", "/a/-")] * 50]
    with pytest.raises(PatchError) as caught:
        patched({}, *bomb)
    assert caught.value.code == "patch-too-large"


def test_copies_into_themselves_are_cut_off():
    with pytest.raises(PatchError) as caught:
        patched({"a": {}}, *[copy_("/a", "/a" + "/b" * n) for n in range(1, 40)])
    assert caught.value.code == "patch-too-deep"


def test_long_lists_are_not_changed_by_index():
    long = [op("add", "/a", [0] * (jsonpatch.MAX_ITEMS + 1))]
    with pytest.raises(PatchError) as caught:
        patched({}, *long, op("add", "/a/0", 1))
    assert caught.value.code == "patch-too-large"


def test_the_patch_is_not_changed_by_later_operations():
    operations = [
        op("add", "/a", {"b": [1]}),
        op("add", "/a/b/-", 2),
        op("replace", "", {"c": {}}),
        op("add", "/c/d", 1),
    ]
    before = copy.deepcopy(operations)
    patched({}, *operations)
    assert operations == before


trees = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "spec"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab01-"), inner, max_size=3),
    max_leaves=8,
)
pointers = st.lists(st.sampled_from(["a", "b", "0", "1", "-1", "-", "~0", "~1", "+0", "spec"]), max_size=3).map(
    lambda tokens: "".join(f"/{token}" for token in tokens)
)
operations = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "?"]), "path": pointers | st.none()},
    optional={"from": pointers, "value": trees},
)


@given(st.dictionaries(st.sampled_from("ab01-"), trees, max_size=3), st.lists(operations, max_size=6))
def test_any_patch_of_any_tree_applies_or_is_refused(document, patch):
    before = copy.deepcopy(patch)
    try:
        applied(document, patch)
    except PatchError as error:
        assert error.code.startswith("patch-")  # noqa: PT017 - both ways are fine, and nothing else is
    assert patch == before
