"""A gate that is paused sees nothing of what goes on meanwhile, and the judge expects no more of it."""

from __future__ import annotations

import asyncio

import pytest

from extauthz.simulate import objects
from extauthz.simulate.member import IN_FORCE_S, Member
from extauthz.simulate.plan import Step, draw
from extauthz.simulate.reference import NAMESPACES
from extauthz.simulate.steps import TAKEN
from extauthz.simulate.world import World

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
