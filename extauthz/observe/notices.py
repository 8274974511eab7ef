"""Says when there is something to tell receivers: one notice an episode, of a workload or of a quota.

A decision costs it a look-up and at most one entry in a bounded queue. Notices are made afterwards, by a task, one at a
time with a chance for others in between, and handed to whoever delivers them.
"""

from __future__ import annotations

import asyncio
import json
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from cachetools import LRUCache

from extauthz.core.ledger.accounts import UsageRow
from extauthz.core.model import Decision, Observed, Tree, Verdict
from extauthz.core.queries import Queries
from extauthz.core.quota.tree import QuotaNode
from extauthz.notify.notice import Kind, Notice, stamp
from extauthz.notify.receivers import Receiver
from extauthz.observe import notice_data
from extauthz.observe.episodes import Ended, Episode, Episodes
from extauthz.observe.log import Tell
from extauthz.observe.observers import Told
from extauthz.observe.outlook import outlook
from extauthz.observe.quota_facts import in_slices
from extauthz.observe.quota_status import WITHIN_HARD, Facts

TICK_S: Final = 1.0
"""How late room is told. A refusal is told at once."""

SWEEP_S: Final = 5.0
"""How late it is told that a quota is over."""

MOST_GRANTS: Final = 10_000
"""Grants that wait to be told: at 3,000 decisions a second those of three seconds."""

NOBODY: Final = "-"
"""In place of a receiver's name, where something was dropped before it was known whom to tell."""

OVERFLOW: Final = "overflow"


class _Grant(NamedTuple):
    decision: Decision
    observed: Observed | None
    user: str
    user_agent: str
    at_s: float


class _Over(NamedTuple):
    facts: Facts
    anchor: str


