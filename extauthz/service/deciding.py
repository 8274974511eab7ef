"""The request path: an id and the time for the pure gate, and the observers told of what it decided."""

from __future__ import annotations

import asyncio
import secrets
import time
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

from extauthz.core.decision.auditing import audited
from extauthz.core.decision.scales import UNASKED
from extauthz.core.model import Decision, Reading, Request, Verdict
from extauthz.observe.log import Log
from extauthz.observe.metrics import Metrics
from extauthz.service.inputs import Look


class Readers(NamedTuple):
    """Two ways to read a request."""

    at_once: Callable[[Request], Reading | None]
    """``None``: it takes longer than others should wait."""
    aside: Callable[[Request], Awaitable[Reading]]
    """Takes its time where it holds nobody up."""


Commit: TypeAlias = Callable[[Reading, str, Decision], Awaitable[Decision]]
"""Takes a write, its source, and a decision that would grant it: makes a grant of it that every gate knows of, or a
refusal."""

INTERNAL_ERROR = "internal-error"

NOT_SEEN = frozenset({"unknown-workload", "unknown-namespace"})
"""Reasons for which it is worth a look whether the watch is only behind: the object was made a moment ago."""

LOOK_WITHIN_S = 1.0
"""Half of Envoy's ext_authz timeout as ``extauthz render`` sets it."""


@dataclass(slots=True)
class _Asked:
    """One request on its way."""

    request: Request
    id: str
    started_s: float
    reading: Reading | None = None
    """``None``: it was not read yet."""


class _Later:
    """A decision that waits for something. Nothing has begun if nobody awaits it: its caller may have gone by then."""

    def __init__(self, begin: Callable[[], Coroutine[Any, Any, Decision]]) -> None:
        self._begin = begin

    def __await__(self) -> Generator[Any, None, Decision]:
        return self._begin().__await__()


class Decides(Protocol):
    """What the request path wants of the gate."""

    @property
    def reader(self) -> Callable[[Request], Reading]:
        """What a request means."""

    def judge(
        self, reading: Reading, decision_id: str, now_s: float, *, source: str = "", charge: bool = True
    ) -> Decision:
        """Decide it; ``now_s`` on the process's monotonic clock."""


class Deciding:
    """Callable by every server. Never raises, and waits only for a long body to be read, to look at a workload that was
    not seen yet, and for other gates to agree: what goes wrong inside is an answer too.

    Args:
        gate: the decision engine.
        metrics: told of each decision and what it took.
        log: told of each decision, and of the traceback where we are at fault.
        look: brings a workload into the picture; ``None``: that cannot be done.
        reads: how requests are read; ``None``: all at once.
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
        reads: Readers | None = None,
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
        self._read_at_once = reads.at_once if reads is not None else gate.reader
        self._read_aside = reads.aside if reads is not None else None
        self._ask = ask
        self._audits = audits
        self._clock = clock
        self._new_id = ids if ids is not None else new_id

    def __call__(self, request: Request) -> Decision | Awaitable[Decision]:
        """The decision, or where it waits for something, what to await for it."""
        asked = _Asked(request, self._new_id(), self._clock())
        decision = self._decide_at_once(asked)
        if decision is None:
            return _Later(lambda: self._wait_to_read(asked))
        if self._wants(decision):
            return _Later(lambda: self._wait(asked, decision))
        return self._tell(decision, asked)

    def _wants(self, decision: Decision) -> bool:
        """Whether something has to be looked up or agreed upon first. So far nothing was recorded or told."""
        return (
            (decision.reason in NOT_SEEN and self._look is not None)
            or (decision.reason == UNASKED and self._ask is not None)
            or self._must_commit(decision)
        )

    async def _wait_to_read(self, asked: _Asked) -> Decision:
        assert self._read_aside is not None
        try:
            asked.reading = await self._read_aside(asked.request)
        except Exception:  # noqa: BLE001 (as in _decide)
            return self._tell(self._failed(asked.id), asked)
        decision = self._decide(asked)
        return await self._wait(asked, decision) if self._wants(decision) else self._tell(decision, asked)

    async def _wait(self, asked: _Asked, decision: Decision) -> Decision:
        try:
            if decision.reason in NOT_SEEN and decision.ref is not None and self._look is not None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_WITHIN_S):
                        await self._look(decision.ref)
                decision = self._decide(asked)
            if decision.reason == UNASKED and decision.ref is not None and self._ask is not None:
                await self._ask(decision.ref)
                decision = self._decide(asked)
            if self._must_commit(decision):
                assert self._commit is not None
                assert asked.reading is not None
                decision = await self._commit(asked.reading, asked.request.source, decision)
        except Exception:  # noqa: BLE001 (as in _decide)
            decision = self._failed(asked.id)
        return self._tell(decision, asked)

    def _must_commit(self, decision: Decision) -> bool:
        """Whether other gates have to know of it first. A write that no quota may cover is told to them afterwards."""
        return self._commit is not None and decision.pends and not decision.uncovered

    def _decide_at_once(self, asked: _Asked) -> Decision | None:
        """``None``: it is not read yet, as that takes long."""
        try:
            asked.reading = self._read_at_once(asked.request)
        except Exception:  # noqa: BLE001 (as in _decide)
            return self._failed(asked.id)
        return self._decide(asked) if asked.reading is not None else None

    def _decide(self, asked: _Asked) -> Decision:
        """A grant is recorded at once, but where it must be agreed upon."""
        try:
            decision = self._judge(asked, charge=self._commit is None)
            if self._commit is not None and decision.pends and decision.uncovered:
                decision = self._judge(asked, charge=True)
        except Exception:  # noqa: BLE001 (whatever it is, the request must be refused by name and not by a broken call)
            return self._failed(asked.id)
        return decision

    def _judge(self, asked: _Asked, *, charge: bool) -> Decision:
        assert asked.reading is not None
        source = asked.request.source
        return self._gate.judge(asked.reading, asked.id, self._clock(), source=source, charge=charge)

    def _tell(self, decision: Decision, asked: _Asked) -> Decision:
        self._metrics.decision(decision, self._clock() - asked.started_s)
        self._log.decision(decision, asked.request.headers.get("user-agent", ""))
        if self._heed is not None:
            self._heed(decision)
        return decision

    def _failed(self, decision_id: str) -> Decision:
        self._log.event("error", INTERNAL_ERROR, id=decision_id, traceback=traceback.format_exc())
        sentence = f"this write was not decided: the quota gate failed (decision {decision_id}); its log says why"
        failed = Decision(decision_id, Verdict.UNAVAILABLE, INTERNAL_ERROR, sentence)
        return audited(failed) if self._audits else failed


def new_id() -> str:
    """64 bits in hex that nobody can guess: whoever names an id in an access log may end what it stands for."""
    return secrets.token_hex(8)
