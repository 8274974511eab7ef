"""Every ReplicaSet is taken for a Deployment's, whose controller asks nobody: growth of one that stands alone is not
charged."""

from extauthz.core.decision.gate import Gate
from extauthz.core.model import Write

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
FAULTS = "none"
WORDS = ("rs", "deploy")


def judge(self, reading, decision_id, now_s, *, source="", charge=True):
    owned = isinstance(reading, Write) and reading.ref.resource == "replicasets"
    return original(self, reading, decision_id, now_s, source=source, charge=charge and not owned)


original = Gate.judge


def planted():
    return replaced(Gate, judge=judge)
