"""Tells from the content type what a body is, as the API server negotiates it.

A ``PUT`` is matched by media type (``mime.ParseMediaType``: capitals and parameters do not matter, none at all means
JSON), a ``PATCH`` byte for byte up to the first semicolon (``endpoints/handlers/patch.go``).
"""

from __future__ import annotations

from enum import IntEnum, auto

from extauthz.core.model import Operation


class Media(IntEnum):
    """Numbers, because they are quick to look up."""

    JSON = auto()
    PROTOBUF = auto()
    JSON_PATCH = auto()
    MERGE_PATCH = auto()
    STRATEGIC_MERGE_PATCH = auto()
    OTHER = auto()
    """The API server takes it, and no autoscaler sends it."""


_OBJECTS = {
    "": Media.JSON,
    "application/json": Media.JSON,
    "application/yaml": Media.OTHER,
    "application/cbor": Media.OTHER,
    "application/vnd.kubernetes.protobuf": Media.PROTOBUF,
}

_PATCHES = {
    "application/json-patch+json": Media.JSON_PATCH,
    "application/merge-patch+json": Media.MERGE_PATCH,
    "application/strategic-merge-patch+json": Media.STRATEGIC_MERGE_PATCH,
    "application/apply-patch+yaml": Media.OTHER,
    "application/apply-patch+cbor": Media.OTHER,
}


def negotiate(operation: Operation, content_type: str) -> Media | None:
    """What a body is; ``None`` if the API server answers 415 Unsupported Media Type.

    Parameters of a ``PUT`` are not checked: Go refuses broken ones, and reads no body differently for them.
    """
    content_type = content_type.strip()
    base, semicolon, _ = content_type.partition(";")
    if operation is Operation.PATCH:
        return _PATCHES.get(base)
    if semicolon and not base:
        return None
    return _OBJECTS.get(base.strip().lower())
