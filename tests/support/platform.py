"""A platform's own service, as docs/openapi.yaml has it, that may say and do anything a test wants."""

from __future__ import annotations

import asyncio
import hashlib
import json
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web

Tree = Any


@dataclass
class Platform:
    """Serves on a free port of 127.0.0.1. An async context manager; what it says may be changed at any time."""

    quotas: Tree = field(default_factory=lambda: {"workspaces": {}})
    """The whole answer to ``/quotas``."""
    token: str = ""
    """If given, what every request must bear."""
    tls: ssl.SSLContext | None = None
    status: int = 200
    """Another one: the answer to everything."""
    body: bytes | None = None
    """In place of every good answer."""
    etags: bool = True
    delay_s: float = 0.0
    seen: list[web.BaseRequest] = field(default_factory=list)

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/quotas", self._guarded(self._quotas))
        self._runner = web.AppRunner(app, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self.tls)
        await site.start()
        scheme = "https" if self.tls is not None else "http"
        self.url = f"{scheme}://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def _guarded(
        self, answer: Callable[[Mapping[str, str]], Tree]
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            self.seen.append(request)
            await asyncio.sleep(self.delay_s)
            if self.token and request.headers.get("authorization") != f"Bearer {self.token}":
                return web.Response(status=401)
            if self.status != 200:
                return web.Response(status=self.status, headers={"location": "/elsewhere"})
            body = self.body if self.body is not None else json.dumps(answer(request.query)).encode()
            etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
            if self.etags and request.headers.get("if-none-match") == etag:
                return web.Response(status=304, headers={"etag": etag})
            headers = {"etag": etag} if self.etags else {}
            return web.Response(body=body, content_type="application/json", headers=headers)

        return handle

    def _quotas(self, query: Mapping[str, str]) -> Tree:
        return self.quotas
