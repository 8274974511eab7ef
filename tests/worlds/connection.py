"""The connection of one gate to the simulated API server, and the network below it: calls get lost, come late, or are
refused; watches lag."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Container, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from extauthz.core.model import Tree
from extauthz.inputs.kube.clock import ClockCheck
from extauthz.inputs.kube.connection import ApiError, Connection, Query, Unreachable
from extauthz.inputs.kube.lists import loads
from extauthz.inputs.kube.reflector import INITIAL_EVENTS_END
from tests.worlds.loop import VirtualLoop
from tests.worlds.server import ApiServer, Event, copied, split

LATE_AT_MOST_S = 2.5
"""A call whose caller has given up lands within this time."""

SLOW_AT_MOST_S = 0.8
"""How long an answer may be on its way."""


class SimulatedConnection(Connection):
    """A gate's end of it. ``ended`` is set when the gate dies: nothing passes any more."""

    def __init__(self, server: ApiServer, link: Link, loop: VirtualLoop) -> None:
        self._server = server
        self._link = link
        self._loop = loop
        self.calls: Counter[str] = Counter()
        self.clock = ClockCheck()
        self.ended = False
        self.taken = Taken()
        self._streams: list[Stream] = []

    @property
    def server(self) -> str:
        return "simulated"

    def close(self) -> None:
        """Let nothing pass in either direction any more."""
        self.ended = True
        for stream in self._streams:
            stream.close()

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: Tree | None = None,
        content_type: str = "application/json",
        timeout_s: float = 10.0,
    ) -> Tree:
        self.calls[method.lower()] += 1
        answer: asyncio.Future[Tree] = self._loop.create_future()
        if not self.ended:
            self._loop.world.start(self._exchange(method, path, dict(query), body, answer))
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError as error:
            raise Unreachable(f"nothing came within {timeout_s:g} s") from error

    async def _exchange(
        self, method: str, path: str, query: Mapping[str, str], body: Tree, answer: asyncio.Future[Tree]
    ) -> None:
        """Send one request there and back, whoever waits for it."""
        link, odds = self._link, self._link.odds
        chance = link.random.random
        await asyncio.sleep(link.delay_s())
        if self._loop.time() < link.down_until_s or chance() < odds.lost_request:
            link.lost.append(answer)
            return
        if chance() < odds.late:
            await asyncio.sleep(link.random.uniform(0.0, LATE_AT_MOST_S))
        outcome = self._outcome(method, path, query, body, chance() < odds.refused)
        if link.late is not None and method == "GET" and query.keys() <= {"resourceVersion"} and "items" in outcome:
            await link.late.wait()
        slow_s = SLOW_AT_MOST_S * chance() if chance() < odds.slow else 0.0
        await asyncio.sleep(link.delay_s() + slow_s)
        if self._loop.time() < link.down_until_s or chance() < odds.lost_reply:
            outcome = Unreachable("the connection was reset")
        if not answer.done():
            if isinstance(outcome, Exception):
                answer.set_exception(outcome)
            else:
                answer.set_result(outcome)

    def _outcome(self, method: str, path: str, query: Mapping[str, str], body: Tree, refused: bool) -> Any:
        if refused:
            return ApiError(429, "TooManyRequests", "try again later")
        try:
            return self._server.request(method, path, query, body)
        except ApiError as error:
            return error

    async def items(
        self,
        path: str,
        take: Callable[[Tree], object],
        *,
        query: Query = (),
        timeout_s: float = 60.0,
    ) -> Tree:
        answer = await self.call("GET", path, query=[one for one in query if one[0] != "limit"], timeout_s=timeout_s)
        for tree in answer["items"]:
            take(tree)
            await asyncio.sleep(0)
        return answer["metadata"]

    @asynccontextmanager
    async def watch(self, path: str, *, query: Query = (), silence_s: float) -> AsyncIterator[AsyncIterator[Tree]]:
        self.calls["watch"] += 1
        opened: asyncio.Future[Stream] = self._loop.create_future()
        if not self.ended:
            self._loop.world.start(self._open(path, dict(query), silence_s, opened))
        try:
            async with asyncio.timeout(silence_s):
                stream = await opened
                self._streams = [one for one in self._streams if not one.closed] + [stream]
        except TimeoutError as error:
            raise Unreachable(f"nothing came within {silence_s:g} s") from error
        try:
            yield _read(stream)
        finally:
            stream.close()

    async def _open(
        self, path: str, query: Mapping[str, str], silence_s: float, opened: asyncio.Future[Stream]
    ) -> None:
        link = self._link
        await asyncio.sleep(link.delay_s())
        if self._loop.time() < link.down_until_s:
            await asyncio.sleep(1.0)
            if not opened.done():
                opened.set_exception(Unreachable("no connection"))
            return
        if opened.done():
            return
        streams_list = query.get("sendInitialEvents") == "true"
        if streams_list and not link.streams_lists:
            opened.set_exception(ApiError(422, "Invalid", "sendInitialEvents is forbidden"))
            return
        collection = split(path).collection
        try:
            first = [] if streams_list else list(self._server.since(collection, int(query["resourceVersion"])))
        except ApiError as error:
            opened.set_exception(error)
            return
        stream = Stream(self._server, link, self._loop, collection, silence_s, self.taken)
        if streams_list:
            stream.push_list()
        for event in first:
            stream.push(event)
        opened.set_result(stream)


