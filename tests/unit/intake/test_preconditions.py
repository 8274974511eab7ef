"""Which preconditions a write has for certain: one that is claimed and not verified would be worse than none."""

from __future__ import annotations

import pytest

from extauthz.core.intake import preconditions
from extauthz.core.model import Apply, JsonPatch, MergePatch, Operation, Precondition, Put, StrategicMergePatch

NONE = Precondition()


def of(change):
    return preconditions.find(Operation.PATCH, change)


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"resourceVersion": "338", "uid": "u"}, Precondition("338", "u")),
        ({"resourceVersion": "338"}, Precondition("338")),
        ({"resourceVersion": "0338"}, Precondition("338")),
        ({"uid": "u"}, Precondition(None, "u")),
        ({"resourceVersion": "0"}, NONE),
        ({"resourceVersion": ""}, NONE),
        ({"resourceVersion": "", "uid": ""}, NONE),
        ({"resourceVersion": "x1"}, NONE),
        ({"resourceVersion": "\u0661"}, NONE),
        ({"resourceVersion": "9" * 30}, NONE),
        ({"resourceVersion": 338, "uid": 5}, NONE),
        ({"resourceVersion": None}, NONE),
        ([], NONE),
        (None, NONE),
    ],
    ids=str,
)
def test_a_put_is_bound_to_the_version_and_uid_that_it_names(metadata, expected):
    assert preconditions.find(Operation.UPDATE, Put({"metadata": metadata})) == expected


def test_a_put_without_metadata_is_bound_to_nothing():
    assert preconditions.find(Operation.UPDATE, Put({})) == NONE


def test_a_create_is_bound_to_nothing():
    assert preconditions.find(Operation.CREATE, Put({"metadata": {"resourceVersion": "5"}})) == NONE


@pytest.mark.parametrize("kind", [MergePatch, StrategicMergePatch])
@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"metadata": {"resourceVersion": "5"}}, Precondition("5")),
        ({"metadata": {"uid": "u"}}, NONE),
        ({"metadata": {"resourceVersion": "5", "$patch": "delete"}}, NONE),
        ({"$patch": "merge", "metadata": {"resourceVersion": "5"}}, NONE),
        ({"spec": {"replicas": 5}}, NONE),
    ],
    ids=str,
)
def test_a_merge_is_bound_to_the_version_that_it_sets(kind, patch, expected):
    assert of(kind(patch)) == expected


TEST = {"op": "test", "path": "/metadata/resourceVersion", "value": "5"}
COUNT = {"op": "replace", "path": "/spec/replicas", "value": 3}


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        pytest.param([TEST, COUNT], Precondition("5"), id="test-first"),
        pytest.param([COUNT, TEST], Precondition("5"), id="test-behind-another-field"),
        pytest.param(
            [{"op": "test", "path": "/spec/replicas", "value": 1}, TEST], Precondition("5"), id="behind-a-test"
        ),
        pytest.param([COUNT], NONE, id="no-test"),
        pytest.param([{**TEST, "op": "add"}, COUNT], NONE, id="set-and-not-tested"),
        pytest.param([{**TEST, "op": "add"}, TEST], NONE, id="set-before-the-test"),
        pytest.param([{"op": "remove", "path": "x/metadata/resourceVersion"}, TEST], NONE, id="removed-by-an-odd-path"),
        pytest.param([{"op": "replace", "path": "", "value": {}}, TEST], NONE, id="document-replaced"),
        pytest.param([{"op": "move", "from": "/metadata", "path": "/x"}, TEST], NONE, id="metadata-moved-away"),
        pytest.param([{"op": "add", "path": 5}, TEST], NONE, id="path-not-a-string"),
        pytest.param([{**TEST, "value": 5}], NONE, id="number-instead-of-a-string"),
        pytest.param([{"op": "test", "path": "/metadata/resourceVersion"}], NONE, id="no-value"),
        pytest.param([], NONE, id="nothing"),
    ],
)
def test_a_json_patch_is_bound_by_a_test_that_nothing_before_it_can_have_changed(operations, expected):
    assert of(JsonPatch(tuple(operations))) == expected


def test_an_apply_is_bound_to_nothing():
    assert of(Apply({"metadata": {"resourceVersion": "5"}})) == NONE
