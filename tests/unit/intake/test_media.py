"""Which content types the API server takes, and for what."""

from __future__ import annotations

import pytest

from extauthz.core.intake.counts import Media, negotiate
from extauthz.core.model import Operation


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