async def _read(stream: Stream) -> AsyncIterator[Tree]:
    """As a gate reads the bytes of a real one."""
    async for event in stream:
        yield loads(json.dumps(event).encode())


BOOKMARK_S = 2.0
"""How often a watch gets a bookmark. Once a minute would only make the world slower."""


@dataclass
class Odds:
    """How often a gate's call fails in which way. All zero: never."""

    lost_request: float = 0.0
    lost_reply: float = 0.0
    late: float = 0.0
    slow: float = 0.0
    """Of an answer, to be some time on its way."""
    refused: float = 0.0
    lag: float = 0.0
    """Probability that an event comes late."""


@dataclass
class Link:
    """The network between one gate and the API server; it outlives the gate's process."""

    random: Random
    odds: Odds = field(default_factory=Odds)
    down_until_s: float = 0.0
    """Until then nothing passes, and events of watches wait."""
    held_until_s: dict[str, float] = field(default_factory=dict)
    """For each collection: until when its events wait."""
    streams: dict[Stream, None] = field(default_factory=dict)
    streams_lists: bool = True
    lost: list[asyncio.Future[Tree]] = field(default_factory=list)
    """Calls whose answer will not come."""
    kept: list[tuple[Stream, Event]] | None = None
    """Events of watches that wait for ``hand_on``; ``None``: they come by themselves."""
    late: asyncio.Event | None = None
    """Lists are read at once, and answered when this is set."""

    def delay_s(self) -> float:
        """One way."""
        return self.random.uniform(0.001, 0.01)

    def heal(self) -> None:
        """Stop all faults."""
        self.odds = Odds()
        for answer in self.lost:
            if not answer.done():
                answer.set_exception(Unreachable("the connection was reset"))

    def drop(self, collection: str = "") -> None:
        """Break the watches of a collection, or all."""
        for stream in [one for one in self.streams if collection in ("", one.collection)]:
            stream.fail(Unreachable("the connection was reset"))

    def hand_on(self, collections: Container[str]) -> None:
        """Bring what waits of some collections, and a bookmark to each of their watches."""
        assert self.kept is not None
        waiting, self.kept = self.kept, []
        for stream, event in waiting:
            if stream.collection in collections:
                stream.bring(event)
            else:
                self.kept.append((stream, event))
        for stream in self.streams:
            if stream.collection in collections:
                stream.bring(None)


