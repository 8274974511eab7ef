"""A grant on its way into the ledger objects."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from extauthz.core.decision import sentences
from extauthz.core.model import Decision, Operation, Request, Verdict

ANEW = -1
"""In place of a count of adoptions: it must be decided anew."""


@dataclass(slots=True, eq=False)
class Waiter:
    """One grant. ``answer`` is set once, with what becomes of it."""

    request: Request
    decision: Decision
    answer: asyncio.Future[Decision]
    left: list[str]
    """Roots whose objects do not hold it yet, in the order in which they are written."""
    adoptions: int
    """``Books.adoptions`` when it was decided, or ``ANEW``."""
    trouble: str = ""
    """Why it is not answered yet."""

    @property
    def namespace(self) -> str:
        """Of its workload. What was decided of one write may rest on another of the same workload, or of its family."""
        return self.decision.ref.namespace if self.decision.ref is not None else ""

    @property
    def remakes(self) -> bool:
        """It would make an object anew that is believed to be there. If that is gone, all of it is growth."""
        decision = self.decision
        creates = not decision.scale and decision.operation in (Operation.CREATE, Operation.APPLY)
        return creates and decision.replicas_before is not None

    def refuse(self, reason: str, why: str) -> None:
        """Answer that it cannot be granted, unless it was answered or nobody waits for it any more."""
        if not self.answer.done():
            self.answer.set_result(refused(self.decision, reason, why))


def refused(decision: Decision, reason: str, why: str) -> Decision:
    """The same write, not granted."""
    sentence = sentences.unavailable(decision.ref, why)
    return decision._replace(verdict=Verdict.UNAVAILABLE, reason=reason, sentence=sentence, intent=None)
