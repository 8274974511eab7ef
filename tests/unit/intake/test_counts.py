"""The replica count that a body says, and what of it may be more than a count."""

from __future__ import annotations

from typing import Any

import pytest

from extauthz.core.errors import BodyError, ObjectError
from extauthz.core.intake import counts
from extauthz.core.intake.counts import Media, MoreThanACount, negotiate
from extauthz.core.model import Operation
from extauthz.core.wire.gojson import Number

OBJECT, SCALE = False, True
THREE = {"spec": {"replicas": 3}}


def outcome(of: Any, body: Any, **scale: bool) -> Any:
    """The count, or in words why there is none."""
    try:
        return of(body, **scale)
    except MoreThanACount as more:
        return str(more)
    except (BodyError, ObjectError) as error:
        return error.code


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (THREE, 3),
        ({"spec": {"replicas": 0}}, 0),
        ({"spec": {"replicas": None}}, 0),
        ({"spec": None}, 0),
        ({}, 0),
        ({"spec": 3}, "malformed-object"),
        ({"spec": {"replicas": Number("3.0")}}, "replicas-not-an-integer"),
        ({"spec": {"replicas": -1}}, "replicas-negative"),
        ({"spec": {"replicas": 2**31}}, "replicas-too-large"),
    ],
    ids=str,
)
def test_a_whole_scale_says_a_count_and_none_is_zero(body, found):
    assert outcome(counts.of_put, body) == found


MERGES = [
    pytest.param(THREE, 3, 3, id="a-count"),
    pytest.param({}, None, None, id="nothing"),
    pytest.param({"metadata": {"annotations": {"a": "b"}}}, None, None, id="annotations"),
    pytest.param({"metadata": 5, "spec": {"minReadySeconds": 5}}, None, None, id="another-field"),
    pytest.param({"spec": {"replicas": None}}, 1, 0, id="the-default"),
    pytest.param({"spec": None}, "it takes all of spec away", 0, id="spec-taken-away"),
    pytest.param({"metadata": None} | THREE, "it takes all of metadata away", 3, id="metadata-taken-away"),
    pytest.param({"metadata": {"labels": {}}}, "it changes metadata.labels", None, id="labels"),
    pytest.param({"metadata": {"ownerReferences": None}}, "it changes metadata.ownerReferences", None, id="owners"),
    pytest.param({"spec": {"template": {}}}, "it changes spec.template", None, id="template"),
    pytest.param(
        {"spec": {"volumeClaimTemplates": []}}, "it changes spec.volumeClaimTemplates", None, id="claim-templates"
    ),
    pytest.param({"spec": {"ordinals": {}}}, "it changes spec.ordinals", None, id="ordinals"),
    pytest.param({"spec": {"selector": {}}}, "it changes spec.selector", None, id="selector"),
    pytest.param({"spec": {"paused": True}}, "it changes spec.paused", None, id="pause"),
    pytest.param({"spec": {"template": {}, "replicas": 3}}, "it changes spec.template", 3, id="template-and-count"),
    pytest.param({"spec": "x"}, "malformed-object", "malformed-object", id="spec-a-text"),
    pytest.param({"spec": {"replicas": "3"}}, "replicas-not-an-integer", "replicas-not-an-integer", id="a-text"),
]


@pytest.mark.parametrize("of", [counts.of_merge_patch, counts.of_strategic_merge_patch])
@pytest.mark.parametrize(("patch", "of_object", "of_scale"), MERGES)
def test_a_merge_says_a_count_or_that_it_may_change_more(of, patch, of_object, of_scale):
    assert outcome(of, patch, scale=OBJECT) == of_object
    assert outcome(of, patch, scale=SCALE) == of_scale


@pytest.mark.parametrize("scale", [OBJECT, SCALE])
@pytest.mark.parametrize("patch", [{"$patch": "replace"}, {"metadata": {"$patch": 1}}, {"spec": {"$retainKeys": []}}])
def test_directives_are_more_than_a_count_in_a_strategic_merge_and_plain_keys_in_another(patch, scale):
    found = outcome(counts.of_strategic_merge_patch, patch, scale=scale)
    assert found == "it has directives of a strategic merge patch"
    assert outcome(counts.of_merge_patch, patch, scale=scale) is None


