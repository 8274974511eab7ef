"""An identical retry is charged once more."""

from extauthz.core.ledger.accounts import Step
from extauthz.core.ledger.ledger import Ledger, Proposal

from .planting import replaced

CAUGHT_BY = "never in the way of less"
LEDGER = "memory"
FAULTS = "none"


def propose(self, ref, pending_write, expected=None, known=None):
    proposal = original(self, ref, pending_write, expected, known)
    before = proposal.step.before
    same = any(one.replicas == pending_write.replicas for one in proposal.entry.live_pending_writes())
    if same and pending_write.replicas and proposal.step.after is before and before.pod is not None:
        doubled = before.with_count(2 * pending_write.replicas)
        step = Step(before, doubled, proposal.step.observed_only, doubled)
        return Proposal(proposal.entry, proposal.head, step, self.usage.accounts.weigh(step))
    return proposal


original = Ledger.propose


def planted():
    return replaced(Ledger, propose=propose)
