"""Who looks at the nodes for memory-pressure: what it reads, what it makes of a failure, and what it logs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from memory_pressure.looking import WatchedMemory
from memory_pressure.marks import NodeMemory
from memory_pressure.nodes import read
from memory_pressure.options import parse

from extauthz.core.policies import Enlisted, Policies
from extauthz.inputs.kube.connection import ApiError, Unreachable
from extauthz.inputs.policies import Host
from extauthz.serve.service import sources

Tree = Any
NODES, METRICS = "/api/v1/nodes", "/apis/metrics.k8s.io/v1beta1/nodes"
GI = 2**30 * 10**9
POOLS = [
    {"name": "batch", "nodeSelector": {"matchLabels": {"pool": "batch"}}, "patience": 1},
    {"name": "web", "nodeSelector": {"matchLabels": {"pool": "web"}}},
]


def node(name: str, pool: str = "", memory: str = "10Gi") -> Tree:
    metadata = {"name": name, **({"labels": {"pool": pool}} if pool else {})}
    return {"metadata": metadata, "status": {"capacity": {"memory": memory, "cpu": "4"}}}


def metrics(name: str, memory: str, at: str = "1970-01-01T00:16:40Z") -> Tree:
    return {"metadata": {"name": name}, "timestamp": at, "window": "20s", "usage": {"cpu": "1", "memory": memory}}


class Api:
    """An API server with nodes and their metrics; or what it fails with."""

    def __init__(self, nodes: list[Tree], metrics: list[Tree], fails: Exception | None = None) -> None:
        self.trees, self.fails = {NODES: nodes, METRICS: metrics}, fails
        self.queries: list[tuple[str, tuple[tuple[str, str], ...]]] = []

    async def call(self, method: str, path: str, **how: Tree) -> Tree:
        raise AssertionError("lists are read item by item")

    async def items(self, path: str, take: Callable[[Tree], object], *, query: Tree = (), **how: Tree) -> Tree:
        self.queries.append((path, tuple(query)))
        if self.fails is not None:
            raise self.fails
        for one in self.trees[path]:
            take(one)


async def test_nodes_have_labels_memory_and_what_fresh_metrics_say() -> None:
    starting = {"metadata": {"name": "starting"}, "status": {}}
    old = metrics("old", "9Gi", "1970-01-01T00:14:59Z")
    api = Api(
        [node("a", "batch"), node("b"), node("old"), node("silent"), starting],
        [metrics("a", "9Gi"), metrics("b", "1Gi"), old, metrics("gone", "1Gi"), metrics("starting", "1Gi")],
    )
    assert await read(api, 1000.0, 100.0) == [
        NodeMemory("a", {"pool": "batch"}, 10 * GI, 9 * GI),
        NodeMemory("b", {}, 10 * GI, GI),
        NodeMemory("old", {}, 10 * GI, None),
        NodeMemory("silent", {}, 10 * GI, None),
    ]
    assert api.queries == [(NODES, (("resourceVersion", "0"),)), (METRICS, ())]


class Looking:
    """A policy with two pools, what it logs, and a clock."""

    def __init__(self, **options: Tree) -> None:
        self.now_s = 0.0
        self.told: list[tuple[str, str, dict[str, Tree]]] = []
        self.policy = WatchedMemory(parse({"pools": POOLS} | options))

    def host(self, api: Api | None) -> Host:
        return Host(api, lambda: self.now_s, lambda: 1000.0, self.event)

    def event(self, level: str, event: str, **fields: Tree) -> None:
        self.told.append((level, event, fields))

    def look(self, use: str = "5Gi", fails: Exception | None = None, nodes: list[Tree] | None = None) -> None:
        given = [node("a", "batch"), node("b", "web")] if nodes is None else nodes
        api = Api(given, [metrics("a", use), metrics("b", "1Gi")], fails)
        asyncio.run(self.policy.look_at_nodes(self.host(api)))

    def used(self) -> list[float | None]:
        return [self.policy.levels().get(("used", name)) for name in ("batch", "web")]


def test_a_pool_that_is_held_and_one_that_opens_are_logged_once() -> None:
    looking = Looking()
    for use in ("5Gi", "9.5Gi", "9Gi", "8Gi", "8Gi"):
        looking.look(use)
    assert looking.told == [
        ("info", "pool-held", {"pool": "batch", "used": 0.95, "waiting": 0}),
        ("info", "pool-open", {"pool": "batch", "used": 0.8, "waiting": 0}),
    ]


@pytest.mark.parametrize(
    ("fails", "why"),
    [
        (ApiError(404, "NotFound", "no such API"), "no such API"),
        (Unreachable("it is away"), "it is away"),
        (KeyError("usage"), "KeyError('usage')"),
    ],
)
def test_what_cannot_be_read_is_told_once_and_read_again(fails: Exception, why: str) -> None:
    looking = Looking()
    assert looking.policy.notes() == [f"memory of node pool {name} is not known" for name in ("batch", "web")]
    looking.look()
    assert looking.used() == [0.5, 0.1]
    for _ in range(2):
        looking.look(fails=fails)
    assert looking.used() == [0.5, 0.1], "what was known is not old yet"
    assert looking.policy.notes() == []
    looking.now_s = 121
    assert looking.used() == [None, None]
    (note, _) = looking.policy.notes()
    assert note.startswith("memory of node pool batch is not known: ")
    assert why in note
    assert [(level, event) for level, event, _ in looking.told] == [("warning", "nodes-unread")]
    looking.look()
    assert looking.used() == [0.5, 0.1]
    looking.look(fails=fails)
    assert len(looking.told) == 2


def test_an_answer_that_is_no_list_of_nodes_is_a_failure_too() -> None:
    looking = Looking()
    looking.look(nodes=[{"metadata": {"name": "a"}, "status": {"capacity": {"memory": "ten"}}}])
    looking.look(nodes=["a"])
    assert [event for _, event, _ in looking.told] == ["nodes-unread", "nodes-unread"]


async def test_it_looks_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looking = Looking(everySeconds=1)
    api = Api([node("a", "batch")], [metrics("a", "5Gi")])
    naps: list[float] = []

    async def nap(seconds: float) -> None:
        naps.append(seconds)
        if naps.count(1) == 3:
            raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "sleep", nap)
    with pytest.raises(asyncio.CancelledError):
        await looking.policy.run(looking.host(api))
    assert naps == [0, 0, 1] * 3, "others have their turn between two pools"
    assert len(api.queries) == 6


def test_a_gate_without_a_cluster_says_so() -> None:
    looking = Looking()
    asyncio.run(looking.policy.look_at_nodes(looking.host(None)))
    (note, _) = looking.policy.notes()
    assert note == "memory of node pool batch is not known: the gate reads no cluster; set state: kubernetes"


def test_the_gate_tells_how_each_pool_stands() -> None:
    looking = Looking()
    looking.look("9.5Gi", nodes=[node("a", "batch")])
    found = Policies([Enlisted("memory-pressure", looking.policy)])
    assert sources.levels(found) == {
        ("memory-pressure", "used", "batch"): 0.95,
        ("memory-pressure", "held", "batch"): 1,
        ("memory-pressure", "held", "web"): 0,
        ("memory-pressure", "waiting", "batch"): 0,
        ("memory-pressure", "waiting", "web"): 0,
        ("memory-pressure", "used", "web"): 0,
    }
    assert sources.notes(found) == []
