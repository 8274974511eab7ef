"""Tells from the content type how a body is encoded, as the API server negotiates it.

A ``PUT`` or ``POST`` is matched by media type (``mime.ParseMediaType``: capitals and parameters do not matter, none at
all means JSON), a ``PATCH`` byte for byte up to the first semicolon (``endpoints/handlers/patch.go``).
"""

from __future__ import annotations

from enum import IntEnum, auto

from extauthz.core.model import Operation


class Encoding(IntEnum):
    """Numbers, because they are quick to look up."""

    JSON = auto()
    YAML = auto()
    CBOR = auto()
    PROTOBUF = auto()


class Meaning(IntEnum):
    """What the decoded body means for the object."""

    PUT = auto()
    JSON_PATCH = auto()
    MERGE_PATCH = auto()
    STRATEGIC_MERGE_PATCH = auto()
    APPLY = auto()


_OBJECTS = {
    "": (Encoding.JSON, Meaning.PUT),
    "application/json": (Encoding.JSON, Meaning.PUT),
    "application/yaml": (Encoding.YAML, Meaning.PUT),
    "application/cbor": (Encoding.CBOR, Meaning.PUT),
    "application/vnd.kubernetes.protobuf": (Encoding.PROTOBUF, Meaning.PUT),
}

_PATCHES = {
    "application/json-patch+json": (Encoding.JSON, Meaning.JSON_PATCH),
    "application/merge-patch+json": (Encoding.JSON, Meaning.MERGE_PATCH),
    "application/strategic-merge-patch+json": (Encoding.JSON, Meaning.STRATEGIC_MERGE_PATCH),
    "application/apply-patch+yaml": (Encoding.YAML, Meaning.APPLY),
    "application/apply-patch+cbor": (Encoding.CBOR, Meaning.APPLY),
}


def negotiate(operation: Operation, content_type: str) -> tuple[Encoding, Meaning] | None:
    """Encoding and meaning of a body; ``None`` if the API server answers 415 Unsupported Media Type.

    Parameters of a ``PUT`` or ``POST`` are not checked: Go refuses broken ones, and reads no body differently for them.
    """
    content_type = content_type.strip()
    base, semicolon, _ = content_type.partition(";")
    if operation is Operation.PATCH:
        return _PATCHES.get(base)
    if semicolon and not base:
        return None
    return _OBJECTS.get(base.strip().lower())
