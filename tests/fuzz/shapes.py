"""Bodies that are costly by construction, of any size: ``shape(size)`` gives a body of about so many pieces."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

Shape = Callable[[int], bytes]

POD = "/spec/template/spec"
DEEP = 90


def dumps(tree: object) -> bytes:
    return json.dumps(tree, separators=(",", ":")).encode()


def operations(*operations: Mapping[str, object]) -> bytes:
    return dumps(operations)


def _moves(size: int) -> bytes:
    """A large value is moved to and fro."""
    there = {"op": "move", "from": "/spec/a", "path": "/spec/b"}
    back = {"op": "move", "from": "/spec/b", "path": "/spec/a"}
    large = {"op": "add", "path": "/spec/a", "value": [0] * size}
    return operations(large, *[there, back] * max(1, size // 100))


def _copies(size: int) -> bytes:
    """A list that doubles."""
    copy = {"op": "copy", "from": "/spec/a", "path": "/spec/a/-"}
    return operations({"op": "add", "path": "/spec/a", "value": [[]] * 9}, *[copy] * size)


def _shifts(size: int) -> bytes:
    """A list that is put into at its front."""
    put = {"op": "add", "path": "/spec/a/0", "value": 1}
    return operations({"op": "add", "path": "/spec/a", "value": [0] * size}, *[put] * size)


def _pointers(size: int) -> bytes:
    """Long pointers into deep values."""
    deep: object = 1
    for _ in range(DEEP):
        deep = {"a": deep}
    test = {"op": "replace", "path": "/spec" + "/a" * DEEP, "value": 1}
    return operations({"op": "add", "path": "/spec/a", "value": deep}, *[test] * size)


def _tests(size: int) -> bytes:
    return operations(*[{"op": "test", "path": "/spec/x", "value": [{}] * 9}] * size)


def _template_moves(size: int) -> bytes:
    """The observed template is moved to and fro."""
    there = {"op": "move", "from": "/spec/template", "path": "/spec/b"}
    back = {"op": "move", "from": "/spec/b", "path": "/spec/template"}
    return operations(*[there, back] * size)


JSON_PATCH: Mapping[str, Shape] = {
    "move": _moves,
    "copy": _copies,
    "shift": _shifts,
    "pointers": _pointers,
    "test": _tests,
    "move-template": _template_moves,
    "empty": lambda size: b"[" + b"{}," * size + b"{}]",
}


def _pod(**pod: object) -> bytes:
    return dumps({"metadata": {"name": "web"}, "spec": {"replicas": 3, "template": {"spec": pod}}})


def _named(size: int) -> list[dict[str, object]]:
    return [{"name": f"c{n}", "resources": {"requests": {"cpu": "1"}}} for n in range(size)]


def _deep_lists(size: int) -> bytes:
    return b'{"spec":{"a":[' + b",".join([b"[" * DEEP + b"]" * DEEP] * size) + b"]}}"


OBJECT: Mapping[str, Shape] = {
    "numbers": lambda size: b'{"spec":{"template":{"spec":{"x":[' + b"0," * size + b"0]}}}}",
    "empty-lists": lambda size: b'{"spec":{"template":{"spec":{"x":[' + b"[]," * size + b"0]}}}}",
    "fractions": lambda size: b'{"spec":{"template":{"spec":{"x":[' + b"1e1," * size + b"0]}}}}",
    "strings": lambda size: b'{"spec":{"template":{"spec":{"x":[' + b'"\\u0041",' * size + b"0]}}}}",
    "quotes": lambda size: b'{"spec":{"template":{"spec":{"x":"' + b'\\"' * size + b'"}}}}',
    "long-numbers": lambda size: b'{"spec":{"x":[' + (b"1" * 4300 + b",") * (size // 100) + b"0]}}",
    "empty-containers": lambda size: _pod(containers=[{}] * size),
    "null-containers": lambda size: _pod(containers=[None] * size),
    "containers": lambda size: _pod(containers=_named(size)),
    "volumes": lambda size: _pod(volumes=[{"name": f"v{n}", "emptyDir": {}} for n in range(size)]),
    "claims": lambda size: _pod(
        volumes=[{"name": f"v{n}", "ephemeral": {"volumeClaimTemplate": {}}} for n in range(size)]
    ),
    "amounts": lambda size: _pod(containers=[{"name": "a", "resources": {"limits": {str(n): 1 for n in range(size)}}}]),
    "overhead": lambda size: _pod(overhead={str(n): 1 for n in range(size)}),
    "deep": _deep_lists,
    "labels": lambda size: dumps({"metadata": {"labels": {str(n): "" for n in range(size)}}, "spec": {}}),
    "owners": lambda size: dumps({"metadata": {"ownerReferences": [{}] * size}, "spec": {"template": {}}}),
    "text": lambda size: b'{"spec":{"x":"' + b"x" * (size * 10) + b'"}}',
}

STRATEGIC: Mapping[str, Shape] = {
    **OBJECT,
    "deletions": lambda size: _pod(containers=[{"name": f"c{n}", "$patch": "delete"} for n in range(size)]),
    "order": lambda size: _pod(
        **{"containers": _named(size), "$setElementOrder/containers": [{"name": f"c{n}"} for n in range(size)]}
    ),
    "retain": lambda size: _pod(**{"$retainKeys": [f"c{n}" for n in range(size)]}),
}

SCALE: Mapping[str, Shape] = {
    "numbers": lambda size: b'{"spec":{"replicas":3,"x":[' + b"0," * size + b"0]}}",
    "text": lambda size: b'{"spec":{"replicas":3,"x":"' + b"x" * (size * 10) + b'"}}',
}


def _document(*lines: str) -> bytes:
    return "\n".join(lines).encode()


YAML: Mapping[str, Shape] = {
    "tag-directives": lambda size: _document(*[f"%TAG !{n}! tag:x,2000:" for n in range(size)], "--- {spec: {}}"),
    "long-prefix": lambda size: _document("%TAG ! " + "x" * (size * 10), "---", *["- !a b"] * size),
    "items": lambda size: b"spec:\n" + b"- a\n" * size,
    "flow": lambda size: b"spec: {a: [" + b"a, " * size + b"a]}",
    "aliases": lambda size: b"a: &a [1, 2, 3, 4]\nspec: {a: [" + b"*a, " * size + b"*a]}",
    "anchors": lambda size: _document("spec:", *[f"- &a{n} 1" for n in range(size)]),
    "tags": lambda size: _document("spec:", *["- !!str a"] * size),
    "merges": lambda size: _document("a: &a {b: 1, c: 2}", "spec:", *["- <<: *a"] * size),
    "merge-list": lambda size: b"a: &a {b: 1}\nspec: {<<: [" + b"*a, " * size + b"*a]}",
    "deep-flow": lambda size: b"spec: " + b"[" * size,
    "deep-block": lambda size: b"- " * size + b"a",
    "questions": lambda size: b"? " * size + b"a",
    "open-quote": lambda size: b"spec: '" + b"x\n\n" * size,
    "plain-lines": lambda size: b"spec: x" + b"\n x" * size,
    "blank-lines": lambda size: b"spec: x" + b"\n " * size,
    "comments": lambda size: b"#\n" * size + b"spec: {}",
    "literal": lambda size: b"spec: |\n" + b" x\n" * size,
    "numbers": lambda size: b"spec: " + b"1_" * size,
    "colons": lambda size: b"spec: a" + b":a" * size,
    "documents": lambda size: b"spec: {}\n" + b"---\n{}\n" * size,
    "keys": lambda size: _document("spec:", *[f"  k{n}: 1" for n in range(size)]),
    "json": lambda size: b'{"spec":{"x":[' + b"0," * size + b"0]}}",
    "replicas-only": lambda size: b"spec: {replicas: 3}",
}


def _cbor_map(key: bytes, value: bytes) -> bytes:
    return b"\xa1" + bytes([0x60 + len(key)]) + key + value


CBOR: Mapping[str, Shape] = {
    "numbers": lambda size: _cbor_map(b"spec", b"\x9f" + b"\x00" * size + b"\xff"),
    "maps": lambda size: _cbor_map(b"spec", b"\x9f" + b"\xa1\x60\x00" * size + b"\xff"),
    "tags": lambda size: _cbor_map(b"spec", b"\x9f" + b"\xd9\xd9\xf7\x00" * size + b"\xff"),
    "chunks": lambda size: _cbor_map(b"spec", b"\x7f" + b"\x60" * size + b"\xff"),
    "floats": lambda size: _cbor_map(b"spec", b"\x9f" + b"\xf9\x3c\x00" * size + b"\xff"),
    "deep": lambda size: _cbor_map(b"spec", b"\x9f" + (b"\x81" * DEEP + b"\x00") * size + b"\xff"),
}


def field(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    low, number = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + _varint(number) if number else bytes([low])


def _message(spec: bytes) -> bytes:
    return b"k8s\0" + field(2, field(2, spec))


def _containers(container: bytes, size: int) -> bytes:
    return _message(field(3, field(2, field(2, container) * size)))


PROTOBUF: Mapping[str, Shape] = {
    "unknown": lambda size: _message(b"\x48\x00" * size),
    "replicas": lambda size: _message(b"\x08\x03" * size),
    "containers": lambda size: _containers(b"", size),
    "names": lambda size: _containers(field(1, b"a"), size),
    "amounts": lambda size: _containers(field(8, field(1, b"") * size), 1),
    "templates": lambda size: _message(field(3, b"") * size),
    "selectors": lambda size: _message(field(2, field(1, b"")) * size),
}

KINDS: Mapping[str, tuple[str, str, Mapping[str, Shape]]] = {
    "json-patch": ("PATCH", "application/json-patch+json", JSON_PATCH),
    "merge-patch": ("PATCH", "application/merge-patch+json", OBJECT),
    "strategic-merge-patch": ("PATCH", "application/strategic-merge-patch+json", STRATEGIC),
    "apply-yaml": ("PATCH", "application/apply-patch+yaml", YAML | OBJECT),
    "apply-cbor": ("PATCH", "application/apply-patch+cbor", CBOR),
    "json": ("PUT", "application/json", OBJECT),
    "yaml": ("PUT", "application/yaml", YAML),
    "cbor": ("PUT", "application/cbor", CBOR),
    "protobuf": ("PUT", "application/vnd.kubernetes.protobuf", PROTOBUF),
}
"""Name to method, content type and shapes."""
