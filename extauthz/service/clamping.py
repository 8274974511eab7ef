"""Mode Clamp: asks the gate what to send in place of a write that does not fit, and tells the observers.

Nothing is charged here. What is really sent comes back to be decided (``deciding``).
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from extauthz.core import texts
from extauthz.core.intake.rewritten import rewritten
from extauthz.core.model import Decision, Fetch, Question, Reading, Request, Requester
from extauthz.core.quota.requesters import by_name
from extauthz.observe.log import Log
from extauthz.observe.metrics import Metrics
from extauthz.servers.lowering import Lowered
from extauthz.service.inputs import Look

MAX_WARNING: Final = 120
"""Characters. An API server passes on more, and advises against it."""


class Clamps(Protocol):
    """What is needed of the gate."""

    def clamp(
        self,
        reading: Reading,
        decision_id: str,
        now_s: float,
        *,
        source: str = "",
        requester: Requester | None = None,
    ) -> Decision | None:
        """What to ask for; ``now_s`` on the process's monotonic clock."""


class Clamping:
    """Answers servers that can change a write. Never raises: where anything goes wrong, the write stays as it is.

    Args:
        fetch: brings what an answer needs.
        heed: told of each write that is lowered, as of a decision.
        read: what a request means.
        is_terse: clients learn no name of a quota.
    """

    def __init__(
        self,
        gate: Clamps,
        metrics: Metrics,
        log: Log,
        *,
        fetch: Mapping[Fetch, Look],
        heed: Callable[[Decision], None] | None,
        clock: Callable[[], float],
        ids: Callable[[], str],
        read: Callable[[Request], Reading],
        is_terse: bool,
    ) -> None:
        self._gate = gate
        self._metrics = metrics
        self._log = log
        self._fetch = fetch
        self._heed = heed
        self._clock = clock
        self._new_id = ids
        self._read = read
        self._is_terse = is_terse
        self.asked = False
        """Somebody has."""

    async def body(self, request: Request) -> Lowered | None:
        """The body to send in place of the one that came; ``None``: send it as it is."""
        self.asked = True
        try:
            who = by_name(request.requester) if request.requester else None
            found = await self._found(self._read(request), request.source, who)
            if found is None or found.clamped_to is None:
                return None
            body = rewritten(request, found.clamped_to, found.version)
            if body is None:
                return None
            return self._told(found, found.clamped_to, request.headers.get("user-agent", ""), request.requester, body)
        except Exception:  # noqa: BLE001 (whatever it is, the write goes on to be decided)
            self._failed()
            return None

    async def review(self, question: Question) -> Lowered | None:
        """The count to store in place of the one that is asked for; ``None``: leave it as it is."""
        self.asked = True
        try:
            found = await self._found(question.reading, question.user, question.requester)
            if found is None or found.clamped_to is None:
                return None
            return self._told(found, found.clamped_to, "", question.user)
        except Exception:  # noqa: BLE001 (as above)
            self._failed()
            return None

    async def _found(self, reading: Reading, source: str, who: Requester | None) -> Decision | None:
        decision_id = self._new_id()
        found = self._gate.clamp(reading, decision_id, self._clock(), source=source, requester=who)
        for what, fetch in self._fetch.items():
            if found is not None and found.needs is not None and found.needs.what is what:
                await fetch(found.needs.ref)
                found = self._gate.clamp(reading, decision_id, self._clock(), source=source, requester=who)
        return found

    def _told(self, found: Decision, count: int, user_agent: str, user: str, body: bytes = b"") -> Lowered:
        self._log.clamp(found, user_agent, user)
        if not found.dry_run:
            self._metrics.clamp(found)
            if self._heed is not None:
                self._heed(found)
        return Lowered(count, self._warning(found, count), body)

    def _warning(self, found: Decision, count: int) -> str:
        what = f"replicas lowered from {found.replicas} to {count}: "
        if self._is_terse:
            return f"{what}a workspace quota has no more room (decision {found.id})"
        short = found.shortages[0]
        return texts.cut(f"{what}no more {short.resource} in workspace quota {short.quota}", MAX_WARNING)

    def _failed(self) -> None:
        self._log.event("error", "clamp-failed", traceback=traceback.format_exc())
