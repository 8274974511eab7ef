"""Spellings by chance: what nobody thought of; and odd paths around odd bodies under odd content types of the corpus.

The corpus is odd in one place at a time, and recorded. These are never recorded: each run against a live server makes
new ones (``tests/e2e/test_differential.py``), and the same seed makes the same ones.
"""

# ruff: noqa: E501 - a spelling reads best on one line

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from tests.controlplane.fixtures import FIXTURES, path_of
from tests.controlplane.record_spellings import Headers, Spelling, Tree

WEB = "deployments.apps default/web"
APPLIED = "deployments.apps default/applied"
JSON = "application/json"
YAML = "application/yaml"
CBOR = "application/cbor"
PROTOBUF = "application/vnd.kubernetes.protobuf"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
APPLY_CBOR = "application/apply-patch+cbor"
GROWN = 5
"""The fixtures have two replicas, ``idle`` none; most spellings ask for this many."""
SCALE = path_of(WEB) + "/scale"
PLAIN = path_of(WEB)


def dump(tree: Tree) -> bytes:
    """Compact JSON; bytes and text pass through."""
    if isinstance(tree, bytes):
        return tree
    return tree.encode() if isinstance(tree, str) else json.dumps(tree, separators=(",", ":")).encode()


def patch(
    id: str, why: str, body: Tree, content_type: str = MERGE, target: str = SCALE, before: str = WEB, **more: Any
) -> Spelling:
    """A PATCH; *body* is a tree, text or bytes."""
    return Spelling(id, why, before, "PATCH", target, (("content-type", content_type),), dump(body), **more)


def put(
    id: str, why: str, body: Tree, content_type: str = JSON, target: str = SCALE, before: str = WEB, **more: Any
) -> Spelling:
    """A PUT."""
    return Spelling(id, why, before, "PUT", target, (("content-type", content_type),), dump(body), **more)


def scale(replicas: Tree = GROWN, name: str = "web", **metadata: Tree) -> Tree:
    """A Scale as the HPA writes it."""
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {"replicas": replicas},
    }


def to(replicas: Tree = GROWN) -> Tree:
    """The merge patch that sets replicas."""
    return {"spec": {"replicas": replicas}}


YAML_PIECES = [*"0123456789+-._:eExobBXOn~'\"!&#, ", "0x", "0o", "0b", "5", "5", "5", ".inf", "e+1", "_", "\\x35", "10"]
JSON_PIECES = ["5", "0", "1", "9", "-", "+", ".", "e", "E", "e0", "e1", "e-1", ".0", ".5", "00", "2147483647", " "]
QUERY_NAMES = ["dryRun", "dryRun", "dryRun", "dryrun", "%64ryRun", "dryRun%20", "a", "", "fieldManager", "dry+Run"]
QUERY_VALUES = [
    "=All",
    "=All",
    "=All",
    "=",
    "",
    "=None",
    "=%41ll",
    "=All%",
    "=All+",
    "==All",
    "=all",
    "=All;b",
    "=Al%6C",
]
SEPARATORS = ["&", "&", "&", ";", "&&", "?", "#", "%26", ",", "&;&"]
SEGMENTS = ["", "apis", "apps", "v1", "namespaces", "default", "deployments", "web", "scale"]


def _text(chance: random.Random, pieces: list[str], most: int) -> str:
    return "".join(chance.choice(pieces) for _ in range(chance.randint(1, most)))


def _scalars(chance: random.Random) -> Iterator[Spelling]:
    head = "apiVersion: autoscaling/v1\nkind: Scale\nmetadata: {name: web, namespace: default}\nspec:\n  replicas: "
    while True:
        yield put("yaml", "a YAML scalar", head + _text(chance, YAML_PIECES, 4) + "\n", YAML)


def _numbers(chance: random.Random) -> Iterator[Spelling]:
    while True:
        yield patch("json", "a JSON number", '{"spec":{"replicas":' + _text(chance, JSON_PIECES, 3) + "}}")


def _queries(chance: random.Random) -> Iterator[Spelling]:
    while True:
        yield patch("query", "a query", to(), target=f"{SCALE}?{odd_query(chance)}")


def odd_query(chance: random.Random) -> str:
    """Up to three pairs, most of them about dry runs."""
    pairs = [chance.choice(QUERY_NAMES) + chance.choice(QUERY_VALUES) for _ in range(chance.randint(1, 3))]
    return pairs[0] + "".join(chance.choice(SEPARATORS) + pair for pair in pairs[1:])