class Taken:
    """For each gate: up to which version it has processed its watches."""

    def __init__(self) -> None:
        self._taken: dict[str, deque[tuple[float, int]]] = {}

    def take(self, now_s: float, collection: str, version: int) -> None:
        """Whether all changes of a collection up to ``version`` are processed."""
        taken = self._taken.setdefault(collection, deque(maxlen=256))
        if not taken or taken[-1][1] < version:
            taken.append((now_s, version))

    def at(self, at_s: float, collection: str) -> int:
        """The version that was reached then; 0: not known."""
        return next((version for then_s, version in reversed(self._taken.get(collection, ())) if then_s <= at_s), 0)


class Stream:
    """One open watch: events on their way, in order, and events that have arrived."""

    def __init__(
        self, server: ApiServer, link: Link, loop: VirtualLoop, collection: str, silence_s: float, taken: Taken
    ) -> None:
        self.collection = collection
        self._taken = taken
        self._given = 0
        """The version up to which everything was given out. It is processed when more is asked for."""
        self._server = server
        self._link = link
        self._loop = loop
        self._silence_s = silence_s
        self._came: deque[tuple[Tree | Exception, int]] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._last_at_s = self._heard_s = loop.time()
        self.closed = False
        link.streams[self] = None
        server.watchers.setdefault(collection, []).append(self.push)
        loop.world.start(self._tend())

    def push(self, event: Event) -> None:
        """Send one event."""
        if self._link.kept is not None:
            self._link.kept.append((self, event))
        self._send({"type": event.type, "object": copied(event.object)}, event.version)

    def bring(self, event: Event | None) -> None:
        """An event that was kept arrives; ``None``: a bookmark."""
        if event is not None:
            self._arrive({"type": event.type, "object": copied(event.object)}, event.version)
        else:
            self._arrive(self._bookmark({}), self._server.version)

    def push_list(self) -> None:
        """Send all existing objects, and a mark that these are all."""
        for tree in self._server.objects(self.collection).values():
            self._send({"type": "ADDED", "object": copied(tree)}, 0)
        self._send(self._bookmark({INITIAL_EVENTS_END: "true"}), self._server.version)

    def _bookmark(self, annotations: Mapping[str, str]) -> Tree:
        metadata = {"resourceVersion": str(self._server.version), "annotations": annotations}
        return {"type": "BOOKMARK", "object": {"metadata": metadata}}

    def _send(self, event: Tree, version: int) -> None:
        """``version``: all changes up to there have been sent with it."""
        link, now_s = self._link, self._loop.time()
        if link.kept is not None:
            self._heard_s = now_s
            return
        lag_s = link.delay_s()
        if link.odds.lag and link.random.random() < link.odds.lag:
            lag_s += link.random.uniform(0.0, 1.5)
        held_s = max(link.held_until_s.get(self.collection, 0.0), link.down_until_s)
        self._last_at_s = max(self._last_at_s, now_s + lag_s, held_s)
        self._loop.call_at(self._last_at_s, self._arrive, event, version)

    def _arrive(self, event: Tree | Exception, version: int = 0) -> None:
        if self.closed:
            return
        self._heard_s = self._loop.time()
        self._came.append((event, version))
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def _tend(self) -> None:
        """Send bookmarks, and notice if nothing comes."""
        while not self.closed:
            await asyncio.sleep(BOOKMARK_S)
            if self._loop.time() - self._heard_s > self._silence_s:
                self.fail(Unreachable(f"nothing came for {self._silence_s:g} s"))
            elif not self.closed:
                self._send(self._bookmark({}), self._server.version)

    def fail(self, error: Exception) -> None:
        """The connection breaks: what is on its way is lost."""
        self._arrive(error)
        self.close()

    def close(self) -> None:
        """Send nothing any more."""
        if not self.closed:
            self.closed = True
            self._server.watchers[self.collection].remove(self.push)
            self._link.streams.pop(self, None)

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Tree:
        self._taken.take(self._loop.time(), self.collection, self._given)
        while not self._came:
            if self.closed:
                raise StopAsyncIteration
            self._waiting = self._loop.create_future()
            await self._waiting
        event, self._given = self._came.popleft()
        if isinstance(event, Exception):
            raise event
        return event
