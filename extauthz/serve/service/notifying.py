"""Notices wired: what makes them, what delivers them, and how both start and stop with a gate."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Final

from extauthz import version
from extauthz.core.decision.gate import Gate
from extauthz.core.queries import Queries
from extauthz.core.quota.tree import QuotaTree
from extauthz.serve.service.inputs import Clock
from extauthz.serve.service.settings import KUBERNETES, Settings
from extauthz.tell.notify.receivers import Receiver, parse_all
from extauthz.tell.notify.sending import Delivery, Sender
from extauthz.tell.observe.log import Log
from extauthz.tell.observe.notices import NOBODY, OVERFLOW, Notices
from extauthz.tell.observe.quota_facts import strangers

MOST_ODD: Final = 100
"""Unknown names of one change of quotas that are logged, each in a line."""


class Notifying:
    """The notices of one gate. ``run`` is one more task of it."""

    def __init__(self, settings: Settings, gate: Gate, log: Log, clock: Clock) -> None:
        self.receivers: tuple[Receiver, ...] = parse_all(settings.notify)
        self._signs = settings.notify_keys is not None
        self._log = log
        self._sender = Sender(
            settings.notify_source, settings.notify_keys, settings.ca, user_agent=f"extauthz/{version()}"
        )
        self._delivery = Delivery(self.receivers, self._sender, log.event, clock=clock)
        self.notices = Notices(
            Queries(gate.ledger),
            self.receivers,
            self._delivery.put,
            tell=log.event,
            is_known=lambda: gate.synced and not gate.is_stale,
            sweeps=not (settings.quotas == KUBERNETES and settings.numbers.writes_status),
        )

    def results(self) -> Mapping[tuple[str, ...], int]:
        """What became of notices, by receiver and result."""
        results: dict[tuple[str, ...], int] = dict(self._delivery.results.items())
        if self.notices.dropped:
            results[NOBODY, OVERFLOW] = self.notices.dropped
        return results

    async def run(self) -> None:
        """Make and deliver notices for ever. Ends by cancellation."""
        async with self._sender, asyncio.TaskGroup() as group:
            self._look_at_the_files()
            group.create_task(self.notices.run())
            group.create_task(self._delivery.run())

    async def leave(self) -> None:
        """Deliver what there is, within a bounded time."""
        await self.notices.tell()
        await self._delivery.leave()

    def _look_at_the_files(self) -> None:
        """What a file has wrong is told at the start, and ends nothing: the gate decides without notices, too."""
        for one in self.receivers:
            problem = self._sender.problem(one)
            if problem:
                self._log.event("error", "receiver-unusable", receiver=one.name, why=problem)
            elif not one.slack and not self._signs:
                cure = "set notify-keys, and it can tell our notices from others'"
                self._log.event("warning", "notices-unsigned", receiver=one.name, cure=cure)


def notifying(settings: Settings, gate: Gate, log: Log, clock: Clock) -> Notifying | None:
    """``None``: there is no receiver."""
    return Notifying(settings, gate, log, clock) if settings.notify else None


def names(settings: Settings) -> frozenset[str]:
    return frozenset(one.name for one in parse_all(settings.notify))


def odd(tree: QuotaTree, known: frozenset[str]) -> Iterator[str]:
    """What quotas say of receivers that are none; for sources whose quotas have no status."""
    found = 0
    for node in tree.nodes:
        for sentence in strangers(node.quota.notify or (), known):
            found += 1
            if found <= MOST_ODD:
                yield f'WorkspaceQuota "{node.quota.name}": {sentence}'
    if found > MOST_ODD:
        yield f"{found - MOST_ODD} more names in spec.notify are no receivers of the gates"
