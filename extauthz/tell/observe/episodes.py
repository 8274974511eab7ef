"""When a workload is blocked by its quota, from the first refusal until it may grow: pure, time comes in.

An autoscaler asks again every few seconds, for hours. So the owner gets one event for each *episode*: when it begins,
with a count that is updated rarely, and when it is over.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from extauthz.core import texts
from extauthz.core.decision import sentences
from extauthz.core.decision.sentences import subject
from extauthz.core.decision.weighing import EXCEEDED
from extauthz.core.fitting import Decide, most_granted, scaled
from extauthz.core.model import NOT_ITS_TURN, WOULD_REFUSE, Decision, Lower, Verdict, WorkloadRef
from extauthz.core.queries import Queries
from extauthz.tell.observe.autoscalers import Subject
from extauthz.tell.observe.observers import Report

# What a refused write would get now, without anybody asking again: for episodes, whose numbers are today's.


WouldGetNow: TypeAlias = Callable[[Decision], Decision | None]
"""``None``: its workload is gone. Else an allowance, or the refusal with today's numbers."""

FITS: Final = "fits"


def would_get_now(queries: Queries, is_known: Callable[[], bool], decide: Decide | None = None) -> WouldGetNow:
    """By what is in memory.

    Args:
        is_known: whether the quotas and the cluster are known and current. If not, a refusal stays what it was.
        decide: says what is left for it by turns and policies; ``None``: quotas alone tell
            how many would fit.
    """

    def now(refused: Decision) -> Decision | None:
        if refused.ref is None or not is_known():
            return refused
        if queries.observed(refused.ref) is None:
            return None
        if refused.reason != EXCEEDED or refused.replicas is None:
            return refused  # of others only the next request can tell
        found = queries.growth(refused.ref, refused.replicas, {row.quota for row in refused.evidence.shortages})
        if not found.is_certain:
            return refused
        if not found.shortages:
            evidence = refused.evidence._replace(shortages=())
            return refused._replace(verdict=Verdict.ALLOW, reason=FITS, evidence=evidence)
        fits, ref = found.fits, refused.ref
        if decide is not None and fits is not None:
            fits, _ = most_granted(lambda count: decide(scaled(ref, count)), found.observed, fits)
        is_kept = fits != found.fits
        sentence = sentences.exceeded(ref, found.shortages, fits, 0, is_kept=is_kept)
        evidence = refused.evidence._replace(shortages=found.shortages, fits=fits, never_fits=found.never_fits)
        return refused._replace(sentence=sentence, replicas_before=found.observed, evidence=evidence)

    return now


MAX_OPEN = 10_000
"""Episodes at once, about 1 KiB each. Others are not told."""

MAX_ENDED = 1_000
"""Of those that ended, kept for whoever tells of them."""

UPDATE_S = 600.0
"""Time between two updates of a count. An event lives longer: API servers keep it for an hour after the last write."""

RETRY_S = 60.0
"""Time to wait after an event could not be written."""

SILENCE_S = 1500.0
"""After this long without a request the episode is over."""

AT_ONCE = 100
"""Episodes of one look. One takes some 50 µs, and a decision waits for it."""

_NO_GROWTH = frozenset({"no-growth", "zero"})
"""Reasons of decisions that say nothing about room."""

_GOOD_NEWS: Final = {EXCEEDED: "its workspace quota has room again", NOT_ITS_TURN: "its turn has come"}


@dataclass(slots=True)
class Note:
    """One object with an event about an episode."""

    about: Subject
    name: str = ""
    """Of the event; empty until it is written."""


@dataclass(slots=True, eq=False)
class Episode:
    """One workload that may not grow. Times are seconds since the epoch."""

    ref: WorkloadRef
    began_s: float
    """Time of the first refusal."""
    last_s: float
    due_s: float
    """When its event is due."""
    sentence: str
    """Of the first refusal."""
    latest: Decision
    """The last refusal, with today's numbers."""
    audits: bool
    """It is of writes that quotas in mode Audit would have refused. It ends when nobody asks."""
    lowered: bool
    """It began with a count that was lowered."""
    refused: bool = False
    """Something was refused, and not only lowered."""
    count: int = 0
    told: int = 0
    """The count that was written last."""
    notes: list[Note] = field(default_factory=list)
    """What has been written about the episode."""


