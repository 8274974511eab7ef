"""Serves methods on a free port of 127.0.0.1, as the gate does."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from extauthz.core.ledger.entry import Event
from extauthz.inputs.settlement.answers import Fate, event
from extauthz.serve.rpc import accepting
from extauthz.serve.rpc.frames import Bounds
from extauthz.serve.rpc.heads import Methods
from extauthz.serve.rpc.link import ACCEPTED, HELD_BYTES, Server
from extauthz.serve.servers.access_log import AccessLogs


@asynccontextmanager
async def listening(
    methods: Methods,
    bounds: Bounds | None = None,
    tls: ssl.SSLContext | None = None,
    accepted: accepting.Bounds = ACCEPTED,
    held_bytes: int = HELD_BYTES,
) -> AsyncIterator[tuple[Server, str]]:
    """The server and its address."""
    bound = socket.create_server(("127.0.0.1", 0))
    server = Server(methods, [bound], tls, bounds, accepted, held_bytes)
    await server.start()
    try:
        yield server, f"127.0.0.1:{bound.getsockname()[1]}"
    finally:
        await server.stop(0)


class Heard:
    """Keeps what the door says."""

    def __init__(self) -> None:
        self.answers: list[tuple[str, Event]] = []
        self.skips: list[str] = []
        self.door = AccessLogs(self._hear, self.skips.append)

    def _hear(self, decision_id: str, fate: Fate) -> None:
        self.answers.append((decision_id, event(fate)))
