"""Runs a plan: creates its world, takes one step after the other, and lets the world converge."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from extauthz.serve.ledger_store.payload import Payload, encode
from tests.worlds import objects
from tests.worlds.checks import Violation
from tests.worlds.convergence import Convergence
from tests.worlds.loop import seeded
from tests.worlds.objects import KINDS, kind_of
from tests.worlds.plan import Plan, Step
from tests.worlds.reference import DEFINITIONS, NAMESPACES, QUOTAS
from tests.worlds.restarts import LEDGER, LEDGERS
from tests.worlds.steps import TAKEN, key_of
from tests.worlds.world import World


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

    def take(step: Step) -> None:
        if step.how.get("workload", "") is not None:  # else there is none of the kind that this may happen to
            TAKEN[step.what](world, step, world.random(f"step {step.number}"))

    if not await world.live(take):
        return
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
        _post(world, kind_of(key).path(key[0]), objects.workload(key, 1, "1"))
    if world.plan.ledger != "memory" and world.plan.seed % 8:
        await _furnish_ledger(world, encode(Payload(holds=False)))
    world.checks.begins()


async def _furnish_ledger(world: World, payload: str) -> None:
    if world.store is not None:
        await world.store.put(payload, 0, None)
    else:
        _post(world, LEDGERS, {"metadata": {"name": LEDGER}, "spec": {"payload": payload, "intents": 0}})


def _post(world: World, path: str, tree: Any) -> None:
    world.server.request("POST", path, {}, tree)