class Ended(NamedTuple):
    """An episode that is over."""

    episode: Episode
    good_news: str
    """A sentence if there is room again; empty if nobody asks any more."""


class Episodes:
    """All open episodes of one gate: for its page, API and metrics, and for events."""

    def __init__(self, most: int = MAX_OPEN) -> None:
        self._most = most
        self._open: dict[tuple[WorkloadRef, bool], Episode] = {}
        """By workload; one more where quotas in mode Audit would refuse it."""
        self.ended: deque[Ended] = deque(maxlen=MAX_ENDED)
        """Whoever tells of them takes them."""

    def __len__(self) -> int:
        return len(self._open)

    def refused(self) -> list[Episode]:
        """Those of workloads that are refused and go on asking, those first that began first."""
        found = (one for one in self._open.values() if one.refused and not one.audits)
        return sorted(found, key=lambda episode: episode.began_s)

    def decided(self, decision: Decision, now_s: float) -> None:
        """Take a decision.

        A count that was lowered begins one too, and the refusals that follow belong to it.

        Dry runs, audit by the setting, and refusals as unavailable begin no episode. Nor does a create: its author
        reads the answer, and its object does not exist.
        """
        ref, audits = decision.ref, decision.reason == WOULD_REFUSE
        if ref is None or decision.dry_run:
            return
        if (audits or decision.verdict is Verdict.DENY) and decision.replicas_before is not None:
            self._refused(ref, decision, now_s, audits=audits)
        if self._open and (ref, False) in self._open:
            self._allowed(ref, decision)

    def _refused(self, ref: WorkloadRef, decision: Decision, now_s: float, *, audits: bool) -> None:
        episode, lowers = self._open.get((ref, audits)), isinstance(decision.todo, Lower)
        if episode is None:
            if len(self._open) >= self._most:
                return
            episode = Episode(ref, now_s, now_s, now_s, decision.sentence, decision, audits, lowers)
            self._open[ref, audits] = episode
        episode.count += 1
        episode.last_s, episode.latest = now_s, decision
        episode.refused = episode.refused or not lowers

    def _allowed(self, ref: WorkloadRef, decision: Decision) -> None:
        """It is over when as much is allowed as was refused last. Less may be somebody else's wish."""
        episode = self._open[ref, False]
        if decision.verdict is not Verdict.ALLOW or not _reaches(decision, episode.latest.replicas):
            return
        to = f" to {decision.replicas} replicas" if decision.replicas is not None else ""
        times = "once" if episode.count == 1 else f"{episode.count} times"
        why = _GOOD_NEWS.get(episode.latest.reason, "nothing refuses it any more")
        self._end(episode, f"{subject(ref)} may grow{to}: {why}, after it was refused {times}")

    def look(self, would_get_now: WouldGetNow, now_s: float) -> None:
        """End those that nobody asks about any more. Look at the next ones, whether anybody asks again or not: one
        whose workload is gone, or whose write would be granted, is over; of others the numbers are brought up to date.

        At most ``AT_ONCE`` are looked at. The next look goes on where this one has ended.
        """
        for episode in [one for one in self._open.values() if now_s - one.last_s >= SILENCE_S]:
            self._end(episode, "")
        for key in list(islice(self._open, AT_ONCE)):
            episode = self._open[key] = self._open.pop(key)  # to the end of the line
            now = would_get_now(episode.latest) if not episode.audits else episode.latest
            if now is None:
                self._end(episode, "")
            elif episode.audits or now.verdict is Verdict.DENY:
                episode.latest = now
            else:
                self._allowed(episode.ref, now)

    def due(self, now_s: float) -> list[Episode]:
        """Episodes whose event is due now."""
        return [one for one in self._open.values() if one.due_s <= now_s and one.count > one.told]

    def told(self, episode: Episode, count: int, now_s: float, *, well: bool = True) -> None:
        """``count`` of an episode was written, or could not be."""
        if well:
            episode.told = count
        episode.due_s = now_s + (UPDATE_S if well else RETRY_S)

    def _end(self, episode: Episode, news: str) -> None:
        del self._open[episode.ref, episode.audits]
        if not episode.audits:  # else nothing was held, and nothing goes on
            self.ended.append(Ended(episode, news))


