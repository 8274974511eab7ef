"""The connection of one gate to the simulated API server: its calls get lost, come late, or are refused."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from extauthz.core.model import Tree
from extauthz.kube.clock import ClockCheck
from extauthz.kube.connection import ApiError, Connection, Query, Unreachable
from extauthz.kube.lists import reading

from .link import Link, Stream, Taken
from .loop import VirtualLoop
from .server import ApiServer, split

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

    def _outcome(self, method: str, path: str, query: Mapping[str, str], body: Tree, refused: bool) -> Any:  # noqa: ANN401
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
        most_bytes: int | None = None,
    ) -> Tree:
        answer = await self.call("GET", path, query=[one for one in query if one[0] != "limit"], timeout_s=timeout_s)
        for tree in answer["items"]:
            take(tree)
            await asyncio.sleep(0)
        return answer["metadata"]

    @asynccontextmanager
    async def watch(
        self, path: str, *, query: Query = (), silence_s: float, form: type | None = None
    ) -> AsyncIterator[AsyncIterator[Tree]]:
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
            yield _read(stream, form)
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


async def _read(stream: Stream, form: type | None) -> AsyncIterator[Tree]:
    """As a gate reads the bytes of a real one."""
    read = reading(form)
    async for event in stream:
        yield read(json.dumps(event).encode())
