"""An apply without a count is taken to leave the count that the gate has seen: no other one, and no default."""

from extauthz.core.effects import resolve

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
FAULTS = "applied,late"
WORDS = ("deploy", "rs")
STEPS = 60
OFTEN = {"apply": 8.0, "rollout": 0.0, "patch": 0.0, "remake": 0.0}


def applied(write, configuration, base, work):
    outcome = original(write, configuration, base, work)
    if base is None or not outcome.keeps_count:
        return outcome
    return outcome._replace(replicas=base.replicas, keeps_count=False)


original = resolve.applied


def planted():
    return replaced(resolve, applied=applied)