ODD_SEGMENTS = [
    "", ".", "..", "%2e", "%2E%2e", "%2F", "x/..", "%20", "%", "%00", "watch", "proxy", "status", "scale", "*",
]  # fmt: skip


def _paths(chance: random.Random) -> Iterator[Spelling]:
    while True:
        yield patch("path", "a path", to(), target=odd_path(chance, SEGMENTS))


def odd_path(chance: random.Random, plain: list[str]) -> str:
    """A path of these segments (the first is empty), up to three of them changed."""
    segments = list(plain)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(1, len(segments))
        match chance.randrange(5):
            case 0:
                segments.insert(at, chance.choice(ODD_SEGMENTS))
            case 1:
                segments[at] = _escaped(chance, segments[at])
            case 2:
                segments[at - 1 : at + 1] = [segments[at - 1] + chance.choice(["%2F", "%2f", "//"]) + segments[at]]
            case 3:
                segments[at] = segments[at] + chance.choice(["", "", "/", "%2F", ".", ";", "%3B"])
            case _:
                segments.append(chance.choice(ODD_SEGMENTS))
    return "/".join(segments) or "/"


def _escaped(chance: random.Random, segment: str) -> str:
    if "%" in segment:
        return segment
    return "".join(f"%{ord(letter):02x}" if chance.random() < 0.4 else letter for letter in segment)


POD = "/spec/template/spec"
POINTERS = [
    "", "/spec", "/spec/replicas", "/spec/replicas", "/spec/template", POD, POD + "/containers", POD + "/containers/0",
    POD + "/containers/1", POD + "/containers/-", POD + "/containers/2", POD + "/containers/-1", POD + "/initContainers",
    POD + "/initContainers/1", POD + "/initContainers/0/restartPolicy", POD + "/containers/0/resources",
    POD + "/containers/0/resources/requests", POD + "/containers/0/resources/requests/cpu",
    POD + "/containers/1/resources/requests/cpu", POD + "/containers/0/resources/limits", POD + "/containers/0/name",
    "/metadata/labels", "/metadata/labels/team", "/metadata", "/metadata/annotations", "/spec/strategy", "/status",
    "/metadata/x", "/spec/revisionHistoryLimit", POD + "/overhead", POD + "/resources",
]  # fmt: skip
AMOUNTS: list[Tree] = ["700m", "1", "2Gi", 2, "0", None]
CONTAINER: Tree = {"name": "app", "image": "app:1", "resources": {"requests": {"cpu": "600m"}}}
OTHER: Tree = {"name": "x", "image": "x:1", "resources": {"limits": {"cpu": "300m", "memory": "1Gi"}}}
VALUES: list[Tree] = [
    5, 4, 0, None, "5", "700m", {}, [], {"cpu": "400m"}, {"requests": {"cpu": "1"}}, CONTAINER, OTHER, [CONTAINER],
    [CONTAINER, OTHER], {"containers": [CONTAINER]}, {"team": "b"}, {"replicas": 4}, "Always",
]  # fmt: skip


def _json_patches(chance: random.Random) -> Iterator[Spelling]:
    while True:
        operations: list[Tree] = []
        for _ in range(chance.randint(1, 4)):
            op = chance.choice(["add", "add", "replace", "replace", "remove", "copy", "move", "test"])
            operation: Tree = {"op": op, "path": chance.choice(POINTERS)}
            if op in ("copy", "move"):
                operation["from"] = chance.choice(POINTERS)
            elif op != "remove":
                operation["value"] = chance.choice(VALUES)
            operations.append(operation)
        yield patch("json-patch", "operations", operations, JSON_PATCH, target=PLAIN)


def _maybe(chance: random.Random, likely: float, **fields: Tree) -> Tree:
    return {key: value for key, value in fields.items() if chance.random() < likely}


def _amounts(chance: random.Random) -> Tree:
    return _maybe(chance, 0.6, cpu=chance.choice(AMOUNTS), memory=chance.choice(AMOUNTS))


def _container(chance: random.Random, directives: bool) -> Tree:
    resources = _maybe(chance, 0.6, requests=_amounts(chance), limits=_amounts(chance))
    name = chance.choice(["app", "log", "x", "seed", "proxy"])
    container: Tree = {"name": name, "image": "i:1", "resources": resources}
    if chance.random() < 0.1:
        container["resources"] = None
    if directives and chance.random() < 0.3:
        container["$patch"] = chance.choice(["replace", "delete", "merge", "delete"])
    return container


