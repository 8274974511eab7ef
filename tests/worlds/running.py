"""Runs a plan: creates its world, takes one step after the other, and lets the world converge."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from extauthz.serve.ledger_store.payload import Payload, encode
from tests.worlds import objects
from tests.worlds.checks import Violation
from tests.worlds.convergence import Convergence
from tests.worlds.loop import seeded
from tests.worlds.objects import KINDS, kind_of
from tests.worlds.plan import Plan
from tests.worlds.reference import DEFINITIONS, NAMESPACES, QUOTAS
from tests.worlds.restarts import LEDGER, LEDGERS
from tests.worlds.steps import TAKEN, key_of
from tests.worlds.world import World

READY_WITHIN_S = 90.0


@dataclass(frozen=True)
class Result:
    """The result of a world."""

    plan: Plan
    violation: Violation | None
    trace: tuple[str, ...]
    answers: int
    virtual_s: float


def run(plan: Plan, record: Path | None = None) -> Result:
    """Run a plan to its end, or to the first rule that is broken.

    Args:
        record: folder that its gates record to; ``None``: nothing is recorded.
    """
    with seeded(plan.seed):
        world = World(plan, record)
        world.loop.run(_live(world))
    if world.mistake is not None:
        raise world.mistake
    return Result(plan, world.checks.found, tuple(world.trace), world.checks.checked, world.loop.time())


async def _live(world: World) -> None:
    """All of it."""
    await _furnish(world)
    for number in range(world.plan.gates):
        world.start(number)
    await world.until(lambda: all(one is not None and one.serves for one in world.members), READY_WITHIN_S)
    begin_s = world.loop.time()
    for step in world.plan.steps:
        await asyncio.sleep(max(begin_s + step.at_s - world.loop.time(), 0.0))
        if world.over():
            return
        world.tell(str(step))
        if "workload" in step.how and step.how["workload"] is None:
            continue  # there is none of the kind that this may happen to
        TAKEN[step.what](world, step, world.random(f"step {step.number}"))
    await Convergence(world).reach()


async def _furnish(world: World) -> None:
    """Create the objects of the start. In most worlds the ledger is old: under a new one nothing grows for a landing
    window."""
    tin = KINDS["tin"]
    _post(world, DEFINITIONS, objects.definition(tin.api, tin.plural, tin.kind))
    for name in ("shop", "lab", "zoo"):
        _post(world, NAMESPACES, objects.namespace(name))
    for one in world.plan.quotas:
        _post(world, QUOTAS, objects.quota(one["name"], one["hard"], one))
    for workload in world.plan.workloads:
        key = key_of(workload)
        _post(world, kind_of(key).collection, objects.workload(key, 1, "1"))
    if world.plan.ledger != "memory" and world.plan.seed % 8:
        await _furnish_ledger(world, encode(Payload(holds=False)))
    world.checks.begins()


async def _furnish_ledger(world: World, payload: str) -> None:
    if world.store is not None:
        await world.store.put(payload, 0, None)
    else:
        _post(world, LEDGERS, {"metadata": {"name": LEDGER}, "spec": {"payload": payload, "intents": 0}})


def _post(world: World, collection: str, tree: Any) -> None:
    namespace = tree["metadata"].get("namespace")
    path = collection if namespace is None else _within(collection, namespace)
    world.server.request("POST", path, {}, tree)


def _within(collection: str, namespace: str) -> str:
    root, plural = collection.rsplit("/", 1)
    return f"{root}/namespaces/{namespace}/{plural}"
