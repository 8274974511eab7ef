"""Clients that write through the gates: an autoscaler and its Envoy, from the check to the end of the write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Protocol

from extauthz.core.model import Request, Verdict
from extauthz.kube.connection import ApiError
from extauthz.settlement.answers import Fate

from . import wire
from .checks import Checks
from .loop import VirtualLoop
from .member import Member
from .objects import Sent
from .reference import ReferenceModel
from .server import ApiServer
from .wire import Answer

AUTHZ_S = 2.0
"""Envoy's ext_authz timeout."""

LANDS_WITHIN_S = 5.0
"""From there until an allowed write has landed, or never will."""

W_S = AUTHZ_S + LANDS_WITHIN_S + 1.0

NO_FLAGS: frozenset[str] = frozenset()

NOT_FORWARDED = Fate(503, "no_healthy_upstream", frozenset({"no_healthy_upstream"}), 1, False)


class Gates(Protocol):
    """The gates, as an Envoy finds them."""

    def any_gate(self, random: Random) -> Member | None:
        """One of the gates that a load balancer may choose, dead ones included; ``None``: there is none."""


class Client:
    """Sends writes through Envoy, each once."""

    def __init__(
        self,
        loop: VirtualLoop,
        server: ApiServer,
        reference: ReferenceModel,
        checks: Checks,
        gates: Gates,
        tell: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._server = server
        self._reference = reference
        self._checks = checks
        self._gates = gates
        self._tell = tell
        self.under_way = 0

    async def send(self, sent: Sent, how: Mapping[str, Any], random: Random) -> Answer | None:
        """One write, until it has landed or never will. Returns the decision that Envoy got."""
        self.under_way += 1
        try:
            begun_s = self._loop.time()
            decision = await self._authorized(sent, random, within_s=how.get("leaves_s", AUTHZ_S))
            if decision is not None and decision.verdict is Verdict.ALLOW:
                await self._forward(sent, decision, how, random, begun_s + AUTHZ_S + LANDS_WITHIN_S)
            return decision
        finally:
            self.under_way -= 1

    async def ask(self, sent: Sent, random: Random, member: Member) -> Answer | None:
        """The decision of one gate on a write that is not sent on."""
        decision = await self._authorized(sent, random, member)
        if decision is not None:
            self._reference.promises.pop(decision.id, None)
            self._hear(decision, NOT_FORWARDED, {}, random)
        return decision

    async def _authorized(
        self, sent: Sent, random: Random, member: Member | None = None, within_s: float = AUTHZ_S
    ) -> Answer | None:
        """Envoy's ext_authz filter: no answer in time is a refusal."""
        await asyncio.sleep(random.uniform(0.0005, 0.005))
        member = member or self._gates.any_gate(random)
        if member is None or not member.serves:
            return None
        at_s = self._loop.time()
        self._checks.asked(at_s, sent.promise)
        task = member.begin(self._checked(member, sent, at_s))
        done, _ = await asyncio.wait((task,), timeout=within_s)
        if not done or task.cancelled():
            self._give_up(task, sent)
            return None
        if (error := task.exception()) is not None:
            self._checks.broken("no failure", f"{member.name} failed: {error!r}")
            return None
        decision: Answer = task.result()
        return decision

    def _give_up(self, task: asyncio.Task[Answer], sent: Sent) -> None:
        """Envoy has refused the write. It is not forwarded, whatever the gate says now."""

        def withdrawn(task: asyncio.Task[Answer]) -> None:
            if not task.cancelled() and task.exception() is None:
                self._reference.promises.pop(task.result().id, None)

        self._tell(f"no decision on {sent.request.method} {sent.promise}")
        task.add_done_callback(withdrawn)
        task.cancel()  # Envoy resets the call, and gRPC cancels what answers it

    async def _checked(self, member: Member, sent: Sent, at_s: float) -> Answer:
        """Within the gate's process."""
        known = member.known(at_s)
        decision = wire.answer(await member.check(wire.check(sent.request)))
        logged = member.log.decisions.pop(decision.id)
        assert (logged.verdict, logged.reason) == (decision.verdict, decision.reason)
        self._checks.answered(at_s, self._loop.time(), member.name, logged, sent.promise, known)
        if decision.verdict is Verdict.ALLOW:
            self._reference.promises[decision.id] = sent.promise
        self._tell(f"{member.name}: {_told(decision, sent)}")
        return decision

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
            self._land(sent, decision)
            return
        else:
            await asyncio.sleep(random.choice((0.005, 0.05, 0.5)) * random.random())
            fate = self._refused() if end == "refused" else self._land(sent, decision)
            if end == "reply-lost":
                fate = Fate(0, "upstream_reset_after_response_started", frozenset({"upstream_remote_reset"}), 1, True)
            await asyncio.sleep(random.uniform(0.001, 0.05))
        self._reference.promises.pop(decision.id, None)
        self._hear(decision, fate, how, random)

    @staticmethod
    def _refused() -> Fate:
        return Fate(403, "via_upstream", NO_FLAGS, 1, True)

    def _land(self, sent: Sent, decision: Answer) -> Fate:
        """It arrives at the API server."""
        self._reference.promises.pop(decision.id, None)
        before = self._reference.workloads()
        code = 200
        try:
            headers = sent.request.headers
            self._server.request(
                sent.request.method, sent.request.target, {}, sent.body, headers.get("content-type", "")
            )
        except ApiError as error:
            code = error.status
        what = f"{decision.id} ({sent.promise.key[1]} to {sent.promise.replicas})"
        self._tell(f"api: {what} landed: {code}")
        self._checks.landed(before, self._reference.workloads(), sent.promise, decision.id)
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


def _told(decision: Answer, sent: Sent) -> str:
    request: Request = sent.request
    promise = sent.promise
    count = "as many" if promise.replicas is None else f"{promise.replicas}"
    to = count + (f" at {promise.cpu_m}m" if promise.cpu_m is not None else "")
    return f"{request.method} {promise.key[1]} to {to}: {decision.verdict} {decision.id} ({decision.reason})"
