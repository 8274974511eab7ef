"""The webhook knows a write that Envoy was asked about by its count alone: another template is not charged."""

from dataclasses import replace

from extauthz.core.ledger.ledger import Ledger

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
ENTRANCES = "both"
FAULTS = "late"


def propose(self, ref, pending_write, expected=None, known=None):
    entry = known if known is not None else self.workloads.get(ref)
    others = entry.live_pending_writes() if entry is not None else ()
    if pending_write.precondition.resource_version and any(pending_write.replicas == one.replicas for one in others):
        pending_write = replace(pending_write, templates=(), labels=())
    return original(self, ref, pending_write, expected, known)


original = Ledger.propose


def planted():
    return replaced(Ledger, propose=propose)
