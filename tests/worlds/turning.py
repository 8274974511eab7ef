"""The second judge of turns: who stands in line, and who does not, by the answers alone.

It knows no order and no needs. It keeps who was refused for want of room, and says of each line of a gate that

- nobody stands there whom no gate has refused, so a question takes no place, and
- whom this gate has refused a moment ago stands there, unless something has happened since that ends a place, or the
  gate has seen the workload go, or other quotas, and
- where it is nobody's turn but another's, somebody else has been refused.
"""

from __future__ import annotations

from typing import Final

from extauthz.core.decision.gate import Gate
from extauthz.core.decision.weighing import EXCEEDED
from extauthz.core.ledger.line import LEAST_S, SILENT_S
from extauthz.core.model import NOT_ITS_TURN, Decision, Verdict, WorkloadRef
from extauthz.core.quota.tree import QuotaTree

STAYS_S: Final = 2 * LEAST_S
"""For so long no client is taken for silent, however often it asks."""

HEARD_S: Final = 10.0
"""So late a gate may hear that another one has granted a write. The grant ends the place of its workload, although the
gate itself has refused the same write since."""

GONE_S: Final = 2 * SILENT_S
"""After this time nobody remembers a place: what asked one gate is silent there, and then at the others."""


class Turning:
    """Told of answers, and of what ends places."""

    def __init__(self) -> None:
        self._refused: dict[WorkloadRef, float] = {}
        """When a workload was refused last, by any gate."""
        self._granted: dict[WorkloadRef, float] = {}
        """When growth of a workload was granted last, by any gate."""
        self._stands: dict[tuple[str, WorkloadRef], tuple[float, QuotaTree]] = {}
        """The gate and the workload: since when it must stand there, under which quotas."""

    def changed(self) -> None:
        """Quotas, namespaces, or what there is, have changed: who stood in line may not any more."""
        self._stands.clear()

    def answered(self, now_s: float, by: str, gate: Gate, decision: Decision, *, dry: bool) -> str | None:
        """What is wrong with the line of a gate that has answered; ``None``: nothing.

        Args:
            by: the gate, in this life.
        """
        ref = decision.ref
        if ref is not None and not dry:
            self._note(now_s, by, gate, ref, decision)
        others = [one for one, at_s in self._refused.items() if one != ref and now_s - at_s < GONE_S]
        if decision.reason == NOT_ITS_TURN and not others:
            return f"{decision.id} waits for its turn, and nobody else was refused"
        standing = {one for line in gate.ledger.turns.lines.values() for one in line.waiters}
        for one in standing:
            if one not in self._refused:
                return f"{one} stands in line at {by}, and was refused nothing"
        for (gate_name, one), (at_s, tree) in self._stands.items():
            entry = gate.ledger.get(one)
            # A grant ends a place, also one whose client has gone.
            waits = entry is not None and entry.observed is not None and not entry.pending_writes
            is_as_it_was = waits and tree is gate.ledger.coverage.tree
            if gate_name == by and now_s - at_s < STAYS_S and is_as_it_was and one not in standing:
                return f"{one} was refused {now_s - at_s:.1f} s ago by {by}, and does not stand in line there"
        return None

    def _note(self, now_s: float, by: str, gate: Gate, ref: WorkloadRef, decision: Decision) -> None:
        for key in [key for key in self._stands if key[1] == ref]:
            del self._stands[key]
        if decision.verdict is Verdict.ALLOW and decision.evidence.grows:
            self._granted[ref] = now_s
        if decision.verdict is not Verdict.DENY or decision.reason not in (EXCEEDED, NOT_ITS_TURN):
            return
        self._refused[ref] = now_s
        places = [place for place in decision.evidence.places if place.tree in gate.ledger.turns.lines]
        is_granted = now_s - self._granted.get(ref, -HEARD_S) < HEARD_S
        if places and not (decision.evidence.never_fits or is_granted):
            self._stands[by, ref] = now_s, gate.ledger.coverage.tree
