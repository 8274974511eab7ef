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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple
from uuid import NAMESPACE_URL, UUID, uuid5

from cachetools import LRUCache

from extauthz.core import quantities, texts
from extauthz.core.ledger.accounts import UsageRow
from extauthz.core.model import Decision, Lower, Observed, Tree, Verdict, WorkloadRef
from extauthz.core.queries import Queries, QuotaUse
from extauthz.core.quota.spec import GROUP
from extauthz.core.quota.tree import QuotaNode
from extauthz.core.texts import Tell, stamp
from extauthz.tell.notify.receivers import Notice, NoticeKind, Receiver
from extauthz.tell.observe.autoscalers import NeverFits
from extauthz.tell.observe.episodes import Ended, Episode, Episodes, would_get_now
from extauthz.tell.observe.log import shortage
from extauthz.tell.observe.observers import Report
from extauthz.tell.observe.quota_facts import in_slices
from extauthz.tell.observe.quota_status import (
    MOST_NEVER_FIT,
    NEVER_FITS,
    WITHIN_HARD,
    Facts,
)

# What a notice says: pure functions of decisions, episodes and usage. docs/notices.md has the schema of the data.


MOST_ROWS: Final = 20
"""Of shortages or amounts in one notice. The sentence names them, too."""

MAX_USER_AGENT: Final = 200

_IDS: Final[UUID] = uuid5(NAMESPACE_URL, "https://extauthz.dev/notices")

_HOUR_S: Final = 3600


def begun(episode: Episode[None], observed: Observed | None, workspaces: Sequence[str]) -> Notice:
    """An episode that begins: a refusal, one that mode Audit only reports, or a count that was lowered."""
    latest = episode.latest
    kind = (
        NoticeKind.CLAMPED
        if episode.lowered
        else NoticeKind.REFUSED
        if latest.refusal is not None
        else NoticeKind.WOULD_REFUSE
    )
    replicas = {"from": latest.replicas_before, "asked": latest.replicas}
    if episode.lowered:
        replicas["to"] = latest.todo.to if isinstance(latest.todo, Lower) else None
    else:
        replicas["fits"] = latest.evidence.fits
    data = _of_workload(episode.ref, episode.sentence, workspaces) | {
        "reason": latest.reason,
        "replicas": replicas,
        "shortages": [shortage(row) for row in (*latest.evidence.shortages, *latest.evidence.audit)[:MOST_ROWS]],
    }
    if latest.refusal is not None:
        data["refusal"] = latest.refusal.value
    said = _looked_at(observed, episode.began_s)
    return Notice(_id(kind, _subject(episode.ref), *said), kind, _subject(episode.ref), episode.began_s, data)


def ended(
    end: Ended[None], observed: Observed | None, fits: int | None, workspaces: Sequence[str], now_s: float
) -> Notice:
    """There is room again.

    Args:
        fits: the most replicas that fit now; ``None``: no quota sets a bound.
    """
    episode = end.episode
    most = f"up to {fits} replicas fit now" if fits is not None else "no quota sets a bound now"
    data = _of_workload(episode.ref, f"{end.good_news}; {most}", workspaces) | {
        "replicas": {"from": observed.replicas if observed is not None else None, "asked": episode.asked, "fits": fits},
        "since": stamp(episode.began_s),
        "times": episode.count,
    }
    subject = _subject(episode.ref)
    which = _id(NoticeKind.ROOM, subject, observed.uid if observed is not None else "", stamp(episode.began_s))
    return Notice(which, NoticeKind.ROOM, subject, now_s, data)


