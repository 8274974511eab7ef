"""A directive in a patch is read as if it touched nothing: a count that it drops is not seen to become one."""

from extauthz.core.effects import outcome

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
FAULTS = "spelled,late"
STEPS = 100
WORDS = ("deploy", "sts")
OFTEN = {"copy": 0.0, "directive": 12.0, "rollout": 0.0, "remake": 0.0, "patch": 0.0}


def paths(patch):
    return (path for path in original(patch) if path != ("spec",))


original = outcome._paths


def planted():
    return replaced(outcome, _paths=paths)
