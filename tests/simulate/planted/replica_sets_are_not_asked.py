"""Every ReplicaSet is taken for a Deployment's, whose controller asks nobody: growth of one that stands alone is not
charged."""

from extauthz.core.decision.gate import Gate

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
FAULTS = "none"
WORDS = ("rs", "deploy")


def evaluation(self, write, decision_id, now_s, source, charge, requester):
    counted = charge and write.ref.resource != "replicasets"
    return original(self, write, decision_id, now_s, source, counted, requester)


original = Gate._evaluation


def planted():
    return replaced(Gate, _evaluation=evaluation)
