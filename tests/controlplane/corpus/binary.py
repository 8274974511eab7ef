"""Protobuf and CBOR bodies, right and wrong."""

# ruff: noqa: E501 - a spelling reads best on one line

from __future__ import annotations

import copy
import io
from collections.abc import Iterator

import cbor2

from tests.controlplane.corpus import protowire as pb
from tests.controlplane.corpus.base import (
    APPLY,
    APPLY_CBOR,
    CBOR,
    CREW,
    DB,
    GIZMO,
    JSON,
    JSON_PATCH,
    MERGE,
    OLD,
    PLAIN,
    PROTOBUF,
    SCALE,
    STRATEGIC,
    WEB,
    Spelling,
    Tree,
    changed,
    patch,
    path_of,
    post,
    put,
    scale,
    to,
)
from tests.controlplane.fixtures import FIXTURES, deployment, of_kind

SELF_DESCRIBED = b"\xd9\xd9\xf7"


def spellings() -> Iterator[Spelling]:
    """Protobuf on the default server; CBOR on it and on one that has it switched on."""
    yield from _protobuf_objects()
    yield from _protobuf_scales()
    yield from _protobuf_patches()
    for server in ("default", "cbor"):
        yield from _cbor(server)
    yield from _cbor_items()


def _protobuf_objects() -> Iterator[Spelling]:
    for ref in (WEB, DB, CREW, OLD):
        kind, base = ref.split(".")[0].split(" ")[0], FIXTURES[ref]
        for name, body in {
            "replicas": changed(base, replicas=5),
            "same": base,
            "absent": changed(base, replicas=...),
            "zero": changed(base, replicas=0),
            "negative": changed(base, replicas=-1),
            "wrap": changed(base, replicas=(1 << 32) + 5),
            "max": changed(base, replicas=(1 << 31) - 1),
            "over": changed(base, replicas=1 << 31),
        }.items():
            yield put(f"protobuf-put-{kind}-{name}", "protobuf", pb.document(body), PROTOBUF, target=path_of(ref), before=ref,
                      ordinary=name in {"replicas", "same", "absent", "zero", "max"})  # fmt: skip
        fresh = of_kind(base["kind"], "fresh", 3)
        yield post(f"protobuf-post-{kind}", "protobuf", pb.document(fresh), PROTOBUF, before=ref, ordinary=True)
        grown = copy.deepcopy(base["spec"]["template"])
        grown["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "900m"
        yield put(f"protobuf-put-{kind}-template", "protobuf", pb.document(changed(base, template=grown)), PROTOBUF,
                  target=path_of(ref), before=ref, ordinary=True)  # fmt: skip


def _protobuf_scales() -> Iterator[Spelling]:
    raw, good = pb.raw_object(scale()), pb.document(scale())
    meta = pb.bytes_field(1, pb.encode({"name": "web", "namespace": "default"}, pb.OBJECT_META))

    def wrapped(spec: bytes, more: bytes = b"") -> bytes:
        return pb.envelope(meta + pb.bytes_field(2, spec) + more, "autoscaling/v1", "Scale")

    cases = {
        "good": good,
        "no-magic": good[4:],
        "magic-only": pb.MAGIC,
        "magic-other": b"k8s\x01" + good[4:],
        "raw-only": pb.MAGIC + raw,
        "truncated": good[:-1],
        "truncated-more": good[:-5],
        "trailing-byte": good + b"\x00",
        "trailing-field": good + pb.number_field(100, 1),
        "zero-spec": wrapped(b""),
        "spec-absent": pb.envelope(meta, "autoscaling/v1", "Scale"),
        "replicas-twice": wrapped(pb.number_field(1, 1) + pb.number_field(1, 5)),
        "replicas-twice-reversed": wrapped(pb.number_field(1, 5) + pb.number_field(1, 1)),
        "spec-twice": wrapped(pb.number_field(1, 5), pb.bytes_field(2, b"")),
        "spec-twice-both": wrapped(pb.number_field(1, 1), pb.bytes_field(2, pb.number_field(1, 5))),
        "raw-twice": pb.envelope(pb.raw_object(scale(1)), "autoscaling/v1", "Scale", pb.bytes_field(2, raw)),
        "raw-twice-reversed": pb.envelope(raw, "autoscaling/v1", "Scale", pb.bytes_field(2, pb.raw_object(scale(1)))),
        "type-meta-twice": pb.envelope(raw, "v1", "Pod", pb.bytes_field(1, pb.bytes_field(1, b"autoscaling/v1") + pb.bytes_field(2, b"Scale"))),
        "type-meta-absent": pb.MAGIC + pb.bytes_field(2, raw),
        "kind-absent": pb.MAGIC + pb.bytes_field(1, pb.bytes_field(1, b"autoscaling/v1")) + pb.bytes_field(2, raw),
        "kind-other": pb.envelope(raw, "apps/v1", "Deployment"),
        "kind-extensions": pb.envelope(raw, "extensions/v1beta1", "Scale"),
        "kind-beta2": pb.envelope(raw, "apps/v1beta2", "Scale"),
        "content-type-json": pb.envelope(b'{"spec":{"replicas":5}}', "autoscaling/v1", "Scale", pb.bytes_field(4, b"application/json")),
        "content-type-protobuf": pb.envelope(raw, "autoscaling/v1", "Scale", pb.bytes_field(4, PROTOBUF.encode())),
        "content-type-own": pb.envelope(raw, "autoscaling/v1", "Scale", pb.bytes_field(4, b"x/y")),
        "content-encoding": pb.envelope(raw, "autoscaling/v1", "Scale", pb.bytes_field(3, b"gzip")),
        "content-encoding-empty": pb.envelope(raw, "autoscaling/v1", "Scale", pb.bytes_field(3, b"")),
        "long-varint": wrapped(b"\x08\x85\x80\x80\x80\x00"),
        "long-varint-ten": wrapped(b"\x08\x85" + b"\x80" * 8 + b"\x00"),
        "long-varint-eleven": wrapped(b"\x08\x85" + b"\x80" * 9 + b"\x00"),
        "long-tag": wrapped(b"\x88\x80\x00\x05"),
        "varint-negative": wrapped(pb.number_field(1, -1)),
        "varint-wrap": wrapped(pb.number_field(1, (1 << 32) + 5)),
        "varint-wrap-high": wrapped(pb.number_field(1, (1 << 63) + 5)),
        "varint-over": wrapped(pb.number_field(1, 1 << 31)),
        "wire-fixed32": wrapped(b"\x0d\x05\x00\x00\x00"),
        "wire-fixed64": wrapped(b"\x09\x05" + b"\x00" * 7),
        "wire-bytes": wrapped(b"\x0a\x01\x05"),
        "wire-group": wrapped(b"\x0b\x0c"),
        "wire-seven": wrapped(b"\x0f\x05"),
        "unknown-field": wrapped(pb.number_field(1, 5) + pb.number_field(99, 1) + pb.bytes_field(98, b"x")),
        "unknown-group": wrapped(pb.number_field(1, 5) + b"\x9b\x06\x08\x01\x9c\x06"),
        "unknown-group-open": wrapped(pb.number_field(1, 5) + b"\x9b\x06"),
        "unknown-end-group": wrapped(pb.number_field(1, 5) + b"\x9c\x06"),
        "unknown-fixed": wrapped(pb.number_field(1, 5) + b"\x9d\x06\x01\x02\x03\x04\x99\x06" + b"\x00" * 8),
        "field-zero": wrapped(pb.number_field(1, 5) + b"\x00\x01"),
        "field-huge": wrapped(pb.number_field(1, 5) + pb.varint(((1 << 29) - 1) << 3) + b"\x01"),
        "field-over": wrapped(pb.number_field(1, 5) + pb.varint((1 << 35) | 8) + b"\x09"),
        "length-beyond": pb.envelope(meta + b"\x12\x09\x08\x05", "autoscaling/v1", "Scale"),
        "length-negative": pb.envelope(meta + b"\x12" + pb.varint(-1) + b"\x08\x05", "autoscaling/v1", "Scale"),
        "length-huge": pb.envelope(meta + b"\x12\xff\xff\xff\xff\x07\x08\x05", "autoscaling/v1", "Scale"),
        "invalid-utf8": pb.envelope(pb.bytes_field(1, pb.bytes_field(1, b"web") + pb.bytes_field(8, b"\xff")) + pb.bytes_field(2, pb.number_field(1, 5)), "autoscaling/v1", "Scale"),
        "json-body": b'{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"web"},"spec":{"replicas":5}}',
        "empty": b"",
        "nested": pb.envelope(good, "autoscaling/v1", "Scale"),
    }  # fmt: skip
    for name, body in cases.items():
        yield put(f"protobuf-scale-{name}", "protobuf", body, PROTOBUF, ordinary=name == "good")
    for name in ("good", "replicas-twice", "wrap"):
        body = cases.get(name, wrapped(pb.number_field(1, (1 << 32) + 5)))
        yield put(f"protobuf-old-{name}", "protobuf", body.replace(b"\x03web", b"\x03old"), PROTOBUF,
                  target=path_of(OLD) + "/scale", before=OLD)  # fmt: skip
    custom = pb.document(scale(name="gizmo"))
    yield put(
        "protobuf-custom",
        "custom resources take no protobuf?",
        custom,
        PROTOBUF,
        target=path_of(GIZMO) + "/scale",
        before=GIZMO,
    )
    for media in ("application/vnd.kubernetes.protobuf;type=Scale", "Application/Vnd.Kubernetes.Protobuf",
                  "application/vnd.kubernetes.protobuf;stream=watch", "application/x-protobuf"):  # fmt: skip
        yield put(
            f"protobuf-media-{media.lower().replace('/', '-')}-{media[0]}", "protobuf's content type", good, media
        )
    yield put("protobuf-as-json", "magic bytes under JSON's name", good, JSON)
    yield put("protobuf-as-nothing", "magic bytes under no name", good, "")
    yield put("protobuf-as-yaml", "magic bytes under YAML's name", good, "application/yaml")


def _protobuf_patches() -> Iterator[Spelling]:
    for media in (MERGE, STRATEGIC, JSON_PATCH, APPLY, PROTOBUF, "application/apply-patch+protobuf"):
        yield patch(f"protobuf-patch-{media[12:20]}-{len(media)}", "no protobuf patches", pb.document(scale()), media)


def _encode(tree: Tree) -> bytes:
    return SELF_DESCRIBED + cbor2.dumps(tree)


def _cbor(server: str) -> Iterator[Spelling]:
    more = {"server": server}
    tag = f"cbor-{server}"
    forced = "?fieldManager=m&force=true"
    config = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, **to()}
    ordinary = server == "cbor"
    yield put(f"{tag}-scale", "CBOR", _encode(scale()), CBOR, ordinary=ordinary, **more)
    yield put(f"{tag}-scale-untagged", "without the self-describing tag", cbor2.dumps(scale()), CBOR, **more)
    yield put(
        f"{tag}-put", "CBOR", _encode(changed(FIXTURES[WEB], replicas=5)), CBOR, target=PLAIN, ordinary=ordinary, **more
    )
    yield put(f"{tag}-put-absent", "CBOR", _encode(changed(FIXTURES[WEB], replicas=...)), CBOR, target=PLAIN, **more)
    yield put(
        f"{tag}-set",
        "CBOR",
        _encode(changed(FIXTURES[DB], replicas=5)),
        CBOR,
        target=path_of(DB),
        before=DB,
        ordinary=ordinary,
        **more,
    )
    yield post(f"{tag}-post", "CBOR", _encode(deployment("fresh", 3)), CBOR, ordinary=ordinary, **more)
    yield put(
        f"{tag}-custom",
        "CBOR of a custom scale",
        _encode(scale(name="gizmo")),
        CBOR,
        target=path_of(GIZMO) + "/scale",
        before=GIZMO,
        ordinary=True,
        **more,
    )
    yield put(
        f"{tag}-custom-untagged",
        "CBOR of a custom scale",
        cbor2.dumps(scale(name="gizmo")),
        CBOR,
        target=path_of(GIZMO) + "/scale",
        before=GIZMO,
        **more,
    )
    yield patch(f"{tag}-apply", "CBOR", _encode(config), APPLY_CBOR, target=PLAIN + forced, ordinary=ordinary, **more)
    yield patch(f"{tag}-apply-untagged", "CBOR", cbor2.dumps(config), APPLY_CBOR, target=PLAIN + forced, **more)
    yield patch(f"{tag}-apply-parameters", "CBOR", _encode(config), APPLY_CBOR + ";a=b", target=PLAIN + forced, **more)
    yield patch(
        f"{tag}-apply-scale", "CBOR", _encode(scale()), APPLY_CBOR, target=SCALE + forced, ordinary=ordinary, **more
    )
    yield patch(
        f"{tag}-apply-custom",
        "CBOR",
        _encode(scale(name="gizmo")),
        APPLY_CBOR,
        target=path_of(GIZMO) + "/scale" + forced,
        before=GIZMO,
        **more,
    )
    yield patch(f"{tag}-apply-json", "JSON under CBOR's name", config, APPLY_CBOR, target=PLAIN + forced, **more)
    yield patch(f"{tag}-merge", "no CBOR merge patches", _encode(to()), "application/merge-patch+cbor", **more)
    yield patch(f"{tag}-as-merge", "CBOR under JSON's name", _encode(to()), MERGE, **more)
    yield put(f"{tag}-as-json", "CBOR under JSON's name", _encode(scale()), JSON, **more)
    yield put(f"{tag}-as-nothing", "CBOR under no name", _encode(scale()), "", **more)
    yield put(f"{tag}-capital", "CBOR's name in capitals", _encode(scale()), "Application/CBOR", **more)
    yield put(f"{tag}-seq", "a CBOR sequence", _encode(scale()), "application/cbor-seq", **more)


