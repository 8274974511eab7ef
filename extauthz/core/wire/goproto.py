"""Reads a Scale in ``application/vnd.kubernetes.protobuf`` into the tree that it has in JSON, and writes it anew.

A body is ``k8s\\0`` and a ``runtime.Unknown`` around the object (``apimachinery/pkg/runtime/serializer/protobuf``).
What kind that names makes no difference: the path decides it. Only fields that a count and its preconditions need are
named here, by the numbers of ``generated.proto`` in ``k8s.io/apimachinery`` and ``k8s.io/api/autoscaling/v1``, which
never change. All others are kept as they are.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from extauthz.core.errors import BodyError
from extauthz.core.model import Tree

MAGIC: Final = b"k8s\x00"

_MESSAGES: Final = {
    "Unknown": {"raw": (2, "bytes")},
    "Metadata": {"uid": (5, "string"), "resourceVersion": (6, "string")},
    "Spec": {"replicas": (1, "int32")},
    "Scale": {"metadata": (1, "Metadata"), "spec": (2, "Spec")},
}
"""Name to fields, each with its number and type."""


def loads(data: bytes) -> dict[str, Tree]:
    """What matters of a Scale.

    Raises ``BodyError``: ``protobuf-envelope``, ``protobuf-syntax``.
    """
    _, scale = _parsed(data)
    bound = {"uid": scale.metadata.uid, "resourceVersion": scale.metadata.resourceVersion}
    return {"metadata": bound, "spec": {"replicas": scale.spec.replicas}}


def lowered(data: bytes, count: int, version: str | None) -> bytes:
    """The same Scale with another count, and bound to a version if one is given. Raises ``BodyError``, as ``loads``."""
    envelope, scale = _parsed(data)
    scale.spec.replicas = count
    if version is not None:
        scale.metadata.resourceVersion = version
    envelope.raw = scale.SerializeToString()
    return MAGIC + bytes(envelope.SerializeToString())


def _parsed(data: bytes) -> tuple[Any, Any]:
    """The envelope, and the Scale in it."""
    from google.protobuf.message import DecodeError  # of no use to commands that read no body

    if not data.startswith(MAGIC):
        raise BodyError("protobuf-envelope", "the body does not begin with the four bytes k8s\\0")
    try:
        envelope = _classes()["Unknown"].FromString(data[len(MAGIC) :])
        return envelope, _classes()["Scale"].FromString(envelope.raw)
    except DecodeError:
        raise BodyError("protobuf-syntax", "it is no Scale in protobuf, or has a text that is not UTF-8") from None


@cache
def _classes() -> dict[str, Any]:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass

    file = FileDescriptorProto(name="scale.proto", package="scale", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            made = message.field.add(name=field, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
            if kind in _MESSAGES:
                made.type_name = f".scale.{kind}"
            else:
                made.type = FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")
    pool = DescriptorPool()
    pool.Add(file)
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"scale.{name}")) for name in _MESSAGES}
