"""Usage is counted from scratch now and then, in small steps beside the work, and what was wrong is repaired."""

from __future__ import annotations

import asyncio

from extauthz.core.decision.gate import Gate
from extauthz.core.ledger.accounts import Difference
from extauthz.tell.observe.log import Log
from extauthz.tell.observe.metrics import Metrics

STEP = 50
"""Workloads that are counted at once: about a millisecond."""

PAUSE_S = 0.004
"""Between two steps: a count takes a fifth of a processor at most, and a million workloads two minutes."""

TOLD = 20
"""Differences in one line of the log; more are counted."""


class Recounting:
    """Counts every ``every_s`` seconds.

    Args:
        every_s: 0: never.
    """

    def __init__(self, gate: Gate, every_s: float, log: Log, metrics: Metrics) -> None:
        self._gate = gate
        self._every_s = every_s
        self._log = log
        self._metrics = metrics

    async def run(self) -> None:
        while self._every_s:
            await asyncio.sleep(self._every_s)
            await self.count()

    async def count(self) -> None:
        steps = self._gate.ledger.usage.repair(STEP)
        try:
            while True:
                next(steps)
                await asyncio.sleep(PAUSE_S)
        except StopIteration as end:
            self._tell(end.value)
        finally:
            steps.close()

    def _tell(self, found: tuple[Difference, ...] | None) -> None:
        if found is None:
            self._metrics.recount("overtaken", 0)
            return
        self._metrics.recount("drifted" if found else "exact", len(found))
        if found:
            lines = [f"{one.quota}: {one.what}: kept {one.kept}, counted {one.counted}" for one in found[:TOLD]]
            self._log.event("error", "drift", differences=lines, all=len(found))
