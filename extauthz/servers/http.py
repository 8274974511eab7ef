"""The operators' server: /healthz, /readyz and /metrics over plain HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeAlias

from aiohttp import web


class Readiness(NamedTuple):
    """Whether checks should be sent here, and why not. ``notes`` are worth knowing and do not count against it."""

    reasons: Sequence[str]
    """What stands in the way; empty: ready."""
    notes: Sequence[str] = ()


Ready: TypeAlias = Callable[[], Readiness]
Scrape: TypeAlias = Callable[[str], Awaitable[tuple[bytes, str]]]
"""The value of ``accept`` → the exposition and its content type."""


def application(ready: Ready, scrape: Scrape) -> web.Application:
    """The three pages. None of them shows more than names of quotas and amounts; bind them to an operators' network."""

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="alive\n")

    async def readyz(_: web.Request) -> web.Response:
        reasons, notes = ready()
        lines = [f"not ready: {reason}" for reason in reasons] or ["ready"]
        lines += [f"note: {note}" for note in notes]
        return web.Response(text="".join(f"{line}\n" for line in lines), status=503 if reasons else 200)

    async def metrics(request: web.Request) -> web.Response:
        body, content_type = await scrape(request.headers.get("accept", ""))
        return web.Response(body=body, headers={"content-type": content_type})

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", metrics)])
    return app
