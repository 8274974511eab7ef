"""Asks gates as Envoy and the API server do, and tells the checks what they answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Protocol

from extauthz.core.model import Verdict
from extauthz.serve.service.deciding import INTERNAL_ERROR
from tests.worlds.checks import FAILURE, Checks
from tests.worlds.loop import VirtualLoop
from tests.worlds.member import Member
from tests.worlds.reference import ReferenceModel
from tests.worlds.turning import Turning
from tests.worlds.wire import Answer, Question


class Gates(Protocol):
    """The gates, as those find them who ask."""

    def any_gate(self, random: Random) -> Member | None:
        """One of the gates that a load balancer may choose, dead ones included; ``None``: there is none."""


class Asking:
    """One for all of a world."""

    def __init__(
        self,
        loop: VirtualLoop,
        reference: ReferenceModel,
        checks: Checks,
        gates: Gates,
        tell: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._reference = reference
        self._checks = checks
        self._gates = gates
        self._tell = tell
        self.turning = Turning()

    async def ask(
        self, question: Question, random: Random, within_s: float, member: Member | None = None
    ) -> Answer | None:
        """The answer of one gate; ``None``: none came in time, which is a refusal."""
        await asyncio.sleep(random.uniform(0.0005, 0.005))
        member = member or self._gates.any_gate(random)
        if member is None or not member.serves:
            return None
        at_s = self._loop.time()
        self._checks.asked(at_s, question)
        task = member.begin(self._answered(member, question, at_s))
        done, _ = await asyncio.wait((task,), timeout=within_s)
        if not done or task.cancelled():
            self._give_up(task, question)
            return None
        if (error := task.exception()) is not None:
            self._checks.broken(FAILURE, f"{member.name} failed: {error!r}")
            return None
        answer: Answer = task.result()
        return answer

    async def lower(self, question: Question, random: Random, within_s: float) -> int | None:
        """The count that one gate's mutating webhook puts in place of the one that is asked for; ``None``: none."""
        await asyncio.sleep(random.uniform(0.0005, 0.005))
        member = self._gates.any_gate(random)
        if member is None or not member.serves:
            return None
        task = member.begin(member.lowered(question))
        done, _ = await asyncio.wait((task,), timeout=within_s)
        if not done or task.cancelled():
            return None
        if (error := task.exception()) is not None:
            self._checks.broken(FAILURE, f"{member.name} failed: {error!r}")
            return None
        self._tell(f"{member.name}: {question}: lowered to {task.result()}")
        return task.result()

    def _give_up(self, task: asyncio.Task[Answer], question: Question) -> None:
        """The write is refused, whatever the gate says now."""

        def withdrawn(task: asyncio.Task[Answer]) -> None:
            if not task.cancelled() and task.exception() is None:
                self._reference.promises.pop(task.result().id, None)

        self._tell(f"no decision on {question}")
        task.add_done_callback(withdrawn)
        if not question.by_webhook:  # aiohttp lets a handler run to its end
            task.cancel()  # Envoy resets the call, and gRPC cancels what answers it

    async def _answered(self, member: Member, question: Question, at_s: float) -> Answer:
        """Within the gate's process."""
        known = member.known(at_s)
        answer, logged = await member.answer(question)
        if logged.reason == INTERNAL_ERROR:
            self._checks.broken(FAILURE, f"{member.name} failed on {logged.id}")
        self._checks.answered(at_s, self._loop.time(), member.name, logged, question, known)
        if not question.is_undecided:
            wrong = self.turning.answered(self._loop.time(), member.name, member.gate, logged, dry=question.dry)
            if wrong is not None:
                self._checks.broken("the line is right", wrong)
        if answer.verdict is Verdict.ALLOW and not question.dry and not question.is_undecided:
            self._reference.promises[answer.id] = question.promise
        self._tell(f"{member.name}: {question}: {answer.verdict} {answer.id} ({answer.reason})")
        return answer
