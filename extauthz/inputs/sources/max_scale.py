"""Asks a platform's own service how many replicas a workload may have (docs/http-source.md)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping

from extauthz.core.decision.bounds import Bounds
from extauthz.core.model import Tree, WorkloadRef
from extauthz.inputs.sources.http import Client, SourceError

# A circuit breaker: after failures nothing is asked for a while, and nobody waits.

FAILURES = 5
"""Failures in a row before it opens. A service that is restarted loses a request or two."""

FIRST_S = 1.0
LONGEST_S = 30.0
"""How long it stays open: twice as long after each trial that failed."""


class Breaker:
    """Closed, open, or half open: then one request is let through as a trial. Times are on one monotonic clock."""

    def __init__(self) -> None:
        self._failures = 0
        self._pause_s = FIRST_S
        self._until_s: float | None = None

    def admits(self, now_s: float) -> bool:
        """Whether a request may be sent. If it is a trial, the next request waits for its result."""
        if self._until_s is None:
            return True
        if now_s < self._until_s:
            return False
        self._until_s = now_s + self._pause_s
        return True

    def succeeded(self) -> None:
        """A request was answered."""
        self._failures, self._pause_s, self._until_s = 0, FIRST_S, None

    def failed(self, now_s: float) -> None:
        """A request was not answered."""
        self._failures += 1
        if self._failures >= FAILURES:
            self._until_s = now_s + self._pause_s
            self._pause_s = min(2 * self._pause_s, LONGEST_S)


MAX_FLIGHTS = 64
"""Requests at once. A service that needs more is too slow, and more requests would not help."""


class MaxScale:
    """Puts answers into ``bounds``. However many wait for a workload, one request is sent for it.

    Args:
        tell: called after every request, sent or not, with its result (``ok`` or a code of ``SourceError``) and why.
    """

    def __init__(
        self,
        client: Client,
        bounds: Bounds,
        tell: Callable[[str, str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.client = client
        self.bounds = bounds
        self.breaker = Breaker()
        self._tell = tell
        self._clock = clock
        self._flights: dict[WorkloadRef, asyncio.Task[None]] = {}

    async def ask(self, ref: WorkloadRef, about: Iterable[tuple[str, str]] = ()) -> None:
        """Get an answer for a workload into ``bounds``, or the knowledge that there is none, within the client's
        timeout. ``about``: what else the service is told."""
        flight = self._flights.get(ref)
        if flight is None:
            flight = self._flights[ref] = asyncio.create_task(
                self._ask(ref, dict(about), busy=len(self._flights) >= MAX_FLIGHTS)
            )
            flight.add_done_callback(lambda _: self._flights.pop(ref))
        await asyncio.shield(flight)  # others may wait for it too

    async def _ask(self, ref: WorkloadRef, about: Mapping[str, str], *, busy: bool) -> None:
        started_s = self._clock()
        try:
            if busy:
                raise SourceError("busy", f"{MAX_FLIGHTS} requests are under way already")
            most = await self._answer({**ref._asdict(), **about}, started_s)
        except SourceError as error:
            self.bounds.failed(ref, self._clock())
            self._tell(error.code, str(error))
        else:
            self.bounds.answered(ref, most, started_s)
            self._tell("ok", "")

    async def _answer(self, query: Mapping[str, str], now_s: float) -> int | None:
        if not self.breaker.admits(now_s):
            raise SourceError("circuit-open", "it has not answered lately, and is not asked for a while")
        try:
            reply = await self.client.get(query)
            most = bound(reply.tree)
        except SourceError:
            self.breaker.failed(self._clock())
            raise
        self.breaker.succeeded()
        return most


def bound(tree: Tree) -> int | None:
    """The bound in an answer; ``None``: there is no bound.

    Raises:
        SourceError: it is none of docs/openapi.yaml.
    """
    if not isinstance(tree, Mapping) or "maxAvailableScale" not in tree:
        raise SourceError("malformed", "its answer has no maxAvailableScale")
    most = tree["maxAvailableScale"]
    if most is None:
        return None
    if type(most) is not int or most < 0:
        raise SourceError("malformed", "maxAvailableScale is neither null nor a whole number from 0 on")
    return most
