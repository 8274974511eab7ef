"""Which content types the API server takes, and for what."""

from __future__ import annotations

import pytest

from extauthz.core.intake.media import Encoding, Meaning, negotiate
from extauthz.core.model import Operation


@pytest.mark.parametrize(
    ("content_type", "encoding"),
    [
        ("", Encoding.JSON),
        ("  ", Encoding.JSON),
        ("application/json", Encoding.JSON),
        ("application/json; charset=utf-8", Encoding.JSON),
        ("Application/JSON ;charset=utf-8", Encoding.JSON),
        ("application/json;", Encoding.JSON),
        ("application/yaml", Encoding.YAML),
        ("application/cbor", Encoding.CBOR),
        ("application/vnd.kubernetes.protobuf", Encoding.PROTOBUF),
        ("APPLICATION/VND.KUBERNETES.PROTOBUF", Encoding.PROTOBUF),
    ],
)
@pytest.mark.parametrize("operation", [Operation.UPDATE, Operation.CREATE])
def test_an_object_is_matched_by_media_type_and_none_means_json(operation, content_type, encoding):
    assert negotiate(operation, content_type) == (encoding, Meaning.PUT)


@pytest.mark.parametrize(
    "content_type",
    [
        "text/json",
        "application/json, application/yaml",
        "application/merge-patch+json",
        ";charset=utf-8",
        "application/x-yaml",
        "application/json-seq",
        "*/*",
    ],
)
def test_an_object_of_another_media_type_is_not_served(content_type):
    assert negotiate(Operation.UPDATE, content_type) is None


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("application/json-patch+json", (Encoding.JSON, Meaning.JSON_PATCH)),
        ("application/json-patch+json; charset=utf-8", (Encoding.JSON, Meaning.JSON_PATCH)),
        ("application/merge-patch+json;", (Encoding.JSON, Meaning.MERGE_PATCH)),
        (" application/merge-patch+json ", (Encoding.JSON, Meaning.MERGE_PATCH)),
        ("application/strategic-merge-patch+json", (Encoding.JSON, Meaning.STRATEGIC_MERGE_PATCH)),
        ("application/apply-patch+yaml", (Encoding.YAML, Meaning.APPLY)),
        ("application/apply-patch+cbor", (Encoding.CBOR, Meaning.APPLY)),
    ],
)
def test_a_patch_is_matched_byte_for_byte_up_to_the_semicolon(content_type, expected):
    assert negotiate(Operation.PATCH, content_type) == expected


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "application/json",
        "Application/merge-patch+json",
        "application/merge-patch+json ;x",
        ";application/merge-patch+json",
    ],
)
def test_a_patch_of_another_content_type_is_not_served(content_type):
    assert negotiate(Operation.PATCH, content_type) is None