class Notices:
    """Makes notices.

    Args:
        receivers: all that the configuration names.
        put: queues a notice for receivers of these names. Does no I/O.
        is_known: whether quotas and usage are known and current.
        sweeps: looks by itself which quotas are over. If not, whoever writes their status tells (``status_written``).
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        queries: Queries,
        receivers: Iterable[Receiver],
        put: Callable[[Notice, Iterable[str]], None],
        *,
        tell: Tell,
        is_known: Callable[[], bool],
        sweeps: bool,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._queries = queries
        self._outlook = outlook(queries, is_known)
        self._receivers = {one.name: one for one in receivers}
        self._by_default = frozenset(one.name for one in self._receivers.values() if not one.named)
        self._wants_grants = frozenset(one.name for one in self._receivers.values() if one.grants)
        self._put = put
        self._tell = tell
        self._is_known = is_known
        self._sweeps = sweeps
        self._clock = clock
        self._episodes: Episodes[None] = Episodes()
        self._audits: Episodes[None] = Episodes(audits=True)
        self._grants: deque[_Grant] = deque()
        self._granted: LRUCache[tuple[str, ...], bool] = LRUCache(MOST_GRANTS)
        """Keys of grants that were told, or wait to be."""
        self._over: set[str] = set()
        """Quotas that were over at the last look."""
        self._over_written: deque[_Over] = deque()
        """Quotas whose status says so since a moment ago; at most one each."""
        self._grants_dropped = self._dropped_told = 0
        self._wake = asyncio.Event()

    @property
    def dropped(self) -> int:
        """Notices that were never made: there was too much to tell at once."""
        return self._episodes.dropped + self._audits.dropped + self._grants_dropped

    # What happens. None of these waits for anything.

    def decided(self, told: Told) -> None:
        """Take note of a decision. Does no I/O."""
        decision, now_s = told.decision, self._clock()
        is_due = self._episodes.decided(decision, now_s)
        if self._audits.decided(decision, now_s) or is_due:
            self._wake.set()
        if self._wants_grants and _grows(decision):
            self._grant(told, now_s)

    def _grant(self, told: Told, now_s: float) -> None:
        decision = told.decision
        assert decision.ref is not None, "it grows"
        observed = self._queries.observed(decision.ref)
        which = notice_data.grant_key(decision, observed)
        if which in self._granted:
            return
        if len(self._grants) >= MOST_GRANTS:
            self._grants_dropped += 1
            return
        self._granted[which] = True
        self._grants.append(_Grant(decision, observed, told.user, told.user_agent, now_s))
        self._wake.set()

    def status_written(self, facts: Facts, status: Tree) -> None:
        """A quota's status was written. The gate that writes that a quota is over is the one that tells."""
        now = _within_hard(status)
        if now.get("status") == "False" and _within_hard(json.loads(facts.standing.status)).get("status") != "False":
            self._over_written.append(_Over(facts, f"{facts.standing.uid} {now['lastTransitionTime']}"))
            self._wake.set()

    # What is told.

    async def run(self) -> None:
        """Tell for ever. Ends by cancellation."""
        async with asyncio.TaskGroup() as group:
            if self._sweeps:
                group.create_task(self._sweep())
            while True:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), TICK_S)
                self._wake.clear()
                await self.tell()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            await self.look()

    async def tell(self) -> None:
        """Hand over all that there is to tell."""
        for make in self._due():
            self._safely(make)
            await asyncio.sleep(0)
        more = self.dropped - self._dropped_told
        if more:
            why = "too many workloads are refused, or grow, at once"
            self._tell("error", "notice-dropped", receiver=NOBODY, result=OVERFLOW, why=why, notices=more)
            self._dropped_told += more

    def _due(self) -> Iterator[Callable[[], None]]:
        """Steps that tell one thing each."""
        now_s = self._clock()
        for episodes in (self._episodes, self._audits):
            for episode in episodes.due(now_s):
                is_new = not episode.told
                episodes.told(episode, episode.count, now_s)
                if is_new:
                    yield partial(self._begun, episode)
        self._audits.take_ended()
        self._episodes.look(self._outlook)
        for end in self._episodes.take_ended():
            if end.good_news and end.episode.told:
                yield partial(self._ended, end)
        while self._grants:
            yield partial(self._tell_grant, self._grants.popleft())
        while self._over_written:
            one = self._over_written.popleft()
            yield partial(self._tell_over, one.facts.standing.name, one.facts.rows, one.anchor)

    def _safely(self, make: Callable[[], None]) -> None:
        try:
            make()
        except Exception:  # noqa: BLE001 (whatever it is, decisions and other notices go on)
            self._tell("error", "notice-failed", traceback=traceback.format_exc())

    def _begun(self, episode: Episode[None]) -> None:
        nodes = self._queries.workspaces(episode.ref)
        observed = self._queries.observed(episode.ref)
        self._send(notice_data.begun(episode, observed, _names(nodes)), nodes)

    def _ended(self, end: Ended[None]) -> None:
        ref = end.episode.ref
        nodes, headroom = self._queries.workspaces(ref), self._queries.headroom(ref)
        fits = headroom.replicas if headroom is not None else None
        notice = notice_data.ended(end, self._queries.observed(ref), fits, _names(nodes), self._clock())
        self._send(notice, nodes)

    def _tell_grant(self, grant: _Grant) -> None:
        assert grant.decision.ref is not None, "it grows"
        nodes = self._queries.workspaces(grant.decision.ref)
        self._send(
            notice_data.granted(
                grant.decision, grant.observed, grant.user, grant.user_agent, _names(nodes), grant.at_s
            ),
            nodes,
        )

    def _tell_over(self, name: str, rows: Sequence[UsageRow], anchor: str) -> None:
        use = self._queries.quota(name)
        if use is not None:
            path = "/".join(use.node.path)
            self._send(notice_data.over(name, path, rows, anchor, self._clock()), [use.node])

    def _send(self, notice: Notice, nodes: Iterable[QuotaNode]) -> None:
        names = self._whom(nodes)
        self._put(notice, sorted(names & self._wants_grants if notice.kind is Kind.GRANTED else names))

    def _whom(self, nodes: Iterable[QuotaNode]) -> set[str]:
        """Those that the workspaces name. A workspace that names none has those by default."""
        said = [self._by_default if node.notify is None else node.notify for node in nodes] or [self._by_default]
        return {name for names in said for name in names if name in self._receivers}

    async def look(self) -> None:
        """Find quotas that are over and were not at the last look."""
        if not self._is_known():
            return
        found = [use for use in await in_slices(self._queries.quotas()) if any(row.used > row.hard for row in use.rows)]
        before, self._over = self._over, {use.node.quota.name for use in found}
        for use in found:
            if use.node.quota.name not in before:
                self._safely(partial(self._tell_over, use.node.quota.name, use.rows, stamp(self._clock())))
                await asyncio.sleep(0)


def _grows(decision: Decision) -> bool:
    """A count that was allowed, that is higher than the one that is observed, and that costs something."""
    return (
        decision.verdict is Verdict.ALLOW
        and decision.would is None
        and not decision.dry_run
        and decision.grows
        and decision.ref is not None
        and decision.replicas is not None
        and decision.replicas_before is not None
        and decision.replicas > decision.replicas_before
    )


def _names(nodes: Iterable[QuotaNode]) -> list[str]:
    return [node.quota.name for node in nodes]


def _within_hard(status: Tree) -> Tree:
    """That condition of a status; empty: it is not there."""
    return next((one for one in status.get("conditions", ()) if one.get("type") == WITHIN_HARD), {})
