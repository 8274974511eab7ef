"""A TCP relay on loopback between a client and a server: it can cut, fall silent, and refuse."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Relay:
    """Passes bytes on, both ways."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._open: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._speaks = asyncio.Event()
        self._speaks.set()
        self.port = 0
        self.opened = 0
        """Connections taken so far."""

    def cut(self) -> None:
        """End all connections without a goodbye."""
        for writer in self._open:
            writer.transport.abort()

    def mute(self) -> None:
        """From now on nothing comes from the server, on whatever connection."""
        self._speaks.clear()

    def unmute(self) -> None:
        self._speaks.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        self._open.add(writer)
        try:
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        except ConnectionError:  # the server is away: so is the relay
            writer.transport.abort()
            self._open.discard(writer)
            self._serving.discard(task)
            return
        writers = {writer, there_writer}
        self._open |= writers
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass(reader, there_writer, muted=False))
                both.create_task(self._pass(there_reader, writer, muted=True))
        except* ConnectionError:
            pass
        finally:
            self._open -= writers
            for each in writers:
                each.transport.abort()
            await asyncio.gather(*(each.wait_closed() for each in writers), return_exceptions=True)
            self._serving.discard(task)

    async def end(self) -> None:
        self.unmute()
        self.cut()
        await asyncio.gather(*self._serving)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, muted: bool) -> None:
        while chunk := await reader.read(65536):
            if muted:
                await self._speaks.wait()
            writer.write(chunk)
            await writer.drain()
        raise ConnectionResetError("the other side has gone")


@asynccontextmanager
async def relaying(target_port: int) -> AsyncIterator[Relay]:
    relay = Relay(target_port)
    server = await asyncio.start_server(relay.serve, "127.0.0.1", 0)
    relay.port = server.sockets[0].getsockname()[1]
    try:
        yield relay
    finally:
        server.close()
        await relay.end()
