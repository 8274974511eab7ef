"""A clean stop hands over nothing, and the next life trusts that."""

from extauthz.core.decision.gate import Gate

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
FAULTS = "handover,late"
WORDS = ("deploy",)
OFTEN = {"rollout": 0.0, "remake": 0.0, "patch": 0.0}


def planted():
    return replaced(Gate, export_pending_writes=lambda self, now_s: [])
