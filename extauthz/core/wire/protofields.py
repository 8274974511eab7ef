"""Field numbers of a ``Scale`` in protobuf, as far as a count and its preconditions go.

From ``generated.proto`` of ``k8s.io/apimachinery`` (``meta/v1``, ``runtime``) and ``k8s.io/api`` (``autoscaling/v1``).
Numbers never change; what a table does not name is stepped over.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import NamedTuple, TypeAlias


class Kind(Enum):
    """How a field is encoded, and what it becomes in JSON."""

    STRING = auto()
    RAW = auto()
    INT32 = auto()
    MESSAGE = auto()


class Field(NamedTuple):
    """One field: its key in JSON, its encoding, and the type of a message."""

    key: str
    kind: Kind
    message: Mapping[int, Field] = {}


Message: TypeAlias = Mapping[int, Field]
"""A message type: field number to field."""


def _strings(**numbers: int) -> dict[int, Field]:
    return {number: Field(key, Kind.STRING) for key, number in numbers.items()}


UNKNOWN: Message = {
    1: Field("typeMeta", Kind.MESSAGE, _strings(apiVersion=1, kind=2)),
    2: Field("raw", Kind.RAW),
}

SCALE: Message = {
    1: Field("metadata", Kind.MESSAGE, _strings(name=1, namespace=3, uid=5, resourceVersion=6)),
    2: Field("spec", Kind.MESSAGE, {1: Field("replicas", Kind.INT32)}),
}
