"""The gate: what is known, what was allowed, and ``decide``, which answers a write in one synchronous step.

The checks and their order are in ``chain``. Nothing here waits, logs, looks at a clock, or knows of HTTP.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from extauthz.core.decision import chain, clamp, handover, resizing, unknowns
from extauthz.core.decision.auditing import audited
from extauthz.core.decision.bounds import Bounds
from extauthz.core.decision.cluster_state import ClusterState
from extauthz.core.decision.evaluation import Evaluation
from extauthz.core.decision.policy import Policy
from extauthz.core.model import Decision, NotACount, NotAWrite, Reading, Requester, Resize, Verdict, Write


class Gate(ClusterState):
    """Quotas, cluster and ledger behind one ``decide``."""

    def __init__(self, policy: Policy | None = None) -> None:
        super().__init__()
        self.policy = policy if policy is not None else Policy()
        self.ledger.pod_costs.charge_surge = self.policy.charge_surge
        self.bounds: Bounds | None = None
        """Bounds of replicas in addition to quotas; ``None``: there are none."""

    def export_pending_writes(self, now_s: float) -> list[dict[str, object]]:
        """Live pending writes as JSON-ready records, for the next start (design.md L5)."""
        return handover.dump(self.ledger, now_s)

    def import_pending_writes(self, records: Iterable[Mapping[str, object]], now_s: float) -> None:
        """Take over the pending writes of a clean stop.

        Raises:
            HandoverError: a record is not one that ``export_pending_writes`` wrote.
        """
        handover.load(self.ledger, records, now_s)

    # Deciding.

    def decide(
        self,
        reading: Reading,
        decision_id: str,
        now_s: float,
        *,
        source: str = "",
        charge: bool = True,
        requester: Requester | None = None,
    ) -> Decision:
        """Answer a request. With ``charge`` false, the same path is taken and nothing is recorded.

        Args:
            reading: what the request means; ``intake.read`` reads it from HTTP.
            source: who sent it, as the proxy vouches for it; empty: not known.
            requester: who sent it, for quotas that bind some; ``None``: not known.
        """
        self.looks_at(now_s)
        if isinstance(reading, Write):
            decision = chain.first_answer(self._evaluation(reading, decision_id, now_s, source, charge, requester))
        elif isinstance(reading, Resize):
            begin = partial(
                self._evaluation,
                decision_id=decision_id,
                now_s=now_s,
                source=source,
                charge=charge,
                requester=requester,
            )
            decision = resizing.decided(self, reading, begin, now_s)
        elif isinstance(reading, NotAWrite):
            decision = Decision(decision_id, Verdict.ALLOW, reading.code, reading.why)
        elif isinstance(reading, NotACount):
            decision = unknowns.not_a_count(self, self.policy, reading, decision_id, requester)
        else:
            decision = unknowns.unreadable(self, self.policy, reading, decision_id, requester)
        return decision if self.policy.mode == "enforce" else audited(decision)

    def clamp(
        self,
        reading: Reading,
        decision_id: str,
        now_s: float,
        *,
        source: str = "",
        requester: Requester | None = None,
    ) -> Decision | None:
        """What to ask for in place of a write that quotas of mode Clamp have no room for; ``None``: leave it as it is.

        A question: nothing is recorded. The fields ``clamped_to`` and ``version`` say it, unless it ``needs`` something
        first.
        """
        if not isinstance(reading, Write) or not self.ledger.coverage.tree.clamps or self.policy.mode != "enforce":
            return None
        self.looks_at(now_s)

        def evaluation(write: Write) -> Evaluation:
            return self._evaluation(write, decision_id, now_s, source, charge=False, requester=requester)

        return clamp.proposed(evaluation(reading), chain.first_answer, evaluation)

    def _evaluation(
        self, write: Write, decision_id: str, now_s: float, source: str, charge: bool, requester: Requester | None
    ) -> Evaluation:
        ref = write.ref if write.ref.name else write.ref._replace(name=f"#{decision_id}")
        entry = self.ledger.get(ref)
        observed = entry.observed if entry is not None else None
        return Evaluation(
            decision_id, write, ref, now_s, charge, source, requester, entry, observed, self, self.policy, self.bounds
        )
