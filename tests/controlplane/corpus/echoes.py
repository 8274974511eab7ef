"""What a read-modify-write client sends: the server's own print of an object, with the replicas raised."""

from __future__ import annotations

from collections.abc import Iterator

from tests.controlplane.corpus.base import (
    APPLIED,
    CBOR,
    CREW,
    DB,
    GIZMO,
    JSON,
    KNOB,
    OLD,
    PROTOBUF,
    WEB,
    YAML,
    Spelling,
    path_of,
)

CHANGES = {
    JSON: (b'"replicas":2', b'"replicas":5'),
    YAML: (b"replicas: 2", b"replicas: 5"),
    PROTOBUF: (b"\x08\x02\x12", b"\x08\x05\x12"),
    CBOR: (b"replicas\x02", b"replicas\x05"),
}
SCALE_CHANGES = CHANGES | {PROTOBUF: (b"\x12\x02\x08\x02", b"\x12\x02\x08\x05")}


def spellings() -> Iterator[Spelling]:
    """Each kind and its scale, in each format that the server prints."""
    for ref in (WEB, DB, CREW, OLD, APPLIED, GIZMO, KNOB):
        for media, change in SCALE_CHANGES.items():
            if media != PROTOBUF or ref not in (GIZMO, KNOB):  # taken, but never printed, for custom resources
                yield _echo(ref, "/scale", media, change)
        if ref not in (GIZMO, KNOB):
            for media, change in CHANGES.items():
                yield _echo(ref, "", media, change)


def _echo(ref: str, subresource: str, media: str, change: tuple[bytes, bytes]) -> Spelling:
    short = media.rpartition("/")[2].rpartition(".")[2]
    name = ref.rpartition("/")[2]
    return Spelling(
        f"echo-{name}{subresource.replace('/', '-')}-{short}",
        "read, modify, write",
        ref,
        "PUT",
        path_of(ref) + subresource,
        (("content-type", media),),
        b"",
        ordinary=True,
        server="cbor" if media == CBOR else "default",
        echo=(media, *change),
    )
