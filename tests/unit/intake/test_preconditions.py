"""Which preconditions a write has for certain: one that is claimed and not verified would be worse than none."""

from __future__ import annotations

import pytest

from extauthz.core.intake import counts
from extauthz.core.model import Precondition

NONE = Precondition()


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
    assert counts.bound_object({"metadata": metadata}) == expected


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({}, NONE),
        ({"metadata": {"resourceVersion": "5"}}, NONE),
        ({"metadata": {"uid": "u", "resourceVersion": "5"}}, Precondition(None, "u")),
        ({"metadata": {"uid": "x" * 253}}, Precondition(None, "x" * 253)),
        ({"metadata": {"uid": "x" * 254}}, NONE),
    ],
)
def test_a_create_is_known_by_the_uid_that_the_server_has_given_it(document, expected):
    assert counts.bound_create(document) == expected


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"metadata": {"resourceVersion": "5"}}, Precondition("5")),
        ({"metadata": {"uid": "u"}}, NONE),
        ({"spec": {"replicas": 5}}, NONE),
    ],
    ids=str,
)
def test_a_merge_is_bound_to_the_version_that_it_sets(patch, expected):
    assert counts.bound_merge_patch(patch) == expected


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
    assert counts.bound_json_patch(operations) == expected