def _cbor_items() -> Iterator[Spelling]:
    """Items in the place of the replicas, and odd encodings of the map around them, with the gate switched on."""
    head = SELF_DESCRIBED + b"\xa4" + b"".join(
        cbor2.dumps(part) for part in ("kind", "Scale", "apiVersion", "autoscaling/v1", "metadata", {"name": "web", "namespace": "default"})
    ) + cbor2.dumps("spec")  # fmt: skip
    key = cbor2.dumps("replicas")
    one = b"\xa1" + key
    cases = {
        "int": one + b"\x05",
        "int-long": one + b"\x1b" + b"\x00" * 7 + b"\x05",
        "negative": one + b"\x20",
        "int-over": one + cbor2.dumps(1 << 31),
        "int64-over": one + cbor2.dumps(1 << 63),
        "bignum": one + b"\xc2\x41\x05",
        "float16": one + b"\xf9\x45\x00",
        "float32": one + b"\xfa\x40\xa0\x00\x00",
        "float64": one + cbor2.dumps(5.0),
        "fraction": one + cbor2.dumps(5.5),
        "nan": one + b"\xf9\x7e\x00",
        "inf": one + b"\xf9\x7c\x00",
        "null": one + b"\xf6",
        "undefined": one + b"\xf7",
        "true": one + b"\xf5",
        "simple": one + b"\xf8\x20",
        "text": one + cbor2.dumps("5"),
        "bytes": one + cbor2.dumps(b"5"),
        "tagged": one + b"\xc1\x05",
        "tagged-unknown": one + b"\xd9\x03\xe8\x05",
        "tag-self-described": one + SELF_DESCRIBED + b"\x05",
        "decimal": one + b"\xc4\x82\x00\x05",
        "duplicate": b"\xa2" + key + b"\x01" + key + b"\x05",
        "duplicate-reversed": b"\xa2" + key + b"\x05" + key + b"\x01",
        "case": b"\xa1" + cbor2.dumps("Replicas") + b"\x05",
        "both-cases": b"\xa2" + key + b"\x01" + cbor2.dumps("REPLICAS") + b"\x05",
        "bytes-key": b"\xa1" + cbor2.dumps(b"replicas") + b"\x05",
        "bytes-and-text-key": b"\xa2" + key + b"\x01" + cbor2.dumps(b"replicas") + b"\x05",
        "int-key": b"\xa2" + key + b"\x05" + b"\x01\x01",
        "indefinite-map": b"\xbf" + key + b"\x05\xff",
        "indefinite-key": b"\xa1\x7f\x64repl\x64icas\xff\x05",
        "long-key-length": b"\xa1\x78\x08replicas\x05",
        "empty": b"\xa0",
        "null-spec": b"\xf6",
        "array-spec": b"\x81\x05",
        "trailing": one + b"\x05\x00",
        "truncated": one,
        "invalid-utf8": b"\xa2" + key + b"\x05\x61\xff\x01",
        "deep": b"\xa2" + key + b"\x05" + b"\x61x" + b"\x81" * 60 + b"\x01",
        "deep-more": b"\xa2" + key + b"\x05" + b"\x61x" + b"\x81" * 500 + b"\x01",
        "reserved": one + b"\x1c",
        "break": one + b"\xff",
        "length-huge": b"\xbb" + b"\x7f" + b"\xff" * 7,
    }  # fmt: skip
    for name, item in cases.items():
        yield put(f"cbor-item-{name}", "a CBOR item", head + item, CBOR, server="cbor")
        custom = (head + item).replace(b"\x63web", b"\x65gizmo")
        yield put(f"cbor-custom-item-{name}", "a CBOR item of a custom scale", custom, CBOR, server="cbor",
                  target=path_of(GIZMO) + "/scale", before=GIZMO)  # fmt: skip
    stream = io.BytesIO()
    cbor2.CBOREncoder(stream, string_referencing=True).encode([scale(), scale(9)])
    yield put(
        "cbor-string-references", "references to strings", SELF_DESCRIBED + stream.getvalue(), CBOR, server="cbor"
    )
    yield put(
        "cbor-two-tags", "two self-describing tags", SELF_DESCRIBED * 2 + cbor2.dumps(scale()), CBOR, server="cbor"
    )
    bytes_quantity = deployment("fresh", 3)
    bytes_quantity["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": b"2"}}
    yield post("cbor-post-quantity-bytes", "a quantity as bytes", _encode(bytes_quantity), CBOR, server="cbor")
    bytes_quantity["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": 2}}
    yield post("cbor-post-quantity-int", "a quantity as an int", _encode(bytes_quantity), CBOR, server="cbor")
    bytes_quantity["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": 0.5}}
    yield post("cbor-post-quantity-float", "a quantity as a float", _encode(bytes_quantity), CBOR, server="cbor")
