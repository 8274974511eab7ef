"""A consistent read settles what was answered before its end, though it shows only what had landed at its start."""

import asyncio

from extauthz.core.ledger.pending_writes import PendingWrites

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
FAULTS = "lag"
OFTEN = {"hold-watch": 4.0, "rollout": 0.0, "remake": 0.0, "patch": 0.0}
PACE = (0.05,)
STEPS = 80
WORDS = ("deploy",)


def read(self, ref, started_s):
    return original(self, ref, asyncio.get_running_loop().time())


original = PendingWrites.read


def planted():
    return replaced(PendingWrites, read=read)