def granted(
    decision: Decision,
    observed: Observed | None,
    user: str,
    user_agent: str,
    workspaces: Sequence[str],
    now_s: float,
) -> Notice:
    """A workload grows: who asked, from where, to where."""
    ref = decision.ref
    assert ref is not None, "it grows"
    who = {"user": texts.cut(user, texts.MAX_NAME), "userAgent": texts.cut(user_agent, MAX_USER_AGENT)}
    by = who["user"] or who["userAgent"] or "somebody"
    sentence = f"{_name(ref)} may grow from {decision.replicas_before} to {decision.replicas} replicas, as {by} asked"
    data = _of_workload(ref, sentence, workspaces) | {
        "replicas": {"from": decision.replicas_before, "to": decision.replicas},
        "by": {key: value for key, value in who.items() if value},
    }
    which = _id(NoticeKind.GRANTED, *grant_key(decision, observed))
    return Notice(which, NoticeKind.GRANTED, _subject(ref), now_s, data)


def grant_key(decision: Decision, observed: Observed | None) -> tuple[str, ...]:
    """The same for the same growth, if Envoy and the API server both ask about it, or somebody asks twice."""
    assert decision.ref is not None, "it grows"
    if observed is None or not observed.uid or not observed.resource_version:
        return (decision.id,)
    counts = f"{decision.replicas_before} {decision.replicas}"
    return *decision.ref, counts, observed.uid, observed.resource_version


def over(name: str, path: str, rows: Iterable[UsageRow], anchor: str, now_s: float) -> Notice:
    """A quota that has more in use than a limit.

    Args:
        path: from the root of its tree down to it.
        anchor: tells this episode from others of the same quota.
    """
    found = [row for row in rows if row.used > row.hard]
    amounts = [{"resource": row.resource} | _texts(row, used=row.used, hard=row.hard) for row in found[:MOST_ROWS]]
    said = ", ".join(f"{one['resource']}: used {one['used']}, hard {one['hard']}" for one in amounts)
    sentence = f"workspace quota {path} has more in use than its limits: {said}"
    data: Tree = {
        "sentence": texts.cut(sentence, texts.MAX_SENTENCE),
        "workspaces": [texts.cut(name, texts.MAX_NAME)],
        "amounts": amounts,
    }
    subject = f"workspacequotas.{GROUP}/{name}"
    return Notice(_id(NoticeKind.OVER, subject, anchor), NoticeKind.OVER, subject, now_s, data)


def never_fits(found: NeverFits, workspaces: Sequence[str], now_s: float) -> Notice:
    """An autoscaler may ask for more than a quota can ever give its workload."""
    scaler, ceiling = found.autoscaler, found.ceiling
    needs, most = (quantities.format(one, ceiling.resource) for one in (ceiling.needs, ceiling.most))
    short = {"quota": ceiling.quota, "resource": ceiling.resource, "requested": needs, "hard": most}
    data = _of_workload(found.ref, f"{found.name}: {found.sentence}", workspaces) | {
        "autoscaler": {"kind": scaler.kind, "name": texts.cut(scaler.name, texts.MAX_NAME)},
        "replicas": {"asked": found.asked, "fits": ceiling.fits},
        "shortages": [short | {"used": "0", "reserved": "0"}],
    }
    which = _id(NoticeKind.NEVER_FITS, scaler.uid, found.share, ceiling.quota, ceiling.resource)
    return Notice(which, NoticeKind.NEVER_FITS, _subject(found.ref), now_s, data)


def _of_workload(ref: WorkloadRef, sentence: str, workspaces: Sequence[str]) -> Tree:
    named = {"resource": ref.group_resource, "namespace": ref.namespace, "name": ref.name}
    return {
        "sentence": texts.cut(sentence, texts.MAX_SENTENCE),
        "workspaces": [texts.cut(name, texts.MAX_NAME) for name in workspaces[:MOST_ROWS]],
        "workload": {key: texts.cut(value, texts.MAX_NAME) for key, value in named.items()},
    }


