"""The contract of discovery with an API server: which custom resources can be scaled, now and as definitions change."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

import pytest

from extauthz.inputs.cluster.event_handlers import InvalidObjects, Notes, Place
from extauthz.inputs.cluster.live import Listed
from extauthz.inputs.kube.connection import Connection, connect
from extauthz.inputs.kube.reflector import Reflector
from extauthz.inputs.kube.resource import DEFINITIONS, Resource, ScaledKind, scaled
from tests.controlplane.plane import Plane, write_kubeconfig
from tests.support.apiserver import ApiServer
from tests.support.certs import Authority
from tests.waiting import until

Tree = Any
SCALE = {
    "specReplicasPath": ".spec.size",
    "statusReplicasPath": ".status.size",
    "labelSelectorPath": ".status.pods.selector",
}


@pytest.fixture(params=["stand-in", pytest.param("real", marks=pytest.mark.controlplane)])
async def connection(request: pytest.FixtureRequest, tmp_path) -> AsyncIterator[Connection]:
    if request.param == "real":
        plane: Plane = request.getfixturevalue("plane")
        async with connect(plane.kubeconfig) as connection:
            yield connection
        return
    authority = Authority(tmp_path)
    with ApiServer(authority.issue("apiserver")) as api:
        write_kubeconfig(tmp_path / "config", f"https://127.0.0.1:{api.port}", authority.ca, {"token": "t"})
        async with connect(tmp_path / "config") as connection:
            yield connection


@pytest.fixture
def group() -> str:
    """Of definitions that no other test has."""
    return f"g{uuid.uuid4().hex[:8]}.example.com"


def version(name: str, *, scale: Tree = None, stored: bool = False, served: bool = True) -> Tree:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    tree = {"name": name, "served": served, "storage": stored, "schema": schema}
    return tree | ({"subresources": {"scale": scale}} if scale else {})


def definition(group: str, *versions: Tree, plural: str = "crews", scope: str = "Namespaced") -> Tree:
    kind = plural.removesuffix("s").capitalize()
    names = {"plural": plural, "singular": kind.lower(), "kind": kind}
    return {
        "apiVersion": DEFINITIONS.api_version,
        "kind": DEFINITIONS.kind,
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": scope, "names": names, "versions": list(versions)},
        "status": {"conditions": [{"type": "Established", "status": "True"}]},  # the real server says so by itself
    }


async def define(connection: Connection, tree: Tree) -> None:
    await connection.call("POST", DEFINITIONS.collection(), body=tree)


@asynccontextmanager
async def following(
    connection: Connection, group: str, named: Collection[str] = ()
) -> AsyncIterator[list[set[ScaledKind]]]:
    """What is told of one group, each time that it is something else."""
    told: list[set[ScaledKind]] = [set()]
    known: dict[Place, ScaledKind | None] = {}

    def took(place: Place, found: tuple[ScaledKind | None] | None) -> None:
        if place[1].endswith(f".{group}"):
            known[place] = found[0] if found is not None else None
            told.append({kind for kind in known.values() if kind is not None})

    definitions = Listed(Notes(DEFINITIONS, lambda tree: (scaled(tree, named),), took, InvalidObjects(print)))
    task = asyncio.create_task(Reflector(connection, DEFINITIONS, definitions).run())
    try:
        await until(lambda: definitions.first.is_set() or task.done())
        yield told
    finally:
        task.cancel()
        await asyncio.wait([task])


def crews(group: str, version: str = "v1") -> ScaledKind:
    resource = Resource(group, version, "crews", "Crew")
    return ScaledKind(resource, ("spec", "size"), ("status", "pods", "selector"), ((version, ("spec", "size")),))


async def test_kinds_come_and_go_with_their_definitions(connection: Connection, group: str):
    async with following(connection, group) as told:
        await define(connection, definition(group, version("v1", stored=True), plural="rocks"))
        await define(connection, definition(group, version("v1", scale=SCALE, stored=True)))
        await until(lambda: told[-1] == {crews(group)})
        await connection.call("DELETE", DEFINITIONS.object(None, f"crews.{group}"))
        await until(lambda: told[-1] == set())
    assert [each for each, _ in itertools.groupby(told)] == [set(), {crews(group)}, set()]


async def test_a_kind_that_becomes_scalable_is_told(connection: Connection, group: str):
    await define(connection, definition(group, version("v1", stored=True)))
    async with following(connection, group) as told:
        assert not any(told)
        patch = [{"op": "add", "path": "/spec/versions/0/subresources", "value": {"scale": SCALE}}]
        path = DEFINITIONS.object(None, f"crews.{group}")
        await connection.call("PATCH", path, body=patch, content_type="application/json-patch+json")
        await until(lambda: told[-1] == {crews(group)})


VERSIONS = {
    "stored": ([version("v1", scale=SCALE), version("v2", scale=SCALE, stored=True)], "v2"),
    "stored-not-scalable": ([version("v1", scale=SCALE), version("v2", stored=True)], "v1"),
    "stored-not-served": ([version("v1", scale=SCALE), version("v2", scale=SCALE, stored=True, served=False)], "v1"),
}


@pytest.mark.parametrize(("versions", "watched"), VERSIONS.values(), ids=VERSIONS)
async def test_the_stored_version_is_watched_if_it_can_be_scaled(
    connection: Connection, group: str, versions: list[Tree], watched: str
):
    await define(connection, definition(group, *versions))
    async with following(connection, group) as told:
        await until(lambda: told[-1])
    (kind,) = told[-1]
    assert kind._replace(counts=()) == crews(group, watched)._replace(counts=())
    scalable = [one["name"] for one in versions if one["served"] and (one.get("subresources") or {}).get("scale")]
    assert dict(kind.counts) == dict.fromkeys(scalable, ("spec", "size"))


async def test_what_a_definition_does_not_tell_stays_empty(connection: Connection, group: str):
    scale = {name: path for name, path in SCALE.items() if name != "labelSelectorPath"}
    await define(connection, definition(group, version("v1", scale=scale, stored=True), scope="Cluster"))
    async with following(connection, group) as told:
        await until(lambda: told[-1])
    (kind,) = told[-1]
    assert (kind.selector, kind.resource.namespaced) == ((), False)
    assert kind.resource.object(None, "a b") == f"/apis/{group}/v1/crews/a%20b"


async def test_a_kind_that_is_named_is_told_without_a_scale(connection: Connection, group: str):
    await define(connection, definition(group, version("v1"), version("v2", stored=True)))
    await define(connection, definition(group, version("v1", stored=True), plural="rocks"))
    async with following(connection, group, [f"crews.{group}"]) as told:
        await until(lambda: told[-1])
    assert told[-1] == {ScaledKind(Resource(group, "v2", "crews", "Crew"), (), (), (("v1", ()), ("v2", ())))}


async def test_of_a_named_kind_those_versions_count_that_can_be_scaled(connection: Connection, group: str):
    await define(connection, definition(group, version("v1", scale=SCALE), version("v2", stored=True)))
    async with following(connection, group, [f"crews.{group}"]) as told:
        await until(lambda: told[-1])
    assert told[-1] == {crews(group)}