def _reaches(decision: Decision, asked: int | None) -> bool:
    """Whether it allows growth; for a count: as much as was ``asked`` for."""
    if decision.reason in _NO_GROWTH:
        return False
    if asked is None or decision.replicas is None:
        return asked is decision.replicas
    return decision.replicas >= asked


# The last decisions about workloads, and which workloads are refused now, for the HTTP API.
#
# Both are of this gate alone, and are gone when it ends. Both are bounded in number and in bytes.

MOST = 10_000
"""Decisions that are kept."""

MOST_BYTES = 16 << 20
"""Memory of the decisions that are kept, about."""

MAX_USER_AGENT = 200


class Noted(NamedTuple):
    number: int
    """Counts up. A list goes on by it."""
    time_s: float
    """Seconds since the epoch."""
    decision: Decision
    user: str
    """Who sent it, as the API server has authenticated them. Empty: not known."""
    user_agent: str
    bytes: int
    """What it takes of memory, about."""


class Recent:
    """Takes note of decisions. One costs a few microseconds."""

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        most: int = MOST,
        most_bytes: int = MOST_BYTES,
        would_get_now: WouldGetNow = lambda refused: refused,
    ) -> None:
        self._would_get_now = would_get_now
        self._clock = clock
        self._most = most
        self._most_bytes = most_bytes
        self._noted: deque[Noted] = deque()
        self._bytes = 0
        self._number = 0
        self.blocked = Episodes()

    def decided(self, told: Report) -> None:
        """Note a decision. What is about no workload is not kept, nor what was only asked (mode Clamp)."""
        decision, user, user_agent = told.decision, told.user, told.user_agent
        now_s = self._clock()
        self.blocked.decided(decision, now_s)
        if decision.ref is None or isinstance(decision.todo, Lower):
            return
        self._number += 1
        user, user_agent = texts.cut(user, texts.MAX_NAME), texts.cut(user_agent, MAX_USER_AGENT)
        noted = Noted(self._number, now_s, decision, user, user_agent, _size(decision, user, user_agent))
        self._noted.append(noted)
        self._bytes += noted.bytes
        while len(self._noted) > self._most or self._bytes > self._most_bytes:
            self._bytes -= self._noted.popleft().bytes

    def decisions(self, before: int | None = None) -> Iterator[Noted]:
        """Those that are kept, newest first; ``before``: only those with a lower number."""
        return (one for one in list(reversed(self._noted)) if before is None or one.number < before)

    def episodes(self) -> list[Episode]:
        """Workloads that are refused and go on asking, those first that have waited longest."""
        return self.blocked.refused()

    def tick(self) -> None:
        """End episodes that are over, and bring the numbers of others up to date."""
        self.blocked.look(self._would_get_now, self._clock())


def _size(decision: Decision, user: str, user_agent: str) -> int:
    """Bytes at most, about: a record of small things, its texts, and its rows. A character takes up to four."""
    evidence = decision.evidence
    _, resource, namespace, name = decision.ref or ("", "", "", "")
    texts_have = len(decision.sentence) + len(resource) + len(namespace) + len(name) + len(user) + len(user_agent)
    texts_have += sum(len(row.policy) + len(row.message) for row in evidence.policies)
    rows = len(evidence.shortages) + len(evidence.audit) + len(evidence.unspecified) + len(evidence.policies)
    return 700 + 500 * rows + 4 * texts_have
