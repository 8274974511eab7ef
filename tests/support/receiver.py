"""A receiver of notices that keeps what it got, and answers as it is told to."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from aiohttp import web

from tests.support.background import Background


class Got(NamedTuple):
    """One request."""

    path: str
    headers: Mapping[str, str]
    """Lower-case names."""
    body: bytes

    @property
    def tree(self) -> Any:
        return json.loads(self.body)


@dataclass
class Receiver:
    """Listens on a free port of 127.0.0.1. An async context manager; its answer may be changed at any time."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    """Of the answer."""
    hangs: bool = False
    """It takes requests and never answers."""
    tls: ssl.SSLContext | None = None
    got: list[Got] = field(default_factory=list)

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_post("/{path:.*}", self._take)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self.tls)
        await site.start()
        scheme = "https" if self.tls is not None else "http"
        self.url = f"{scheme}://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def taken(self, kind: str = "") -> list[Any]:
        """CloudEvents of a kind that came, each attempt once."""
        return [one.tree for one in self.got if one.tree["type"].endswith(kind)]

    async def _take(self, request: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.got.append(Got(request.path, headers, await request.read()))
        if self.hangs:
            await asyncio.Event().wait()
        return web.Response(status=self.status, headers=self.headers)


class ReceiverInBackground(Background):
    """The same in a thread of its own, beside blocking tests."""

    def __init__(self) -> None:
        super().__init__("receiver")
        self.receiver = Receiver()

    async def main(self) -> None:
        """Until it is cancelled."""
        async with self.receiver:
            self.started()
            await asyncio.Event().wait()
