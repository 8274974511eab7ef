"""One write on its way through the chain of a decision, and what may be in doubt about it."""

from __future__ import annotations

from dataclasses import dataclass

from extauthz.core.ledger.entry import Entry
from extauthz.core.model import Decision, Observed, Shortage, Verdict, WorkloadRef, Write


@dataclass(slots=True)
class Question:
    """One write on its way through the chain."""

    id: str
    write: Write
    ref: WorkloadRef
    """Its key in the ledger: a create that leaves its name to the server has one of its own."""
    now_s: float
    charge: bool
    entry: Entry | None
    """What the ledger has of it."""
    observed: Observed | None
    source: str = ""

    @property
    def base(self) -> Observed | None:
        """What the write finds: the object as observed, or as a create under way makes it."""
        if self.observed is not None or self.entry is None or not self.entry.is_known:
            return self.observed
        return self.entry.born

    def answer(
        self,
        verdict: Verdict,
        reason: str,
        sentence: str,
        replicas: int | None = None,
        shortages: tuple[Shortage, ...] = (),
        audit: tuple[Shortage, ...] = (),
        fits: int | None = None,
        intent: str | None = None,
        *,
        pends: bool = False,
    ) -> Decision:
        write = self.write
        before = self.observed.replicas if self.observed is not None else None
        return Decision(
            self.id,
            verdict,
            reason,
            sentence,
            write.ref,
            write.operation,
            write.scale,
            write.dry_run,
            replicas,
            before,
            shortages,
            audit,
            fits,
            intent,
            None,
            pends,
        )
