"""The ledger that this gate shares with others, as one more input: known before it serves, followed while it does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from extauthz.cluster.live import Watch
from extauthz.ledger_store.committing import Committer
from extauthz.observe.metrics import Metrics


class LedgerInput:
    """A committer and the store that it follows."""

    name = "ledger"

    def __init__(self, committer: Committer, metrics: Metrics) -> None:
        self._committer = committer
        self._metrics = metrics
        self.known = committer.known
        self.commit = committer.commit

    async def load(self) -> None:
        """Nothing can be loaded before ``follow``."""

    async def follow(self) -> None:
        """Follow for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._committer.run())
            await self.known.wait()
            self._metrics.reload(self.name, "ok", time.time())

    def missing(self) -> list[str]:
        """What is missing: its list, if that is not here yet."""
        return [] if self.known.is_set() else ["workspaceledgers.extauthz.dev has not been listed yet"]

    def notes(self) -> list[str]:
        """Notes for ``/readyz`` if the ledger holds growth back."""
        return self._committer.notes()

    def stale(self) -> None:
        """Never stale: a grant is written before it is answered, and old knowledge shows then."""

    def watches(self) -> Iterator[Watch]:
        """No watches that an operator must look at: a write fails if its watch lags."""
        yield from ()
