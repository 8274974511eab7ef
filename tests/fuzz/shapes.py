"""Bodies that are costly by construction, of any size: ``shape(size)`` gives a body of about so many pieces."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from extauthz.testing import admission, workload

Shape = Callable[[int], bytes]

DEEP = 90


def dumps(tree: object) -> bytes:
    return json.dumps(tree, separators=(",", ":")).encode()


def _operations(operation: Mapping[str, object], size: int) -> bytes:
    return dumps([operation] * size)


JSON_PATCH: Mapping[str, Shape] = {
    "count": lambda size: _operations({"op": "add", "path": "/spec/replicas", "value": 3}, size),
    "move": lambda size: _operations({"op": "move", "from": "/spec/a", "path": "/spec/b"}, size),
    "test": lambda size: _operations({"op": "test", "path": "/spec/x", "value": [{}] * 9}, size),
    "pointers": lambda size: _operations({"op": "add", "path": "/metadata" + "/a" * 100, "value": 1}, size // 10),
    "slashes": lambda size: _operations({"op": "add", "path": "/metadata" + "/" * size, "value": 1}, 1),
    "escapes": lambda size: _operations({"op": "add", "path": "/spec/" + "~1" * size, "value": 1}, 1),
    "value": lambda size: dumps([{"op": "add", "path": "/spec/a", "value": [0] * size}]),
    "empty": lambda size: b"[" + b"{}," * size + b"{}]",
}


def _pod(**pod: object) -> bytes:
    return dumps({"metadata": {"name": "web"}, "spec": {"replicas": 3, "template": {"spec": pod}}})


def _named(size: int) -> list[dict[str, object]]:
    return [{"name": f"c{n}", "resources": {"requests": {"cpu": "1"}}} for n in range(size)]


def _spec(text: bytes) -> bytes:
    return b'{"spec":{"replicas":3,"template":{},"x":' + text + b"}}"


OBJECT: Mapping[str, Shape] = {
    "numbers": lambda size: _spec(b"[" + b"0," * size + b"0]"),
    "empty-lists": lambda size: _spec(b"[" + b"[]," * size + b"0]"),
    "fractions": lambda size: _spec(b"[" + b"1e1," * size + b"0]"),
    "strings": lambda size: _spec(b"[" + b'"\\u0041",' * size + b"0]"),
    "quotes": lambda size: _spec(b'"' + b'\\"' * size + b'"'),
    "text": lambda size: _spec(b'"' + b"x" * (size * 10) + b'"'),
    "long-numbers": lambda size: _spec(b"[" + (b"1" * 4300 + b",") * (size // 100) + b"0]"),
    "deep": lambda size: _spec(b"[" + b",".join([b"[" * DEEP + b"]" * DEEP] * size) + b"]"),
    "empty-containers": lambda size: _pod(containers=[{}] * size),
    "null-containers": lambda size: _pod(containers=[None] * size),
    "containers": lambda size: _pod(containers=_named(size)),
    "volumes": lambda size: _pod(volumes=[{"name": f"v{n}", "emptyDir": {}} for n in range(size)]),
    "claims": lambda size: _pod(
        volumes=[{"name": f"v{n}", "ephemeral": {"volumeClaimTemplate": {}}} for n in range(size)]
    ),
    "amounts": lambda size: _pod(containers=[{"name": "a", "resources": {"limits": {str(n): 1 for n in range(size)}}}]),
    "overhead": lambda size: _pod(overhead={str(n): 1 for n in range(size)}),
    "labels": lambda size: dumps({"metadata": {"labels": {str(n): "" for n in range(size)}}, "spec": {"template": {}}}),
    "owners": lambda size: dumps({"metadata": {"ownerReferences": [{}] * size}, "spec": {"template": {}}}),
}

_HEAD, _MIDDLE, _TAIL = dumps(admission(workload(), workload()) | {"z": 0}).split(dumps(workload()))


def _review(shape: Shape) -> Shape:
    """An AdmissionReview whose object and old object are both of this shape."""
    return lambda size: _HEAD + shape(size) + _MIDDLE + shape(size) + _TAIL


def _by(size: int, user: str = "jane", group: str = "g") -> bytes:
    """A review of somebody in so many groups."""
    who = {"username": user, "groups": [group] * size}
    return dumps(admission(workload(), workload(), userInfo=who))


REQUESTERS: Mapping[str, Shape] = {
    "groups": _by,
    "long-groups": lambda size: _by(size, group="g" * 70),
    "a-group": lambda size: _by(1, group="g" * size * 10),
    "user": lambda size: _by(1, user="u" * size * 10),
}


def _field(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    low, number = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + _varint(number) if number else bytes([low])


def _message(spec: bytes) -> bytes:
    return b"k8s\0" + _field(2, _field(2, spec))


PROTOBUF: Mapping[str, Shape] = {
    "unknown": lambda size: _message(b"\x48\x00" * size),
    "replicas": lambda size: _message(b"\x08\x03" * size),
    "specs": lambda size: b"k8s\0" + _field(2, _field(2, b"") * size),
    "names": lambda size: b"k8s\0" + _field(2, _field(1, _field(1, b"a") * size)),
}

REVIEW = "review"

KINDS: Mapping[str, tuple[str, str, Mapping[str, Shape]]] = {
    "json-patch": ("PATCH", "application/json-patch+json", JSON_PATCH),
    "merge-patch": ("PATCH", "application/merge-patch+json", OBJECT),
    "strategic-merge-patch": ("PATCH", "application/strategic-merge-patch+json", OBJECT),
    "json": ("PUT", "application/json", OBJECT),
    "protobuf": ("PUT", "application/vnd.kubernetes.protobuf", PROTOBUF),
    REVIEW: ("POST", "application/json", {name: _review(shape) for name, shape in OBJECT.items()} | REQUESTERS),
}
"""Name to method, content type and shapes. All are what Envoy brings, but the last, which an API server asks."""
