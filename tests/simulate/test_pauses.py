"""A gate that is paused sees nothing of what goes on meanwhile, and the judge expects no more of it."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

import pytest

from extauthz.core.model import Request, Verdict, WorkloadRef
from tests.worlds import objects, reviews
from tests.worlds.judge import Promise
from tests.worlds.member import IN_FORCE_S, Member
from tests.worlds.plan import FAULTS, Step, draw
from tests.worlds.reference import NAMESPACES, QUOTAS
from tests.worlds.running import run
from tests.worlds.steps import TAKEN
from tests.worlds.wire import Answer, Question, check
from tests.worlds.world import World

PAUSE_S = 5.0


async def pause(world: World, known: list[int]) -> None:
    """Note which version of the namespaces the gate is expected to know before, within and right after a pause, and
    later."""
    member = world.start(0)
    assert await world.until(lambda: member.serves, 60.0)
    await asyncio.sleep(90.0)  # there was a bookmark
    known.append(expected(world, member))
    TAKEN["pause"](world, Step(0, 0.0, "pause", {"gate": 0, "for_s": PAUSE_S}), world.random("pause"))
    world.server.request("POST", NAMESPACES, {}, objects.namespace("late"))
    await asyncio.sleep(PAUSE_S - 0.01)
    known.append(expected(world, member))
    await asyncio.sleep(IN_FORCE_S / 2)
    known.append(expected(world, member))
    await asyncio.sleep(60.0)
    known.append(expected(world, member))


def expected(world: World, member: Member) -> int:
    return member.known(world.loop.time())(NAMESPACES)


@pytest.mark.parametrize("seed", range(3))
def test_what_came_while_a_gate_was_paused_is_expected_of_it_only_later(seed):
    world = World(draw(seed, 0, frozenset()))
    known: list[int] = []
    world.loop.run(pause(world, known))
    before, within, right_after, later = known
    assert 0 < before == within == right_after < later


LOWERED = re.compile(r"webhook, write \d+(?:, dry)?, \S+ to (\d+) on \d+: lowered to (\d+)$")


def test_quotas_clamp_in_some_worlds_that_only_the_webhook_guards():
    plans = [draw(seed, 1, frozenset(FAULTS)) for seed in range(300)]
    assert {plan.entrances for plan in plans if plan.clamps} == {"webhook"}
    assert {plan.clamps for plan in plans if plan.entrances == "webhook"} == {True, False}
    assert all({"Clamp"} == {one.get("mode") for one in plan.quotas} for plan in plans if plan.clamps)


def test_counts_are_lowered_and_land():
    lowered = landed = 0
    for seed in range(12):
        plan = draw(seed, 25, frozenset(), entrances="webhook")
        result = run(plan)
        assert result.violation is None, result.violation
        found = [match for match in map(LOWERED.search, result.trace) if match]
        assert plan.clamps or not found
        assert all(int(match[2]) < int(match[1]) for match in found)
        lowered += len(found)
        landed += sum(f" to {match[2]} on " in line and ": allow " in line for match in found for line in result.trace)
    assert lowered > 5
    assert landed > 5


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