@pytest.mark.parametrize(
    ("count", "strategic", "merge"),
    [
        (Number("3.0"), 3, "replicas-not-an-integer"),
        (Number("3.5"), "replicas-not-an-integer", "replicas-not-an-integer"),
        (2**32 + 3, 3, "replicas-too-large"),
        (True, "replicas-not-an-integer", "replicas-not-an-integer"),
        (2**64, "replicas-too-large", "replicas-too-large"),
    ],
    ids=str,
)
def test_only_a_strategic_merge_is_converted_without_a_json_decoder(count, strategic, merge):
    patch = {"spec": {"replicas": count}}
    assert outcome(counts.of_strategic_merge_patch, patch, scale=OBJECT) == strategic
    assert outcome(counts.of_merge_patch, patch, scale=OBJECT) == merge


def op(name: str, path: Any, value: Any = 3, **more: Any) -> dict[str, Any]:
    return {"op": name, "path": path, "value": value, **more}


def moved(name: str, source: str, path: str) -> dict[str, Any]:
    return {"op": name, "from": source, "path": path}


COUNT = op("add", "/spec/replicas")
WHOLE, SPEC = "it changes the whole object", "it changes spec"
MOVES, COPIES = "it can move more than a count", "it can copy more than a count"
LABELS, DEEP = "it changes metadata.labels", "it changes spec.template"

JSON_PATCHES = [
    pytest.param([], None, None, id="nothing"),
    pytest.param([COUNT], 3, 3, id="add"),
    pytest.param([op("replace", "/spec/replicas")], 3, 3, id="replace"),
    pytest.param([op("replace", "/spec/replicas", None)], 1, 0, id="null"),
    pytest.param([{"op": "replace", "path": "/spec/replicas"}], 1, 0, id="no-value"),
    pytest.param([op("remove", "/spec/replicas")], 1, 0, id="remove"),
    pytest.param([COUNT, op("replace", "/spec/replicas", 9)], 9, 9, id="the-last"),
    pytest.param([COUNT, op("remove", "/spec/replicas")], 1, 0, id="set-and-removed"),
    pytest.param([op("add", "/spec/replicas", "x"), COUNT], 3, 3, id="only-the-last-is-looked-at"),
    pytest.param([op("replace", "/spec/replicas", 3.0)], *["replicas-not-an-integer"] * 2, id="a-fraction"),
    pytest.param([op("test", "/spec/replicas", 9)], None, None, id="test-alone"),
    pytest.param([op("test", "/spec/template", 9), COUNT], 3, 3, id="test-first"),
    pytest.param([op("add", "x/spec/replicas")], 3, 3, id="before-the-first-slash"),
    pytest.param([op("add", "/spec/repl~1icas")], None, None, id="an-escaped-slash"),
    pytest.param([op("add", "/s~0pec/replicas")], None, None, id="an-escaped-tilde"),
    pytest.param([op("add", "/metadata/la~01bels")], None, None, id="escaped-once"),
    pytest.param([op("add", "/spec/minReadySeconds", 5)], None, None, id="another-field"),
    pytest.param([op("add", "/metadata/annotations", {})], None, None, id="annotations"),
    pytest.param([op("add", "/status")], None, None, id="another-part"),
    pytest.param([op("replace", "", THREE)], WHOLE, 3, id="all"),
    pytest.param([op("replace", "", {})], WHOLE, 0, id="all-without-a-count"),
    pytest.param([op("replace", "", [])], WHOLE, "malformed-object", id="all-a-list"),
    pytest.param([op("remove", "")], WHOLE, 0, id="all-removed"),
    pytest.param([op("replace", "/spec", {"replicas": 3})], SPEC, 3, id="spec"),
    pytest.param([op("replace", "/spec", None)], SPEC, 0, id="spec-null"),
    pytest.param([op("remove", "/spec")], SPEC, 0, id="spec-removed"),
    pytest.param([op("add", "/spec/replicas/x")], *["it changes spec.replicas"] * 2, id="below-the-count"),
    pytest.param([op("add", "/metadata", {})], "it changes metadata", None, id="metadata"),
    pytest.param([op("add", "/metadata/labels", {})], LABELS, None, id="labels"),
    pytest.param([op("add", "/metadata/labels/a~1b", "x")], LABELS, None, id="a-label"),
    pytest.param([op("remove", "/metadata/ownerReferences")], "it changes metadata.ownerReferences", None, id="owners"),
    pytest.param([COUNT, op("add", "/spec/template/spec/x")], DEEP, 3, id="below-the-template"),
    pytest.param([moved("move", "/spec/a", "/spec/replicas")], MOVES, MOVES, id="moved-to-the-count"),
    pytest.param([moved("move", "/spec/replicas", "/spec/a")], MOVES, MOVES, id="moved-from-the-count"),
    pytest.param([moved("move", "/metadata/labels/a", "/x")], MOVES, None, id="a-label-moved-away"),
    pytest.param([moved("move", "/metadata/annotations/a", "/metadata/annotations/b")], None, None, id="moved-beside"),
    pytest.param([moved("copy", "/spec/a", "/spec/replicas")], COPIES, COPIES, id="copied-to-the-count"),
    pytest.param([moved("copy", "/spec", "/x"), COUNT], 3, 3, id="copied-from-what-counts"),
    pytest.param([moved("copy", "/x", "/spec/template/a")], COPIES, None, id="copied-into-the-template"),
    pytest.param([op("copy", "/x")], *["patch-malformed"] * 2, id="copied-from-nowhere"),
    pytest.param([op("merge", "/x")], *["patch-malformed"] * 2, id="no-such-operation"),
    pytest.param([{"path": "/x"}], *["patch-malformed"] * 2, id="no-operation"),
    pytest.param([op("add", None)], *["patch-malformed"] * 2, id="no-path"),
]


