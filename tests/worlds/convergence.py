"""The end of a run: faults stop, the world converges. Then everything must be as it should be, and growth must be
possible."""

from __future__ import annotations

import asyncio
import re

from extauthz.core.model import Verdict
from extauthz.inputs.kube import reflector
from extauthz.serve.ledger_store.payload import PayloadError, decode
from tests.worlds import objects
from tests.worlds.clients import W_S
from tests.worlds.judge import Charges, Key, View, is_left
from tests.worlds.member import Member
from tests.worlds.reference import QUOTAS
from tests.worlds.restarts import LEDGERS
from tests.worlds.steps import put_spec
from tests.worlds.wire import Answer
from tests.worlds.world import World

SETTLES_WITHIN_S = 3 * W_S + 90.0
"""The landing window of pending writes, after a recovery hold, and twice the longest wait before something is tried
again (30 s)."""

STEPS_LAST_S = 6.0
"""After this time the last steps are over: gates that were killed or stopped are back."""

GROWS_WITHIN_S = 5.0
"""How soon a write that fits must be allowed, once no faults happen any more. A gate that is out of date may have to
wait before it connects again."""

MANY = 1_000
"""More replicas than any limit of a world."""

IDLE_FOR_S = 1.0
"""Several rounds of housekeeping."""

IDLE_TRIES = 5

NAMED = re.compile(r"largest allowed replicas: (\d+)")

NANO = {"requests.cpu": 10**6, "requests.storage": 2**30 * 10**9}
"""Factor from the units of ``reference`` to nano-units."""


