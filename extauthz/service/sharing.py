"""The ledger that this gate shares with others, as one more input: known before it serves, followed while it does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping

from extauthz.cluster.live import Watch
from extauthz.core.decision.gate import Gate
from extauthz.kube.connection import Connection
from extauthz.observe.log import Log
from extauthz.observe.metrics import Metrics
from extauthz.service.live import LiveStateInput
from extauthz.service.settings import Settings
from extauthz.shared.committing import Committer
from extauthz.shared.kubernetes import KubernetesStore
from extauthz.shared.replica import Progress


class Together:
    """How far several sources have come."""

    def __init__(self, parts: tuple[Progress, ...]) -> None:
        self._parts = parts

    def seen(self) -> Mapping[str, int]:
        return {kind: version for part in self._parts for kind, version in part.seen().items()}

    def has_reached(self, kind: str, version: int) -> bool:
        return all(part.has_reached(kind, version) for part in self._parts)


class LedgerInput:
    """WorkspaceLedgers of a cluster."""

    name = "ledger"

    def __init__(
        self,
        connection: Connection,
        gate: Gate,
        progress: Progress,
        state: LiveStateInput,
        settings: Settings,
        log: Log,
        metrics: Metrics,
    ) -> None:
        self._metrics = metrics
        self._committer = Committer(
            gate,
            KubernetesStore(connection),
            progress,
            settings.window_s,
            time.monotonic,
            look=state.read_anew,
            list_anew=state.list_anew,
            holds_new=settings.on_unclean_start == "deny",
            wrote=metrics.ledger_write,
            tell=log.event,
        )
        self.known = self._committer.known
        self.commit = self._committer.commit

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

    def stale(self) -> str | None:
        """A grant is written before it is answered: what is out of date shows then."""
        return None

    def watches(self) -> Iterator[Watch]:
        """None that an operator has to look at: a write fails where its watch lags."""
        yield from ()
