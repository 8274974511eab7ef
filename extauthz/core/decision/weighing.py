"""What a write takes of every quota that covers the workload, and whether there is room for it."""

from __future__ import annotations

from extauthz.core.decision import sentences
from extauthz.core.decision.evaluation import Evaluation
from extauthz.core.model import Decision, Verdict

EXCEEDED = "exceeded-quota"


def weighed(asked: Evaluation) -> None:
    """Step: what it takes. A write that grows nothing passes whatever quotas say."""
    asked.propose()
    if asked.proposal.grows:
        return
    if asked.proposal.after.envelope_in:
        asked.reason, asked.why = "no-growth", "grows nothing"
    else:
        asked.reason, asked.why = "no-quota", "no quota covers this workload"


def exceeded(asked: Evaluation) -> Decision | None:
    """Step: some quota has no room for what grows."""
    proposal, pending_write, ledger = asked.proposal, asked.pending_write, asked.state.ledger
    if not proposal.shortages:
        return None
    fits = ledger.largest_replicas(asked.ref, pending_write, proposal)
    sentence = sentences.exceeded(asked.write.ref, proposal.shortages, fits, ledger.surge(proposal, pending_write))
    short, audit = proposal.shortages, proposal.audit
    return asked.answer(Verdict.DENY, EXCEEDED, sentence, pending_write.replicas, short, audit, fits)
