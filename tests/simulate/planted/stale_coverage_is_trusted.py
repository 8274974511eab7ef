"""A gate that has heard nothing of quotas and namespaces for long allows what no quota covered when it last heard."""

from extauthz.core.decision import unknowns

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
FAULTS = "partition,drop,relabel,comes"
WORDS = ("deploy",)
STEPS = 100
PACE = (0.7,)
OFTEN = {
    "partition": 8.0,
    "drop-watch": 4.0,
    "relabel": 3.0,
    "quota-goes": 2.0,
    "rollout": 0.0,
    "remake": 0.0,
    "patch": 0.0,
}


def planted():
    return replaced(unknowns, _outdated=lambda asked: None)