def _looked_at(observed: Observed | None, began_s: float) -> tuple[str, ...]:
    """What several gates know alike of a workload that does not change while it is refused, and the hour."""
    if observed is None or not observed.uid or not observed.resource_version:
        return (stamp(began_s),)
    return observed.uid, observed.resource_version, str(int(began_s) // _HOUR_S)


def _id(kind: NoticeKind, *parts: str) -> str:
    return str(uuid5(_IDS, "\n".join((kind, *parts))))


def _subject(ref: WorkloadRef) -> str:
    return "/".join(texts.cut(part, texts.MAX_NAME) for part in (ref.group_resource, ref.namespace, ref.name))


def _name(ref: WorkloadRef) -> str:
    return f'{ref.group_resource} "{ref.name}" in {ref.namespace}'


def _texts(row: UsageRow, **amounts: int) -> dict[str, str]:
    return {name: quantities.format(amount, row.resource) for name, amount in amounts.items()}


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


class Notices:
    """Makes notices.

    Args:
        receivers: all that the configuration names.
        put: queues a notice for receivers of these names. Does no I/O.
        is_known: whether quotas and usage are known and current.
        sweeps: looks by itself which quotas are over. If not, whoever writes their status tells
            (``status_written``).
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
        self._would_get_now = would_get_now(queries, is_known)
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
        self.ceilings: Callable[[], Mapping[str, Sequence[NeverFits]] | None] = lambda: None
        """Autoscalers whose maximum never fits, by quota. Whoever knows them sets it."""
        self._over: set[str] = set()
        """Quotas that were over at the last look."""
        self._never: dict[str, str] = {}
        """Autoscalers whose maximum never fit at the last look, with how much of it would."""
        self._written: deque[Callable[[], None]] = deque()
        """What statuses say since a moment ago; each writes little."""
        self._grants_dropped = self._dropped_told = 0
        self._wake = asyncio.Event()

    @property
    def dropped(self) -> int:
        """Notices that were never made: there was too much to tell at once."""
        return self._episodes.dropped + self._audits.dropped + self._grants_dropped

    # What happens. None of these waits for anything.

    def decided(self, told: Report) -> None:
        """Take note of a decision. Does no I/O."""
        decision, now_s = told.decision, self._clock()
        is_due = self._episodes.decided(decision, now_s)
        if self._audits.decided(decision, now_s) or is_due:
            self._wake.set()
        if self._wants_grants and _grows(decision):
            self._grant(told, now_s)

    def _grant(self, told: Report, now_s: float) -> None:
        decision = told.decision
        assert decision.ref is not None, "it grows"
        observed = self._queries.observed(decision.ref)
        which = grant_key(decision, observed)
        if which in self._granted:
            return
        if len(self._grants) >= MOST_GRANTS:
            self._grants_dropped += 1
            return
        self._granted[which] = True
        self._grants.append(_Grant(decision, observed, told.user, told.user_agent, now_s))
        self._wake.set()

    def status_written(self, facts: Facts, status: Tree) -> None:
        """A quota's status was written. The gate that writes it is the one that tells what is new in it."""
        before, name = json.loads(facts.standing.status), facts.standing.name
        now = _condition(status, WITHIN_HARD)
        if now.get("status") == "False" and _condition(before, WITHIN_HARD).get("status") != "False":
            anchor = f"{facts.standing.uid} {now['lastTransitionTime']}"
            self._written.append(partial(self._tell_over, name, facts.rows, anchor))
        told = before.get(NEVER_FITS, {})
        for one in facts.never_fit[:MOST_NEVER_FIT]:
            if told.get(one.name) != one.share:
                self._written.append(partial(self._tell_never, one))
        if self._written:
            self._wake.set()

    # What is told.

    async def run(self) -> None:
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
        self._episodes.look(self._would_get_now)
        for end in self._episodes.take_ended():
            if end.good_news and end.episode.told:
                yield partial(self._ended, end)
        while self._grants:
            yield partial(self._tell_grant, self._grants.popleft())
        while self._written:
            yield self._written.popleft()

    def _safely(self, make: Callable[[], None]) -> None:
        try:
            make()
        except Exception:  # noqa: BLE001 (whatever it is, decisions and other notices go on)
            self._tell("error", "notice-failed", traceback=traceback.format_exc())

    def _begun(self, episode: Episode[None]) -> None:
        nodes = self._queries.workspaces(episode.ref)
        observed = self._queries.observed(episode.ref)
        self._send(begun(episode, observed, _names(nodes)), nodes)

    def _ended(self, end: Ended[None]) -> None:
        ref = end.episode.ref
        nodes, headroom = self._queries.workspaces(ref), self._queries.headroom(ref)
        fits = headroom.replicas if headroom is not None else None
        notice = ended(end, self._queries.observed(ref), fits, _names(nodes), self._clock())
        self._send(notice, nodes)

    def _tell_grant(self, grant: _Grant) -> None:
        assert grant.decision.ref is not None, "it grows"
        nodes = self._queries.workspaces(grant.decision.ref)
        self._send(
            granted(grant.decision, grant.observed, grant.user, grant.user_agent, _names(nodes), grant.at_s),
            nodes,
        )

    def _tell_over(self, name: str, rows: Sequence[UsageRow], anchor: str) -> None:
        use = self._queries.quota(name)
        if use is not None:
            path = "/".join(use.node.path)
            self._send(over(name, path, rows, anchor, self._clock()), [use.node])

    def _tell_never(self, found: NeverFits) -> None:
        nodes = self._queries.workspaces(found.ref)
        self._send(never_fits(found, _names(nodes), self._clock()), nodes)

    def _send(self, notice: Notice, nodes: Iterable[QuotaNode]) -> None:
        names = self._whom(nodes)
        self._put(notice, sorted(names & self._wants_grants if notice.kind is NoticeKind.GRANTED else names))

    def _whom(self, nodes: Iterable[QuotaNode]) -> set[str]:
        """Those that the workspaces name. A workspace that names none has those by default."""
        said = [self._by_default if node.notify is None else node.notify for node in nodes] or [self._by_default]
        return {name for names in said for name in names if name in self._receivers}

    async def look(self) -> None:
        """Find quotas that are over, or too small for an autoscaler, and were not at the last look."""
        if not self._is_known():
            return
        uses = await in_slices(self._queries.quotas())
        for make in [*self._newly_over(uses), *self._newly_never()]:
            self._safely(make)
            await asyncio.sleep(0)

    def _newly_over(self, uses: Sequence[QuotaUse]) -> Iterator[Callable[[], None]]:
        found = [use for use in uses if any(row.used > row.hard for row in use.rows)]
        before, self._over = self._over, {use.node.quota.name for use in found}
        for use in found:
            if use.node.quota.name not in before:
                yield partial(self._tell_over, use.node.quota.name, use.rows, stamp(self._clock()))

    def _newly_never(self) -> Iterator[Callable[[], None]]:
        seen = self.ceilings()
        if seen is None:
            return
        found = [one for each in seen.values() for one in each]
        before, self._never = self._never, {one.name: one.share for one in found}
        for one in found:
            if before.get(one.name) != one.share:
                yield partial(self._tell_never, one)


def _grows(decision: Decision) -> bool:
    """A count that was allowed, that is higher than the one that is observed, and that costs something."""
    return (
        decision.verdict is Verdict.ALLOW
        and decision.would is None
        and not decision.dry_run
        and decision.evidence.grows
        and decision.ref is not None
        and decision.replicas is not None
        and decision.replicas_before is not None
        and decision.replicas > decision.replicas_before
    )


def _names(nodes: Iterable[QuotaNode]) -> list[str]:
    return [node.quota.name for node in nodes]


def _condition(status: Tree, kind: str) -> Tree:
    """A condition of a status; empty: it is not there."""
    return next((one for one in status.get("conditions", ()) if one.get("type") == kind), {})
