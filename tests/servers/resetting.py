"""A client with many checks under way on one HTTP/2 connection that gives up half of them; spelled by package h2."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import h2.events
from envoy.service.auth.v3.external_auth_pb2 import CheckResponse
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes

from extauthz.serve.servers.ext_authz import SERVICE
from tests.rpc.client import head, prefixed

Question: TypeAlias = tuple[str, int, bytes]
"""Of which workload, how many replicas, and the bytes of the CheckRequest."""

Hear: TypeAlias = Callable[[str, int, Any], None]
"""Workload, replicas, CheckResponse."""

FIRST_WINDOW = 65_535


@dataclass
class _Stream:
    """One check."""

    name: str
    replicas: int
    is_kept: bool
    """The client waits for its answer."""
    body: bytes = b""
    over: bool = False


@dataclass
class Outcome:
    """What became of the checks of one connection."""

    answered: int = 0
    given_up: int = 0
    faults: list[str] = field(default_factory=list)
    """What should not be: no answer to a check that was waited for, or a failure in its place."""


class Resetting:
    """One connection.

    Args:
        hear: is told each answer as it comes, those to checks that were given up too late among them.
    """

    def __init__(self, address: str, choose: random.Random, hear: Hear) -> None:
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._choose = choose
        self._hear = hear
        self._h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self._streams: dict[int, _Stream] = {}
        self._is_done = False
        """The client has ended the connection."""
        self._writer: asyncio.StreamWriter
        self.outcome = Outcome()

    async def ask(self, questions: Sequence[Question], within_s: float) -> Outcome:
        """Ask them all at once. About half are reset, and every eighth connection is cut; which, is drawn."""
        reader, self._writer = await asyncio.open_connection(self._host, self._port)
        self._h2.initiate_connection()
        is_shut = self._choose.random() < 0.5
        if is_shut:  # no room for any answer, for a while
            self._h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 0})
        resets = [asyncio.create_task(self._reset(stream)) for stream in self._open(questions)]
        later = asyncio.create_task(self._later(is_shut=is_shut))
        try:
            async with asyncio.timeout(within_s):
                await self._read(reader)
                await asyncio.gather(later, *resets)
        except TimeoutError:
            waits = [number for number, one in self._streams.items() if one.is_kept and not one.over]
            self.outcome.faults.append(f"no answer and no reset within {within_s:.0f} s: streams {waits}")
        finally:
            for task in (later, *resets):
                task.cancel()
            self._writer.close()
        return self.outcome

    def _open(self, questions: Sequence[Question]) -> list[int]:
        """Send them; the streams that are to be reset."""
        for name, replicas, message in questions:
            number = self._h2.get_next_available_stream_id()
            self._streams[number] = _Stream(name, replicas, self._choose.random() < 0.5)
            self._h2.send_headers(number, head(f"/{SERVICE}/Check"))
            self._h2.send_data(number, prefixed(message), end_stream=True)
        self._write()
        return [number for number, one in self._streams.items() if not one.is_kept]

    async def _reset(self, number: int) -> None:
        await asyncio.sleep(self._choose.choice((0, 0.001, 0.005)))
        if not self._streams[number].over and not self._is_done:
            self._h2.reset_stream(number, 8)
            self._end(number)
            self._write()
            if self._all_over:
                self._is_done = True
                self._writer.close()

    async def _later(self, *, is_shut: bool) -> None:
        """Open the windows, or cut the connection."""
        await asyncio.sleep(self._choose.uniform(0, 0.02))
        if self._is_done:
            return
        if self._choose.random() < 0.125:
            self._is_done = True
            self._writer.transport.abort()
        elif is_shut:
            self._h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: FIRST_WINDOW})
            self._write()

    def _write(self) -> None:
        self._writer.write(self._h2.data_to_send())

    def _end(self, number: int) -> None:
        self._streams[number].over = True
        self.outcome.given_up += not self._streams[number].is_kept

    @property
    def _all_over(self) -> bool:
        return all(one.over for one in self._streams.values())

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while not self._all_over:
            try:
                data = await reader.read(1 << 16)
            except ConnectionError:
                data = b""
            if not data:
                if not self._is_done:
                    self.outcome.faults.append("the gate has ended the connection")
                return
            for event in self._h2.receive_data(data):
                self._take(event)
            self._write()

    def _take(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.DataReceived):
            self._streams[event.stream_id].body += event.data
            self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.TrailersReceived | h2.events.ResponseReceived):
            status = dict(event.headers).get("grpc-status", "0")
            if status != "0":
                self.outcome.faults.append(f"stream {event.stream_id}: grpc-status {status}")
        elif isinstance(event, h2.events.StreamReset):
            self.outcome.faults.append(f"stream {event.stream_id}: reset by the gate, {event.error_code}")
            self._streams[event.stream_id].over = True
        elif isinstance(event, h2.events.StreamEnded):
            one = self._streams[event.stream_id]
            one.over = True
            self.outcome.answered += 1
            self._hear(one.name, one.replicas, CheckResponse.FromString(one.body[5:]))
