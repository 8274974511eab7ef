"""Clients that write through the gates: an autoscaler and its Envoy, from the check to the end of the write."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import count
from random import Random
from typing import Any

from extauthz.core.model import Verdict
from extauthz.inputs.settlement.answers import Fate
from tests.worlds import objects, wire
from tests.worlds.admission import Admission
from tests.worlds.asking import Asking, Gates
from tests.worlds.loop import VirtualLoop
from tests.worlds.member import Member
from tests.worlds.objects import Sent
from tests.worlds.reference import ReferenceModel
from tests.worlds.wire import Answer, Question

AUTHZ_S = 2.0
"""Envoy's ext_authz timeout."""

LANDS_WITHIN_S = 5.0
"""From there until an allowed write has landed, or never will."""

DRY = 0.1
"""How many writes are dry runs, where there is a webhook."""

PAST_ENVOY = 0.3
"""How many go to the API server directly, where there is an Envoy."""

W_S = AUTHZ_S + LANDS_WITHIN_S + 1.0

NO_FLAGS: frozenset[str] = frozenset()

NOT_FORWARDED = Fate(503, "no_healthy_upstream", frozenset({"no_healthy_upstream"}), 1, False)


class Client:
    """Sends writes through Envoy, each once, or past it where a webhook asks. ``entrances``: one of
    ``plan.ENTRANCES``."""

    def __init__(
        self,
        loop: VirtualLoop,
        reference: ReferenceModel,
        gates: Gates,
        asking: Asking,
        admission: Admission,
        entrances: str,
    ) -> None:
        self._loop = loop
        self._reference = reference
        self._gates = gates
        self._asking = asking
        self._admission = admission
        self._entrances = entrances
        self._numbers = count(1)
        self.under_way = 0

    async def send(self, sent: Sent, how: Mapping[str, Any], random: Random) -> Answer | None:
        """One write, until it has landed or never will. Returns the decision that Envoy got."""
        self.under_way += 1
        try:
            sent = self._drawn(sent, random)
            until_s = self._loop.time() + AUTHZ_S + LANDS_WITHIN_S
            if self._is_past_envoy(sent, random):
                await self._direct(sent, how, random, until_s)
                return None
            decision = await self._authorized(sent, random, how.get("leaves_s", AUTHZ_S))
            if decision is not None and decision.verdict is Verdict.ALLOW:
                await self._forward(sent, decision, how, random, until_s)
            return decision
        finally:
            self.under_way -= 1

    def _drawn(self, sent: Sent, random: Random) -> Sent:
        sent = sent._replace(number=next(self._numbers))
        return objects.dry(sent) if self._entrances != "envoy" and random.random() < DRY else sent

    def _is_past_envoy(self, sent: Sent, random: Random) -> bool:
        """Some writers have no Envoy before them. Where there is no webhook, none of these writes a count."""
        if self._entrances == "envoy" and sent.counts:
            return False
        return self._entrances == "webhook" or random.random() < PAST_ENVOY

    async def ask(self, sent: Sent, random: Random, member: Member) -> Answer | None:
        """The decision of one gate on a write that is not sent on."""
        decision = await self._authorized(sent._replace(number=next(self._numbers)), random, AUTHZ_S, member)
        if decision is not None:
            self._reference.promises.pop(decision.id, None)
            self._hear(decision, NOT_FORWARDED, {}, random)
        return decision

    async def review(self, sent: Sent, random: Random, member: Member) -> Answer | None:
        """The decision of one gate's webhook on a dry run."""
        return await self._admission.ask(sent._replace(number=next(self._numbers)), random, member)

    async def _authorized(
        self, sent: Sent, random: Random, within_s: float, member: Member | None = None
    ) -> Answer | None:
        """Envoy's ext_authz filter: no answer in time is a refusal."""
        is_undecided = not sent.counts
        question = Question(wire.check(sent.request), sent.promise, sent.number, sent.dry, is_undecided=is_undecided)
        return await self._asking.ask(question, random, within_s, member)

    async def _direct(self, sent: Sent, how: Mapping[str, Any], random: Random, until_s: float) -> None:
        """A write that no Envoy sees."""
        if how["end"] in ("refused", "not-forwarded", "never-arrives"):
            return
        late_s = random.uniform(0.01, 1.0) if how["end"] == "lands-late" else 0.0
        await asyncio.sleep(late_s + random.choice((0.005, 0.05, 0.5)) * random.random())
        await self._admission.write(sent, "", random, until_s)

    async def _forward(
        self, sent: Sent, decision: Answer, how: Mapping[str, Any], random: Random, until_s: float
    ) -> None:
        end = how["end"]
        if end == "not-forwarded":
            fate = NOT_FORWARDED
        elif end == "never-arrives":
            await asyncio.sleep(random.uniform(0.01, 2.0))
            fate = Fate(504, "response_timeout", frozenset({"upstream_request_timeout"}), 1, True)
        elif end == "lands-late":
            fate = Fate(504, "response_timeout", frozenset({"upstream_request_timeout"}), 1, True)
            await asyncio.sleep(random.uniform(0.01, 1.0))
            self._hear(decision, fate, how, random)
            await asyncio.sleep(random.choice((random.random(), 1.0)) * (until_s - self._loop.time()))
            await self._land(sent, decision, random, until_s)
            return
        else:
            await asyncio.sleep(random.choice((0.005, 0.05, 0.5)) * random.random())
            fate = self._refused() if end == "refused" else await self._land(sent, decision, random, until_s)
            if end == "reply-lost":
                fate = Fate(0, "upstream_reset_after_response_started", frozenset({"upstream_remote_reset"}), 1, True)
            await asyncio.sleep(random.uniform(0.001, 0.05))
        self._reference.promises.pop(decision.id, None)
        self._hear(decision, fate, how, random)

    @staticmethod
    def _refused() -> Fate:
        return Fate(403, "via_upstream", NO_FLAGS, 1, True)

    async def _land(self, sent: Sent, decision: Answer, random: Random, until_s: float) -> Fate:
        """It arrives at the API server. What this gives up may not have ended, for all that is known of it."""
        code = await self._admission.write(sent, decision.id if sent.counts else "", random, until_s)
        self._reference.promises.pop(decision.id, None)
        return Fate(code, "via_upstream", NO_FLAGS, 1, True)

    def _hear(self, decision: Answer, fate: Fate, how: Mapping[str, Any], random: Random) -> None:
        """Send the entry of the access log to any gate."""
        if how.get("log") != "lost":
            after_s = random.uniform(1, 7) if how.get("log") == "late" else random.choice((0.001, 0.1))
            self._loop.world.start(self._log(wire.log_entry(decision, fate), after_s, random))

    async def _log(self, raw: bytes, after_s: float, random: Random) -> None:
        await asyncio.sleep(after_s)
        member = self._gates.any_gate(random)
        if member is not None and member.serves:
            member.hear(raw)
