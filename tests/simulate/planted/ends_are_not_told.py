"""A policy is not told that a grant has come to nothing."""

from extauthz.core.policies import Fate, Policies

from .planting import replaced

CAUGHT_BY = "nothing leaks"
LEDGER = "memory"
FAULTS = "policies,late"

ended = Policies.ended


def planted():
    def deaf(self, pending_id, fate):
        if fate is not Fate.REFUSED:
            ended(self, pending_id, fate)

    return replaced(Policies, ended=deaf)
