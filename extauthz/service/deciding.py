"""The request path: an id and the time for the pure gate, and the observers told of what it decided."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Protocol, TypeAlias

from extauthz.core.decision.auditing import audited
from extauthz.core.decision.scales import UNASKED
from extauthz.core.model import Decision, Request, Verdict, WorkloadRef
from extauthz.observe.log import Log
from extauthz.observe.metrics import Metrics
from extauthz.service.inputs import Look

Commit: TypeAlias = Callable[[Request, Decision], Awaitable[Decision]]
"""Makes of a grant in memory one that every gate knows of, or a refusal."""

INTERNAL_ERROR = "internal-error"

NOT_SEEN = frozenset({"unknown-workload", "unknown-namespace"})
"""Reasons for which it is worth a look whether the watch is only behind: the object was made a moment ago."""

LOOK_WITHIN_S = 1.0
"""Half of Envoy's ext_authz timeout as ``extauthz render`` sets it."""


class Decides(Protocol):
    """What the request path wants of the gate."""

    def decide(self, request: Request, decision_id: str, now_s: float, *, charge: bool = True) -> Decision:
        """Answer ``request``; ``now_s`` on the process's monotonic clock."""


class Deciding:
    """Callable by every door. Never raises, and waits only to look at a workload that was not seen yet, and for
    other gates to agree: what goes wrong inside is an answer too.

    Args:
        gate: the decision engine.
        metrics: told of each decision and what it took.
        log: told of each decision, and of the traceback where we are at fault.
        look: brings a workload into the picture; ``None``: that cannot be done.
        ask: learns how many replicas a workload may have; ``None``: nothing says so.
        heed: told of each decision too; must neither block nor raise.
        commit: agrees with other gates upon a grant that is in memory so far; ``None``: there are none.
        audits: nothing is refused, whatever goes wrong.
        clock: seconds, monotonic.
        ids: makes an id for each decision.
    """

    def __init__(
        self,
        gate: Decides,
        metrics: Metrics,
        log: Log,
        look: Look | None = None,
        heed: Callable[[Decision], None] | None = None,
        commit: Commit | None = None,
        *,
        ask: Look | None = None,
        audits: bool = False,
        clock: Callable[[], float] = time.monotonic,
        ids: Callable[[], str] | None = None,
    ) -> None:
        self._gate = gate
        self._metrics = metrics
        self._log = log
        self._look = look
        self._commit = commit
        self._heed = heed
        self._ask = ask
        self._audits = audits
        self._clock = clock
        self._new_id = ids if ids is not None else new_id

    def __call__(self, request: Request) -> Decision | Awaitable[Decision]:
        """The decision, or where it waits for a look, what to await for it."""
        started_s = self._clock()
        decision_id = self._new_id()
        decision = self._decide(request, decision_id, started_s)
        if decision.intent is not None and self._commit is not None:
            return self._after_a_commit(self._commit, request, decision, started_s)
        if decision.reason in NOT_SEEN and decision.ref is not None and self._look is not None:
            return self._after_a_look(self._look, decision.ref, request, decision_id, started_s)
        if decision.reason == UNASKED:
            return self._after_asking(decision, request, started_s)
        return self._tell(decision, request, started_s)

    async def _after_asking(self, decision: Decision, request: Request, started_s: float) -> Decision:
        """As after a look: nothing was recorded or told."""
        if self._ask is not None and decision.ref is not None:
            await self._ask(decision.ref)
            decision = self._decide(request, decision.id, self._clock())
        if decision.intent is not None and self._commit is not None:
            return await self._after_a_commit(self._commit, request, decision, started_s)
        return self._tell(decision, request, started_s)

    async def _after_a_look(
        self, look: Look, ref: WorkloadRef, request: Request, decision_id: str, started_s: float
    ) -> Decision:
        """Nothing was recorded or told so far, so that the request is decided once all the same."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_WITHIN_S):
                await look(ref)
        decision = self._decide(request, decision_id, self._clock())
        if decision.reason == UNASKED:
            return await self._after_asking(decision, request, started_s)
        if decision.intent is not None and self._commit is not None:
            return await self._after_a_commit(self._commit, request, decision, started_s)
        return self._tell(decision, request, started_s)

    async def _after_a_commit(self, commit: Commit, request: Request, decision: Decision, started_s: float) -> Decision:
        try:
            decision = await commit(request, decision)
        except Exception:  # noqa: BLE001 (as in _decide)
            decision = self._failed(decision.id)
        return self._tell(decision, request, started_s)

    def _decide(self, request: Request, decision_id: str, now_s: float) -> Decision:
        try:
            return self._gate.decide(request, decision_id, now_s)
        except Exception:  # noqa: BLE001 (whatever it is, the request must be refused by name and not by a broken call)
            return self._failed(decision_id)

    def _tell(self, decision: Decision, request: Request, started_s: float) -> Decision:
        self._metrics.decision(decision, self._clock() - started_s)
        self._log.decision(decision, request.headers.get("user-agent", ""))
        if self._heed is not None:
            self._heed(decision)
        return decision

    def _failed(self, decision_id: str) -> Decision:
        self._log.event("error", INTERNAL_ERROR, id=decision_id, traceback=traceback.format_exc())
        sentence = f"this write was not decided: the quota gate failed (decision {decision_id}); its log says why"
        failed = Decision(decision_id, Verdict.UNAVAILABLE, INTERNAL_ERROR, sentence)
        return audited(failed) if self._audits else failed


_RANDOM = Random()  # noqa: S311 (seeded by the system; an id is a name and no secret)


def new_id() -> str:
    """64 random bits in hex: by a million decisions a day, a repeated id within a year has odds of 1 in 270."""
    return f"{_RANDOM.getrandbits(64):016x}"
