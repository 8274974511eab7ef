"""A dry run stands in line, as a write does."""

from extauthz.core.decision import turns

from .planting import replaced

CAUGHT_BY = "the line is right"
LEDGER = "memory"
FAULTS = "turns"


def planted():
    answered = turns.answered
    return replaced(
        turns, answered=lambda lines, decision, now_s: answered(lines, decision._replace(dry_run=False), now_s)
    )