def _patch(chance: random.Random, directives: bool) -> Tree:
    containers = [_container(chance, directives) for _ in range(chance.randint(1, 2))]
    pod: Tree = {"containers": containers}
    if chance.random() < 0.3:
        pod["initContainers"] = [_container(chance, directives) | _maybe(chance, 0.5, restartPolicy="Always")]
    if directives and chance.random() < 0.3:
        order = chance.sample(["app", "log", "x"], chance.randint(1, 3))
        pod["$setElementOrder/containers"] = [{"name": name} for name in order]
    if directives and chance.random() < 0.15:
        pod["$retainKeys"] = chance.choice([["containers"], ["containers", "initContainers"], ["initContainers"]])
    if directives and chance.random() < 0.15:
        pod["$patch"] = chance.choice(["replace", "merge", "delete"])
    spec = _maybe(chance, 0.7, replicas=chance.choice([1, 3, 4, None]), template={"spec": pod})
    if directives and chance.random() < 0.1:
        spec["$retainKeys"] = chance.choice(
            [["replicas", "template", "selector"], ["template", "selector"], ["replicas"]]
        )
    if directives and chance.random() < 0.08:
        spec["$patch"] = chance.choice(["replace", "merge", "delete"])
    labels = chance.choice([{"team": "b"}, {"team": None}, {"z": "1"}, None])
    return {"spec": spec, **_maybe(chance, 0.3, metadata={"labels": labels})}


def _merges(chance: random.Random) -> Iterator[Spelling]:
    while True:
        yield patch("merge", "a merge patch", _patch(chance, chance.random() < 0.2), target=PLAIN)


def _strategics(chance: random.Random) -> Iterator[Spelling]:
    while True:
        body = _patch(chance, chance.random() < 0.8)
        yield patch("strategic", "a strategic merge patch", body, STRATEGIC, target=PLAIN)


def _applies(chance: random.Random) -> Iterator[Spelling]:
    while True:
        tree = _patch(chance, directives=False)
        tree |= {"apiVersion": "apps/v1", "kind": "Deployment"}
        tree.setdefault("metadata", {})["name"] = "applied"
        if chance.random() < 0.7:
            tree["spec"]["selector"] = {"matchLabels": {"app": "applied"}}
            tree["spec"].setdefault("template", {"spec": {"containers": [_container(chance, False)]}})
            tree["spec"]["template"]["metadata"] = {"labels": {"app": "applied"}}
        query = chance.choice(["fieldManager=tool", "fieldManager=tool", "fieldManager=x&force=true"])
        yield patch("apply", "an apply", json.dumps(tree), APPLY, target=f"{path_of(APPLIED)}?{query}", before=APPLIED)


ALONE: Sequence[Callable[[random.Random], Iterator[Spelling]]] = (
    _scalars, _numbers, _queries, _paths, _json_patches, _merges, _strategics, _applies,
)  # fmt: skip
"""Endless sources that need no corpus."""

MAX_BODY = 16_384
"""Bodies at the server's limits are in the corpus, and slow."""

MEDIA = (
    JSON, JSON, YAML, CBOR, PROTOBUF, MERGE, MERGE, STRATEGIC, JSON_PATCH, APPLY, APPLY_CBOR, "", "*/*", "text/plain",
    "application/json;charset=utf-8", "Application/JSON", "application/merge-patch+json; a=b", " application/yaml ",
    "application/json, application/yaml", "application/json-patch", "application/apply-patch+yaml;x",
)  # fmt: skip

PIECES = (
    b'"replicas":9,', b'"replicas":', b"null", b"9", b"0", b"-", b"e0", b".0", b'"', b",", b"{", b"}", b"[", b"]", b":",
    b" ", b"\n", b"\t", b"\x00", b"\xff", b"\xc3\xa9", b"\\u0072", b"\\", b"//", b"#", b"---\n", b"...", b"&a ", b"*a",
    b"!!int ", b"~", b"<<: ", b"spec", b'"spec":{"replicas":7},', b'"Replicas":8,', b'"$patch":"replace",', b"700m",
    b'"dryRun":["All"],', b'"op":"add",', b"/spec/replicas", b"~1", b"\x08\x09", b"\x80\x01", b"\xd9\xd9\xf7", b"true",
)  # fmt: skip
"""What is put into a body at some place."""

