"""Writes the status of every WorkspaceQuota back: only where it has changed, and never faster than it is told to.

Wired by ``service``: ``StatusWriter(connection, gate, lambda: quotas.standings, tell=log.event)``, where ``quotas`` is
the newest ``sources.kubernetes.Quotas``, and its ``run()`` as one more task. Nothing waits for it, and a decision waits
at most for one slice of its look at the gate.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from extauthz.core.decision.gate import Gate
from extauthz.core.ledger.entry import is_newer
from extauthz.core.model import Tree, Unknown
from extauthz.core.queries import Queries
from extauthz.core.quota.problems import Standing, compact
from extauthz.core.quota.spec import API_VERSION, KIND
from extauthz.core.texts import Tell
from extauthz.inputs.kube.connection import ApiError, Unreachable
from extauthz.inputs.kube.resource import Calls
from extauthz.tell.observe.autoscalers import NeverFit
from extauthz.tell.observe.observers import Serving
from extauthz.tell.observe.quota_facts import SLICE, survey
from extauthz.tell.observe.quota_status import CONDITIONS, Facts, last_written, same, status_of

SWEEP_S = 5.0
"""How old a status may be, and the least time between two writes of one."""

WRITES_PER_S = 10.0
"""Of all quotas together: half of what client-go allows a controller by default (``rest.DefaultQPS`` is 5, with bursts
of 10; kube-controller-manager's own is 20)."""

LONGEST_BACKOFF_S = 300.0

HEARTBEAT_S = 300.0
"""After so long a status is written though nothing has changed, so that its age tells whether a gate lives. A kubelet
does the same (``nodeStatusReportFrequency``)."""

HEARTBEATS = 10
"""In one sweep: two a second at most, so that other writes have room. 600 quotas have one each in ``HEARTBEAT_S``."""

HOLD_STEP_S = 10
"""What is left of a hold is said in such steps."""

COLLECTION = f"/apis/{API_VERSION}/workspacequotas"

APPLY = (("fieldManager", "extauthz"), ("force", "true"))
"""Server-side apply, so that keys which a quota no longer has go, and conditions that others add stay."""

_LOST = frozenset({404, 409})
"""The object has gone, or has been written at the same time: the next sweep sees what there is then."""

_LATER = frozenset({401, 403, 408, 429})
"""Refusals, besides 5xx, that have nothing to do with the object: the others of a sweep would meet them too."""


StatusWritten: TypeAlias = Callable[[Facts, Tree], None]
"""What a status was made from, and what it says."""


@dataclass(slots=True)
class _Of:
    """What is known of one quota's status."""

    said: Facts | None = None
    """What it says."""
    answer: tuple[str, bytes] = ("", b"")
    """resourceVersion and status that our last write left: for a while newer than what its source saw."""
    false: tuple[str, ...] = ()
    """Which conditions are False."""
    beat: str = ""
    """When a gate last wrote it, as far as this one knows."""


class StatusWriter:
    """Keeps the ``status`` of all quotas up to date.

    Args:
        standings: the quotas' objects as their source last saw them.
        tell: told ``status-not-written`` once when writing begins to fail, and ``status-written`` when it goes on.
        now: the wall clock, for ``lastTransitionTime``.
        sweep_s: seconds between two looks at the gate.
        writes_per_s: at most so many writes a second.
        wrote: told of each status that was written.
        serving: who asks the gates.
        never_fit: autoscalers that may ask for more than can ever fit, by quota; ``None``: they are not known yet, and
            until then nothing is written.
    """

    def __init__(
        self,
        connection: Calls,
        gate: Gate,
        standings: Callable[[], Iterable[Standing]],
        *,
        tell: Tell,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        sweep_s: float = SWEEP_S,
        writes_per_s: float = WRITES_PER_S,
        wrote: StatusWritten | None = None,
        serving: Callable[[], Serving] = Serving,
        never_fit: Callable[[], NeverFit | None] = dict,
    ) -> None:
        self._connection = connection
        self._gate = gate
        self._queries = Queries(gate.ledger)
        self._standings = standings
        self._tell = tell
        self._now = now
        self._sweep_s = sweep_s
        self._pause_s = 1 / writes_per_s
        self._wrote = wrote
        self._serving = serving
        self._never_fit = never_fit
        self._of: defaultdict[str, _Of] = defaultdict(_Of)
        """By the names of quotas."""
        self._failing = False
        self.results: Counter[str] = Counter()
        """Writes by what became of them: ``written``, ``failed``, ``lost`` (the object has gone or has changed)."""

    async def run(self) -> None:
        """Sweep for ever. Ends by cancellation; what cannot be written is tried again later."""
        wait_s = self._sweep_s
        while True:
            await asyncio.sleep(wait_s)
            done = await self.sweep()
            wait_s = self._sweep_s if done else min(2 * wait_s, LONGEST_BACKOFF_S)

    async def sweep(self) -> bool:
        """Write each status that has changed. False if the API server takes none now: the rest waits.

        With several gates, the first to notice a change writes it, and the others find it written. A gate whose watches
        are stalled writes nothing: it would write old numbers again and again.
        """
        never_fit = self._never_fit()
        if never_fit is None or not self._gate.synced or self._gate.is_stale:
            return True
        seen = await survey(self._queries, self._serving(), never_fit, self._hold_s())
        standings = list(self._standings())
        silent = []
        for number, standing in enumerate(standings, 1):
            facts = seen.get(standing.name, Facts)(self._newest(standing))
            if facts != self._of[standing.name].said:
                if not await self._say(facts):
                    return False
            elif self._is_silent(facts.standing):
                silent.append(facts)
            if number % SLICE == 0:
                await asyncio.sleep(0)
        silent.sort(key=lambda facts: self._of[facts.standing.name].beat)
        for facts in silent[:HEARTBEATS]:
            if not await self._say(facts, beats=True):
                return False
        for name in self._of.keys() - {standing.name for standing in standings}:
            del self._of[name]
        return True

    def _hold_s(self) -> int | None:
        """What is left of a hold, in steps; ``None``: there is none, or nothing is refused for it."""
        until_s = self._gate.hold_until_s
        if until_s is None or Unknown.UNSYNCED in self._gate.policy.allows:
            return None
        left_s = until_s + self._gate.epoch_s - self._now().timestamp()
        return max(math.ceil(left_s / HOLD_STEP_S) * HOLD_STEP_S, 0)

    def _is_silent(self, standing: Standing) -> bool:
        """Whether no gate has written its status for ``HEARTBEAT_S``. What this gate knows of others may be old."""
        due = _text(self._now() - timedelta(seconds=HEARTBEAT_S))
        its = self._of[standing.name]
        if its.beat <= due:
            its.beat = last_written(standing.status)
        return its.beat <= due

    def failing(self) -> Mapping[str, int]:
        """How many quotas there are for which a condition is False, by its type."""
        found = Counter(dict.fromkeys(CONDITIONS, 0))
        for one in self._of.values():
            found.update(one.false)
        return found

    def _newest(self, standing: Standing) -> Standing:
        """The source may lag behind our own write: what that left is then what the object says."""
        version, status = self._of[standing.name].answer
        return standing._replace(version=version, status=status) if is_newer(version, standing.version) else standing

    async def _say(self, facts: Facts, *, beats: bool = False) -> bool:
        """Whether the others of this sweep may be tried. ``beats``: write it even if it says the same."""
        status, its = status_of(facts, _text(self._now())), self._of[facts.standing.name]
        its.false = tuple(one["type"] for one in status["conditions"] if one["status"] == "False")
        if beats or not same(status, facts.standing.status):
            try:
                await self._write(facts.standing.name, status)
            except (ApiError, Unreachable) as error:
                return self._failed(facts, error)
            if self._wrote is not None:
                self._wrote(facts, status)
            await asyncio.sleep(self._pause_s)
        its.said = facts
        return True

    async def _write(self, name: str, status: Tree) -> None:
        body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "status": status}
        path = f"{COLLECTION}/{name}/status"
        content_type = "application/apply-patch+yaml"
        answer = await self._connection.call("PATCH", path, query=APPLY, body=body, content_type=content_type)
        self._of[name].answer = (answer["metadata"]["resourceVersion"], compact(answer["status"]))
        self.results["written"] += 1
        if self._failing:
            self._failing = False
            self._tell("info", "status-written", quota=name)

    def _failed(self, facts: Facts, error: ApiError | Unreachable) -> bool:
        """Whether the others of this sweep may be tried."""
        name = facts.standing.name
        status = error.status if isinstance(error, ApiError) else 0
        if status in _LOST:
            self.results["lost"] += 1
            return True
        self.results["failed"] += 1
        its_own_fault = 400 <= status < 500 and status not in _LATER
        if its_own_fault:
            self._of[name].said = facts  # it would be refused again
            self._of[name].beat = _text(self._now())
        if its_own_fault or not self._failing:
            self._tell("warning", "status-not-written", quota=name, why=str(error))
        self._failing = self._failing or not its_own_fault
        return its_own_fault


def _text(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")
