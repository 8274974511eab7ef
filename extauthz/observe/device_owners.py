"""What kinds of owners have the devices of each quota: added up from time to time, as it takes a look at all workloads.

Wired by ``service``: ``run()`` is one more task of a gate.
"""

from __future__ import annotations

import asyncio
from typing import Final

from extauthz.core.queries import Queries
from extauthz.core.resources import is_device
from extauthz.observe.quota_facts import NANOS, SLICE, Level

LOOK_S: Final = 30.0
"""How old the numbers may be."""


class DeviceOwners:
    """Adds up what the workloads of each kind use."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self.used: Level = {}
        """By quota, resource and kind (``jobs.batch``): devices."""

    async def run(self) -> None:
        """Look for ever. Ends by cancellation."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Add all up once, letting decisions pass in between."""
        sums: dict[tuple[str, ...], int] = {}
        limited = any(is_device(row.resource) for row in self._queries.rows())
        for number, (ref, used, nodes) in enumerate(self._queries.charges() if limited else (), 1):
            for key in filter(is_device, used):
                for node in nodes:
                    if key in node.hard:
                        of = node.quota.name, key, ref.group_resource
                        sums[of] = sums.get(of, 0) + used[key]
            if number % SLICE == 0:
                await asyncio.sleep(0)
        self.used = {of: amount / NANOS for of, amount in sums.items() if amount}
