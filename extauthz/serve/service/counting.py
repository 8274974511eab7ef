"""Everything is counted anew where quotas or costs of pods have changed: in slices, beside the work."""

from __future__ import annotations

import asyncio

from extauthz.core.decision.gate import Gate

SLICE = 4
"""Workloads that are counted anew in one turn of the loop: half a millisecond where their costs are new too."""

LOOK_S = 0.005
"""How often somebody who waits for a count looks."""


class Counting:
    """Counts everything anew where quotas or costs have changed, in slices."""

    def __init__(self, gate: Gate) -> None:
        self._usage = gate.ledger.usage
        self._begun = asyncio.Event()
        self._usage.on_count = self._begun.set

    async def run(self) -> None:
        while True:
            await self._begun.wait()
            self._begun.clear()
            while self._usage.count(SLICE):  # noqa: ASYNC110 (it does the counting)
                await asyncio.sleep(0)

    async def whole(self, _: object = None) -> None:
        while self._usage.is_counting:  # noqa: ASYNC110 (not for long)
            await asyncio.sleep(LOOK_S)