COUNTS = (0, 1, 3, GROWN, 7, 2**31 - 1, 2**31, -1, None, "5", 5.0, 2.5, True, [5], {"replicas": 5})


def spellings(seed: int, count: int, corpus: Sequence[Spelling]) -> Iterator[Spelling]:
    """``count`` of them, mixed from ``corpus``."""
    chance = random.Random(seed)
    fit = [spelling for spelling in corpus if _fit(spelling)]
    sources = [source(chance) for source in ALONE]
    sources += [source(chance, fit) for source, share in SHARES.items() for _ in range(share)]
    mixed = (next(chance.choice(sources)) for _ in iter(int, 1))
    for number, spelling in enumerate(islice(mixed, count)):
        yield spelling._replace(id=f"seed-{seed}-{number}", why="by chance")


def _fit(spelling: Spelling) -> bool:
    """Writes to the default server that are sent as they stand."""
    if spelling.server != "default" or spelling.echo is not None or len(spelling.body) > MAX_BODY:
        return False
    return spelling.method in ("PATCH", "PUT", "POST") and spelling.target.count("/") > 4


def _bitten(chance: random.Random, corpus: Sequence[Spelling]) -> Iterator[Spelling]:
    """Bodies with a few bytes cut out, doubled or put in."""
    while True:
        spelling = chance.choice(corpus)
        body = spelling.body
        for _ in range(chance.randint(1, 2)):
            body = _bite(chance, body)
        yield spelling._replace(body=body)


def _bite(chance: random.Random, body: bytes) -> bytes:
    at = chance.randint(0, len(body))
    to_ = min(len(body), at + chance.choice((1, 1, 2, 4, 9, 30)))
    match chance.randrange(4):
        case 0:
            return body[:at] + body[to_:]
        case 1:
            return body[:to_] + body[at:]
        case 2:
            return body[:at] + chance.choice(PIECES) + body[at:]
        case _:
            return body[:at] + chance.choice(PIECES) + body[to_:]


def _elsewhere(chance: random.Random, corpus: Sequence[Spelling]) -> Iterator[Spelling]:
    """Bodies of the corpus at odd paths, or with odd queries."""
    while True:
        spelling = chance.choice(corpus)
        path, _, query = spelling.target.partition("?")
        if chance.random() < 0.6:
            path = odd_path(chance, path.split("/"))
        if chance.random() < 0.4:
            query = "&".join(filter(None, (query, odd_query(chance))))
        yield spelling._replace(target=f"{path}?{query}" if query else path)


def _otherwise_named(chance: random.Random, corpus: Sequence[Spelling]) -> Iterator[Spelling]:
    """Bodies of the corpus under another content type."""
    while True:
        spelling = chance.choice(corpus)
        others: Headers = tuple(pair for pair in spelling.headers if pair[0].lower() != "content-type")
        name = chance.choice(("content-type", "Content-Type"))
        yield spelling._replace(headers=(*others, (name, chance.choice(MEDIA))))


def _counts(chance: random.Random, corpus: Sequence[Spelling]) -> Iterator[Spelling]:
    """Counts of every kind of object, by every way to write one."""
    while True:
        ref = chance.choice(tuple(FIXTURES))
        name, count = ref.rpartition("/")[2], chance.choice(COUNTS)
        target = path_of(ref) + chance.choice(("", "/scale", "/scale", "/status"))
        pointer = chance.choice(("/spec/replicas", "/spec/replicas", "/spec/size/count", "/spec"))
        value = {"replicas": count} if pointer == "/spec" else count
        yield chance.choice(
            (
                patch("", "", to(count), chance.choice((MERGE, STRATEGIC)), target=target, before=ref),
                patch("", "", [{"op": "add", "path": pointer, "value": value}], JSON_PATCH, target=target, before=ref),
                put("", "", scale(count, name), chance.choice(MEDIA), target=path_of(ref) + "/scale", before=ref),
            )
        )


SHARES: dict[Callable[[random.Random, Sequence[Spelling]], Iterator[Spelling]], int] = {
    _bitten: 8,
    _elsewhere: 6,
    _otherwise_named: 3,
    _counts: 3,
}
"""Beside one share for each of ``ALONE``."""
