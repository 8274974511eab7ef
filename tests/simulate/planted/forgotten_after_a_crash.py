"""A gate that was killed starts again and grants at once, without the pending writes of its earlier life."""

from extauthz.core.decision.cluster_state import ClusterState

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
FAULTS = "crash,late"
WORDS = ("deploy",)
OFTEN = {"rollout": 0.0, "remake": 0.0, "patch": 0.0}


def planted():
    return replaced(ClusterState, hold=lambda self, until_s: None)
