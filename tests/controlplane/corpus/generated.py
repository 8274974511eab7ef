"""Spellings put together by chance, with a fixed seed: what nobody thought of."""

# ruff: noqa: E501 - a spelling reads best on one line

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import TypeAlias

from tests.controlplane.corpus.base import (
    APPLIED,
    APPLY,
    JSON_PATCH,
    PLAIN,
    SCALE,
    STRATEGIC,
    YAML,
    Spelling,
    Tree,
    patch,
    path_of,
    put,
    to,
)

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


def spellings() -> Iterator[Spelling]:
    """The same ones each time."""
    chance = random.Random(136)
    for source, count in SOURCES.items():
        yield from _unlike(source(chance), count)


def _unlike(source: Iterator[Spelling], count: int) -> Iterator[Spelling]:
    seen = set()
    for spelling in source:
        if (spelling.target, spelling.body) not in seen:
            seen.add((spelling.target, spelling.body))
            yield spelling._replace(id=f"chance-{spelling.id}-{len(seen)}")
        if len(seen) == count:
            return


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


Source: TypeAlias = Callable[[random.Random], Iterator[Spelling]]

SOURCES: dict[Source, int] = {
    _scalars: 330,
    _numbers: 90,
    _queries: 200,
    _paths: 260,
    _json_patches: 220,
    _merges: 120,
    _strategics: 220,
    _applies: 120,
}
"""Endless sources, and how many of each are in the corpus."""
