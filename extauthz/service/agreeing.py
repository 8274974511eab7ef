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
        """Nothing can be had before ``follow``."""

    async def follow(self) -> None:
        """Follow for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._committer.run())
            await self.known.wait()
            self._metrics.reload(self.name, "ok", time.time())

    def missing(self) -> list[str]:
        """Its list, if that is not in."""
        return [] if self.known.is_set() else ["workspaceledgers.extauthz.dev has not been listed yet"]

    def notes(self) -> list[str]:
        """Whether the ledger keeps growth back."""
        return self._committer.notes()

    def stale(self) -> None:
        """A grant is written before it is answered: what is out of date shows then."""

    def watches(self) -> Iterator[Watch]:
        """None that an operator has to look at: a write fails where its watch lags."""
        yield from ()