@pytest.mark.parametrize(("operations", "of_object", "of_scale"), JSON_PATCHES)
def test_a_json_patch_says_a_count_or_that_it_may_change_more(operations, of_object, of_scale):
    assert outcome(counts.of_json_patch, operations, scale=OBJECT) == of_object
    assert outcome(counts.of_json_patch, operations, scale=SCALE) == of_scale


def test_of_a_long_pointer_no_more_is_taken_apart_than_what_makes_a_difference():
    place = counts._place(op("add", "/metadata" + "/" * 16_384), "path")
    assert place == ("metadata", "", "/" * 16_382)


@pytest.mark.parametrize(
    ("of", "body", "found"),
    [
        pytest.param(lambda body: counts.members(body, "it"), {"a": 1}, {"a": 1}, id="an-object"),
        pytest.param(lambda body: counts.members(body, "it"), [], "not-an-object", id="no-object"),
        pytest.param(counts.operations, [COUNT], [COUNT], id="operations"),
        pytest.param(counts.operations, {}, "not-an-array", id="no-list"),
        pytest.param(counts.operations, [COUNT, 1], "not-an-object", id="no-operation"),
    ],
)
def test_a_body_that_has_not_the_form_of_its_content_type_is_refused_by_name(of, body, found):
    assert outcome(of, body) == found


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("", Media.JSON),
        ("  ", Media.JSON),
        ("application/json", Media.JSON),
        ("application/json; charset=utf-8", Media.JSON),
        ("Application/JSON ;charset=utf-8", Media.JSON),
        ("application/json;", Media.JSON),
        ("application/yaml", Media.OTHER),
        ("application/cbor", Media.OTHER),
        ("application/vnd.kubernetes.protobuf", Media.PROTOBUF),
        ("APPLICATION/VND.KUBERNETES.PROTOBUF", Media.PROTOBUF),
        ("text/json", None),
        ("application/json, application/yaml", None),
        ("application/merge-patch+json", None),
        (";charset=utf-8", None),
        ("application/x-yaml", None),
        ("application/json-seq", None),
        ("*/*", None),
    ],
)
def test_an_object_is_matched_by_media_type_and_none_means_json(content_type, expected):
    assert negotiate(Operation.UPDATE, content_type) is expected


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("application/json-patch+json", Media.JSON_PATCH),
        ("application/json-patch+json; charset=utf-8", Media.JSON_PATCH),
        ("application/merge-patch+json;", Media.MERGE_PATCH),
        (" application/merge-patch+json ", Media.MERGE_PATCH),
        ("application/strategic-merge-patch+json", Media.STRATEGIC_MERGE_PATCH),
        ("application/apply-patch+yaml", Media.OTHER),
        ("application/apply-patch+cbor", Media.OTHER),
        ("", None),
        ("application/json", None),
        ("Application/merge-patch+json", None),
        ("application/merge-patch+json ;x", None),
        (";application/merge-patch+json", None),
    ],
)
def test_a_patch_is_matched_byte_for_byte_up_to_the_semicolon(content_type, expected):
    assert negotiate(Operation.PATCH, content_type) is expected
