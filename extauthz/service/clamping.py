"""Mode Clamp: asks the gate what to send in place of a write that does not fit, and tells the observers.

Nothing is charged here. What is really sent comes back to be decided (``deciding``).
"""

from __future__ import annotations

import traceback
from typing import Final

from extauthz.core import texts
from extauthz.core.decision.gate import Gate
from extauthz.core.intake.rewritten import rewritten
from extauthz.core.model import Decision, Lower, Question, Request
from extauthz.servers.lowering import Lowered
from extauthz.service.deciding import Deciding, Underway

MAX_WARNING: Final = 120
"""Characters. An API server passes on more, and advises against it."""


class Clamping:
    """Answers servers that can change a write. Never raises: where anything goes wrong, the write stays as it is.

    Args:
        deciding: brings questions to the gate, and tells observers of each write that is lowered.
        is_terse: clients learn no name of a quota.
    """

    def __init__(self, gate: Gate, deciding: Deciding, *, is_terse: bool) -> None:
        self._gate = gate
        self._deciding = deciding
        self._is_terse = is_terse
        self.asked = False
        """Somebody has."""

    async def body(self, request: Request) -> Lowered | None:
        """The body to send in place of the one that came; ``None``: send it as it is."""
        return await self._lowered(request)

    async def review(self, question: Question) -> Lowered | None:
        """The count to store in place of the one that is asked for; ``None``: leave it as it is."""
        return await self._lowered(question)

    async def _lowered(self, question: Request | Question) -> Lowered | None:
        self.asked = True
        try:
            asked = self._deciding.asked(question)
            found = await self._deciding.fetched(self._clamped(asked), lambda: self._clamped(asked))
            if found is None or not isinstance(found.todo, Lower):
                return None
            count, version = found.todo
            body = rewritten(question, count, version) if isinstance(question, Request) else b""
            if body is None:
                return None
            self._deciding.tell(found, asked)
            return Lowered(count, self._warning(found, count), body)
        except Exception:  # noqa: BLE001 (whatever it is, the write goes on to be decided)
            self._deciding.event("error", "clamp-failed", traceback=traceback.format_exc())
            return None

    def _clamped(self, asked: Underway) -> Decision | None:
        reading, now_s = self._deciding.reading(asked), self._deciding.clock()
        return self._gate.clamp(reading, asked.id, now_s, source=asked.source, requester=asked.requester)

    def _warning(self, found: Decision, count: int) -> str:
        what = f"replicas lowered from {found.replicas} to {count}: "
        if self._is_terse:
            return f"{what}a workspace quota has no more room (decision {found.id})"
        short = found.evidence.shortages[0]
        return texts.cut(f"{what}no more {short.resource} in workspace quota {short.quota}", MAX_WARNING)