class Convergence:
    """Lets a world converge, and checks it."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def reach(self) -> None:
        """Heal, wait, judge."""
        world = self._world
        world.tell("faults stop")
        world.heal()
        world.peace.set()
        await asyncio.sleep(STEPS_LAST_S)
        self._drop_overrides()  # only now: a quota that was gone has come back with its own
        restless: list[str] = []

        def at_rest() -> bool:
            restless[:] = self._restless()
            return not restless

        if not await world.until(at_rest, SETTLES_WITHIN_S):
            world.checks.broken("nothing leaks", "; ".join(restless))
        if world.over():
            return
        await self._must_be_idle()
        for member in world.serving():
            for key in world.reference.workloads():
                if not is_left(key):
                    await self._must_grow(member, key)

    def _drop_overrides(self) -> None:
        """Limits stay what they are, and nobody waits for a turn."""
        world = self._world
        for _, tree in sorted(world.server.objects(QUOTAS).items()):
            if any(tree["spec"].get(field) for field in ("overrides", "sharing")):
                put_spec(world, tree, overrides=[], sharing=None)

    async def _must_be_idle(self) -> None:
        """A gate with nothing to write writes nothing."""
        writes: dict[str, int] = {}

        def idle() -> bool:
            nonlocal writes
            before, writes = writes, {one.name: one.metrics.writes for one in self._world.serving()}
            return before == writes

        for _ in range(IDLE_TRIES):
            if idle():
                return
            await asyncio.sleep(IDLE_FOR_S)
        self._world.checks.broken("idle", f"at rest, and so often ledgers were written: {writes}")

    def _restless(self) -> list[str]:
        """What is not yet as it must be in the end."""
        world = self._world
        live = world.serving()
        if world.controllers.busy or world.client.under_way:
            return ["writes are under way"]
        if len(live) < world.plan.gates or any(one.assembly.holds for one in live):
            return ["gates are not there, or hold"]
        found = [f"{one.name} {what}" for one in live for what in self._wrong(one)]
        for member in live:
            found += member.unwell()
        for tree in world.server.objects(LEDGERS).values():
            try:
                payload = decode(tree["spec"]["payload"])
            except PayloadError as error:
                found.append(f"the ledger cannot be read: {error}")
            else:
                if payload.pending_writes or payload.holds:
                    found.append(
                        f"the ledger has pending writes {list(payload.pending_writes)}, holds: {payload.holds}"
                    )
        return found

    def _wrong(self, member: Member) -> list[str]:
        charges = self._world.reference.charges()
        rows = {(row.quota, row.resource): row for row in member.gate.usage()}
        found = [
            f"has {row.reserved} of {row.resource} in {row.quota} reserved" for row in rows.values() if row.reserved
        ]
        for (quota, key), amount in charges.items():
            row = rows.get((quota, key))
            if row is None or row.used != amount * NANO.get(key, 10**9):
                found.append(f"counts {row.used if row else None} of {key} in {quota}, where {amount} is in use")
        for (quota, key), amount in self._world.reference.view().kept(charges).items():
            row = rows.get((quota, key))
            if row is None or row.kept != amount * NANO.get(key, 10**9):
                found.append(f"keeps {row.kept if row else None} of {key} in {quota}, where {amount} is guaranteed")
        if member.gate.ledger.pending_writes:
            found.append(f"follows {[pending_write.id for _, pending_write in member.gate.ledger.pending]}")
        if member.odd is not None and member.odd.reserved:
            found.append(f"has not told a policy of the end of {sorted(member.odd.reserved)}")
        if drift := member.gate.ledger.drift():
            found.append(f"has drifted by {drift}")
        return found

    async def _must_grow(self, member: Member, key: Key) -> None:
        """One pod more passes if it fits, and is refused for quota if not."""
        world = self._world
        sent = objects.scale(key, world.reference.workloads()[key].replicas + 1, "kpa", "")
        after = world.reference.worst([sent.promise])
        before = world.reference.charges()
        fits = _fits(world.reference.view(), before, after)
        many = objects.scale(key, world.reference.workloads()[key].replicas + MANY, "kpa", "")
        if fits and _is_over(world.reference.view(), before, world.reference.worst([many.promise])):
            return  # by what its family has beyond what it asks for, which is no licence (design.md rule 10)
        expected = Verdict.ALLOW if fits else Verdict.DENY
        decision: Answer | None = None
        began_s = world.loop.time()
        within_s = GROWS_WITHIN_S
        while world.loop.time() < began_s + within_s:
            decision = await world.client.ask(sent, world.dice, member)
            if decision is not None and decision.reason == "stale":
                within_s = GROWS_WITHIN_S + reflector.LONGEST_S
            if decision is not None and decision.verdict is expected:
                break
            await asyncio.sleep(0.2)
        else:
            told = f"{decision.verdict}: {decision.sentence}" if decision is not None else "no answer"
            world.checks.broken("no starvation", f"{member.name} should {expected} {key[1]} one more, and says {told}")
        named = NAMED.search(decision.sentence) if decision is not None and not fits else None
        if named is not None and int(named[1]) >= (sent.promise.replicas or 0):
            what = f"{member.name} refuses {key[1]} to {sent.promise.replicas}: {decision.sentence if decision else ''}"
            world.checks.broken("what is named fits", what)
        if world.plan.entrances != "envoy":
            reviewed = await world.client.review(objects.dry(sent), world.dice, member)
            if reviewed is None or reviewed.verdict is not expected:
                world.checks.broken("one write, any entrance", f"{member.name} should {expected} it as a webhook too")
        await world.until(lambda: not member.gate.ledger.pending_writes, GROWS_WITHIN_S)


def _is_over(view: View, before: Charges, after: Charges) -> bool:
    """Whether a quota is over its limit, of what grows."""
    return any(before[at] > view.quotas[at[0]].hard[at[1]] and amount > before[at] for at, amount in after.items())


def _fits(view: View, before: Charges, after: Charges) -> bool:
    """Whether what grows is within its limit, and leaves what is kept for others."""
    kept, was_kept = view.kept(after), view.kept(before)
    for at, amount in after.items():
        hard = view.quotas[at[0]].hard[at[1]]
        is_lent = amount + kept[at] > max(hard, before[at] + was_kept[at])
        if amount > before[at] and (amount > hard or is_lent):
            return False
    return True
