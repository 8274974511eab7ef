"""Of expressions only those are asked that give true or false."""

from extauthz.core.decision import policing

from .planting import replaced

CAUGHT_BY = "no policy is passed over"
LEDGER = "memory"
FAULTS = "policies"
OFTEN = {"policy": 4.0}


def planted():
    return replaced(
        policing, _limited=lambda asked, proposal, grounds, growth, values: policing._Answers(grounds, None)
    )
