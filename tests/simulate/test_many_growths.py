"""Two tenants that grow fast, and somebody who floods: each write ends before there are too many of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from extauthz.core.decision import gate
from extauthz.core.decision.policy import Policy
from extauthz.core.model import Verdict
from extauthz.inputs.settlement.answers import Fate
from tests.simulate.planted.planting import replaced
from tests.worlds import objects, wire
from tests.worlds.judge import Promise
from tests.worlds.member import Member
from tests.worlds.plan import draw
from tests.worlds.reference import NAMESPACES, QUOTAS
from tests.worlds.wire import Question, check
from tests.worlds.world import World

TENANTS = {"shop": "acme", "zoo": "zoo"}
"""Namespaces, and their workspaces."""
WORKLOADS = 400
"""Of each."""
A_SECOND = 200
SECONDS = 10
LANDED = Fate(200, "via_upstream", frozenset(), 1, True)
DEPLOYMENTS = "/apis/apps/v1/deployments"


def furnish(world: World) -> list[tuple[str, str]]:
    post, keys = world.server.request, list[tuple[str, str]]()
    for tenant, workspace in TENANTS.items():
        post("POST", NAMESPACES, {}, objects.namespace(tenant))
        how = {"namespaces": {"workspace": workspace}}
        post("POST", QUOTAS, {}, objects.quota(workspace, {"requests.cpu": "100000"}, how))
    for number in range(WORKLOADS):
        for tenant in TENANTS:
            keys.append((tenant, f"web-deploy-{number}"))
            path = f"/apis/apps/v1/namespaces/{tenant}/deployments"
            post("POST", path, {}, objects.workload(keys[-1], 1, "1"))
    return keys


async def grow(world: World, member: Member, key: tuple[str, str], count: int) -> str:
    """One growth, from the check to Envoy's report. Returns the reason of its answer."""
    question = Question(check(objects.scale(key, count, "kpa", "").request), Promise(key, 0, None), 0, False)
    answer, _ = await member.begin(member.answer(question))
    if answer.verdict is Verdict.ALLOW:
        await asyncio.sleep(0.02)
        tree = world.server.objects(DEPLOYMENTS)[key]
        body = {**tree, "spec": {**tree["spec"], "replicas": count}}
        world.server.request("PUT", f"/apis/apps/v1/namespaces/{key[0]}/deployments/{key[1]}", {}, body)
        await asyncio.sleep(0.02)
        member.hear(wire.log_entry(answer, LANDED))
    return answer.reason


async def growths(world: World, found: Counter[str]) -> None:
    keys = furnish(world)
    member = world.start(0)
    assert await world.until(lambda: member.serves, 60.0)
    await asyncio.sleep(40.0)  # the ledger was new
    world.links[0].odds.lag, world.links[0].odds.slow = 1.0, 1.0
    growing = []
    for number in range(A_SECOND * SECONDS):
        key, count = keys[number % len(keys)], 2 + number // len(keys)
        growing.append(asyncio.create_task(grow(world, member, key, count)))
        await asyncio.sleep(1 / A_SECOND)
    found.update(await asyncio.gather(*growing))


def answers(live: Callable[[World, Counter[str]], Coroutine[Any, Any, None]]) -> Counter[str]:
    """The reasons of all answers in a world without drawn workloads, whose gate has the bounds of everyday."""
    world = World(replace(draw(1, 0, frozenset(), "store", 1), quotas=(), workloads=()))
    numbers = replace(world.wiring.settings.numbers, pending_writes_per_tree=Policy().max_intents_per_tree)
    world.wiring = replace(world.wiring, settings=replace(world.wiring.settings, numbers=numbers))
    found = Counter[str]()
    world.loop.run(live(world, found))
    return found


def test_200_growths_a_second_of_two_quotas_end_in_time_though_watches_and_answers_are_late():
    """The ledger takes some 1,200 open writes of two quotas. Where each waited for a read of its own, there
    were so many after six seconds, and then one growth of two was refused."""
    assert answers(growths) == {"fits": A_SECOND * SECONDS}


FLOOD = 4_000
"""Counts for names that need not exist, in a namespace without a quota. No answer to them is ever heard."""
COVERED = 50
"""Growths of a covered tenant meanwhile, and as many shrinks."""


async def flood(world: World, found: Counter[str]) -> None:
    keys = furnish(world)[:COVERED]
    wild = objects.namespace("wild")
    wild["metadata"]["labels"] = {}
    world.server.request("POST", NAMESPACES, {}, wild)
    member = world.start(0)
    assert await world.until(lambda: member.serves, 60.0)
    await asyncio.sleep(40.0)  # the ledger was new
    for number in range(FLOOD):
        key = "wild", f"web-deploy-{number}-{Random(number).randbytes(96).hex()}"
        raw = check(objects.scale(key, 2, "kpa", "").request)
        await member.begin(member.answer(Question(raw, Promise(key, 0, None), 0, False)))
    for count in (2, 1):
        found.update(await asyncio.gather(*(grow(world, member, key, count) for key in keys)))


@pytest.mark.parametrize(
    ("bound", "fits"),
    [pytest.param(gate.MAX_BYTES_UNCOVERED, True, id="as-it-is"), pytest.param(2**30, False, id="no-bound")],
)
def test_a_flood_that_no_quota_covers_leaves_room_for_growth_and_for_less(bound: int, fits: bool):
    """Planted beside it: without a bound of its own, such a flood fills the ledger for all."""
    with replaced(gate, MAX_BYTES_UNCOVERED=bound):
        found = answers(flood)
    assert (found.keys() <= {"fits", "no-growth"}) is fits, found
