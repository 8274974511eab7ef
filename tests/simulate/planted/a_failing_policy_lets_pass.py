"""An expression that fails is taken for one that has nothing against the growth."""

from extauthz.core.decision import policing

from .planting import replaced

CAUGHT_BY = "no policy is passed over"
LEDGER = "memory"
FAULTS = "policies"
OFTEN = {"policy": 4.0}

weighed = policing._weighed


def planted():
    def lenient(asked, row, nodes):
        found = weighed(asked, row, nodes)
        return found._replace(refuses=found.refuses and row.result == "refused")

    return replaced(policing, _weighed=lenient)
