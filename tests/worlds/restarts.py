"""Steps that end gates, and those that lose what gates have written down."""

from __future__ import annotations

import asyncio
from random import Random

from tests.worlds.member import Member
from tests.worlds.plan import Step
from tests.worlds.world import World

LEDGERS = "/apis/extauthz.dev/v1alpha1/workspaceledgers"
LEDGER = "cluster"
"""The name of the one object."""

STARTS_WITHIN_S = 20.0
"""A gate that does not serve by then is not ended once more."""

DOWN_AT_MOST_S = 0.5
"""How long a gate that is killed again and again is away each time."""


def crash(world: World, step: Step, random: Random) -> None:
    """Kill a gate."""
    world.kill(step.how["gate"], world.members[step.how["gate"]], step.how["after"], step.how["for_s"])


def pause(world: World, step: Step, random: Random) -> None:
    """Suspend a gate for a while."""
    member = world.members[step.how["gate"]]
    if member is not None:
        member.stop_running()
        world.loop.call_later(step.how["for_s"], member.go_on)


def halt(world: World, step: Step, random: Random) -> None:
    """Stop a gate cleanly, and start it again."""
    member = world.members[step.how["gate"]]
    if member is not None and _may_leave(member):
        world.spawn(_leave(world, step.how["gate"], member))


def _may_leave(member: Member) -> bool:
    return member.serves and not member.process.stopped


async def _leave(world: World, number: int, member: Member) -> None:
    member.stop.set()
    await asyncio.wait((member.running,))
    if not member.process.ending:  # it was not killed on the way
        member.process.on_end[1:] = []
        world.loop.end(member.process)
        world.start(number)


def restart(world: World, step: Step, random: Random) -> None:
    """End a gate, and again soon after it has come back, so that it may still hold. Its ledger may be lost before."""
    number = step.how["gate"]

    async def again() -> None:
        for how, after_s in step.how["ends"]:
            until_s = world.loop.time() + STARTS_WITHIN_S
            while (member := world.members[number]) is None or not _may_leave(member):
                await asyncio.sleep(0.05)
                if world.loop.time() > until_s or world.peace.is_set():
                    return
            await asyncio.sleep(after_s)
            if world.peace.is_set():
                return
            if how == "kill":
                world.kill(number, member, random.randint(1, 20), DOWN_AT_MOST_S * random.random())
            elif _may_leave(member):
                await _leave(world, number, member)

    if step.how["loses"]:
        delete_ledger(world, step, random)
    world.spawn(again())


def delete_ledger(world: World, step: Step, random: Random) -> None:
    """Somebody deletes the ledger object."""
    if ("", LEDGER) in world.server.objects(LEDGERS):
        world.server.request("DELETE", f"{LEDGERS}/{LEDGER}", {}, None)


def edit_ledger(world: World, step: Step, random: Random) -> None:
    """Somebody writes into it what no gate can read."""
    held = world.server.objects(LEDGERS).get(("", LEDGER))
    if held is not None:
        payload = held["spec"]["payload"]
        garbled = random.choice(("", payload[: len(payload) // 2], f"{payload[:-8]}AAAAAAA="))
        spec = {**held["spec"], "payload": garbled}
        world.server.request("PUT", f"{LEDGERS}/{LEDGER}", {}, {**held, "spec": spec})
