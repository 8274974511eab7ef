"""What Envoy was asked about is charged once more when the webhook is asked about it."""

from extauthz.core.ledger.accounts import Step
from extauthz.core.ledger.ledger import Ledger, Proposal

from .planting import replaced

CAUGHT_BY = "one write, any entrance"
LEDGER = "memory"
ENTRANCES = "both"
FAULTS = "none"


def propose(self, ref, pending_write, expected=None, known=None):
    proposal = original(self, ref, pending_write, expected, known)
    before = proposal.step.before
    live = proposal.entry.live_pending_writes()
    same = any(one.replicas == pending_write.replicas and not one.precondition.resource_version for one in live)
    if same and pending_write.precondition.resource_version and before.pod is not None:
        doubled = before.with_count(2 * (pending_write.replicas or 0))
        step = Step(before, doubled, proposal.step.observed_only, doubled)
        return Proposal(proposal.entry, proposal.head, step, self.usage.accounts.weigh(step))
    return proposal


original = Ledger.propose


def planted():
    return replaced(Ledger, propose=propose)
