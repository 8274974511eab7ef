"""What one gate has learned of a deletion, another one has seen too before it grants (design.md L8).

A read or a list shows that an object is gone, and not the version of its deletion.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from extauthz.core.model import Request, Verdict, WorkloadRef
from extauthz.simulate import objects, reviews
from extauthz.simulate.judge import Promise
from extauthz.simulate.member import Member
from extauthz.simulate.plan import draw
from extauthz.simulate.reference import NAMESPACES, QUOTAS
from extauthz.simulate.wire import Answer, Question, check
from extauthz.simulate.world import World

DEPLOYMENTS = "/apis/apps/v1/deployments"
PATH = "/apis/apps/v1/namespaces/shop/deployments"
WEB, JOB = ("shop", "web-deploy-0"), ("shop", "job-deploy-1")
LATE_S = 5.0
"""Less than what makes a gate stale."""


def scale(key: tuple[str, str], replicas: int) -> Request:
    return objects.scale(key, replicas, "kpa", "").request


async def asked(member: Member, request: Request) -> Answer:
    question = Question(check(request), Promise(WEB, 0, None), 0, False)
    answer, _ = await member.begin(member.answer(question))
    return answer


async def created(world: World, member: Member) -> Answer:
    """The answer of its webhook to the first object with no replicas."""
    prepared = world.server.prepare("POST", PATH, objects.workload(WEB, 0, "1"))
    question = Question(reviews.review(prepared, "u1", dry=False), Promise(WEB, 0, None), 0, False, "u1")
    answer, _ = await member.begin(member.answer(question))
    return answer


async def begun(world: World) -> list[Member]:
    """Two gates and a quota of ten CPUs: ``web`` has eight of them, and ``job`` one."""
    post = world.server.request
    post("POST", NAMESPACES, {}, objects.namespace("shop"))
    post("POST", QUOTAS, {}, objects.quota("acme", {"requests.cpu": "10"}, {"namespaces": {"workspace": "acme"}}))
    for key, replicas in ((WEB, 8), (JOB, 1)):
        post("POST", PATH, {}, objects.workload(key, replicas, "1"))
    members = [world.start(0), world.start(1)]
    assert await world.until(lambda: all(one.serves for one in members), 60.0)
    await asyncio.sleep(40.0)  # the ledger was new
    return members


def late(world: World, gate: int) -> None:
    """What the API server sends of Deployments from now on comes late."""
    world.links[gate].held_until_s[DEPLOYMENTS] = world.loop.time() + LATE_S


def delete(world: World) -> None:
    world.server.request("DELETE", f"{PATH}/{WEB[1]}", {}, None)


async def by_a_read_alone(world: World, first: Member) -> str:
    """A create of what the gate believes to be there is preceded by a read. Its watch is late too."""
    late(world, 0)
    delete(world)
    return (await created(world, first)).reason


async def by_a_read_and_its_watch(world: World, first: Member) -> str:
    delete(world)
    return (await created(world, first)).reason


async def by_a_list(world: World, first: Member) -> str:
    """Its watch broke, and the API server does not know any more what came since."""
    delete(world)
    world.server.compact()
    world.links[0].drop(DEPLOYMENTS)
    await world.until(lambda: not held(first), 30.0)
    return "listed"


def held(member: Member) -> bool:
    entry = member.gate.ledger.get(WorkloadRef("apps", "deployments", *WEB))
    return entry is not None and entry.observed is not None


@pytest.mark.parametrize(
    ("learns", "told", "allowed"),
    [
        (by_a_read_alone, "ledger-unavailable", [False, True]),
        (by_a_read_and_its_watch, "no-growth", [True, False]),
        (by_a_list, "listed", [True, False]),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_what_a_deleted_workload_had_is_not_granted_twice(learns, told: str, allowed: list[bool], seed: int):
    """The second gate still sees it, so that its eight replicas are no growth there."""
    world = World(replace(draw(seed, 0, frozenset(), "kubernetes", 2), quotas=(), workloads=()))
    found: list[object] = []

    async def main() -> None:
        first, second = await begun(world)
        late(world, 1)
        found.append(await learns(world, first))
        assert held(second)
        verdicts = [(await asked(one, scale(*what))).verdict for one, what in ((first, (JOB, 10)), (second, (WEB, 8)))]
        found.append([one is Verdict.ALLOW for one in verdicts])

    world.loop.run(main())
    assert found == [told, allowed]
