"""A stand-in for the API server that tests can have fail: the demo's, and lists and watches (``apireading``)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable
from email.utils import formatdate
from enum import StrEnum
from urllib.parse import parse_qs

from aiohttp import WSMsgType, web

from extauthz.demo import apiserver
from extauthz.demo.apiserver import Key, Pair, Seen, Tree, Where, as_json, parsed, patched, scale_of, where_of
from extauthz.inputs.kube.connection import ApiError
from tests.support.apireading import Options, Reading

MAX_BODY_BYTES = 3 * 1024 * 1024
"""As the real one (``k8s.io/apiserver/pkg/server/config.go``)."""


class Break(StrEnum):
    """How a connection ends instead of an answer."""

    BEFORE = "before"
    """Without a byte of it."""
    WITHIN = "within"
    """After its head."""


class ApiServer(apiserver.ApiServer):
    """The demo's, with lists, watches and creates, and with faults on demand."""

    date_off_s = 0.0
    """By how much its clock is ahead, as its answers have it."""

    def __init__(self, certificate: Pair, items: Iterable[Tree] = ()) -> None:
        super().__init__(certificate, items)
        self.silent = threading.Event()
        """While set, writes are taken in and never answered."""
        self.failing = 0
        """If set, the HTTP code that every write is answered with."""
        self.breaking: Break | None = None
        """If set, no write gets a whole answer."""
        self.lands = False
        """A write that fails or breaks is done all the same."""
        self.tokens: set[str] | None = None
        """If set, the bearer tokens that are taken; without it nobody is asked."""
        self.reading = Reading(self.objects, self._loop)

    def writes(self, path: str = "") -> list[Seen]:
        """What arrived that was no read, and whose target begins like this."""
        return [one for one in self.seen if one.method not in ("GET", "HEAD") and one.target.startswith(path)]

    def application(self) -> web.Application:
        app = super().application()
        app.on_response_prepare.append(self._date)
        return app

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("upgrade", "").lower() != "websocket":
            return await super().handle(request)
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.seen.append(Seen(request.method, request.raw_path, headers, b""))
        return await _echo(request)

    async def _date(self, _: web.Request, answer: web.StreamResponse) -> None:
        answer.headers["Date"] = formatdate(time.time() + self.date_off_s, usegmt=True)

    async def answer(self, request: web.Request, body: bytes) -> web.StreamResponse:
        path, _, query = request.raw_path.partition("?")
        if self.tokens is not None and request.headers.get("authorization", "")[len("Bearer ") :] not in self.tokens:
            raise ApiError(401, "Unauthorized", "Unauthorized")
        where = where_of(path)
        if where.subresource == "proxy":
            return web.Response(text=f"{len(body)} bytes")
        if len(body) > MAX_BODY_BYTES:
            raise ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {MAX_BODY_BYTES}")
        if request.method == "GET":
            return await self._read(request, where, parse_qs(query))
        while self.silent.is_set():  # noqa: ASYNC110 (set from another thread)
            await asyncio.sleep(0.02)
        goes_wrong = self.failing or self.breaking
        if self.lands or not goes_wrong:
            answer = await super().answer(request, body)
        if self.breaking:
            return await _broken(request, self.breaking)
        if self.failing:
            raise ApiError(self.failing, "InternalError", "told to fail")
        return answer

    async def _read(self, request: web.Request, where: Where, options: Options) -> web.StreamResponse:
        if (fault := await self.reading.fault(request)) is not None:
            return fault
        if "watch" in options:
            return await self.reading.watch(request, where.key, options)
        if where.key.name:
            item = self.objects.get(where.key)
            return as_json(200, scale_of(item) if where.subresource == "scale" else item)
        return as_json(200, self.reading.list(where.key, options))

    def write(self, method: str, where: Where, content_type: str, body: bytes, *, dry: bool) -> web.Response:
        if method == "POST" and not where.key.name:
            return self._create(where.key, parsed(body), dry=dry)
        if method == "DELETE":
            return as_json(200, self.objects.remove(where.key))
        if where.key not in self.objects.items and content_type.startswith("application/apply-patch"):
            return self._create(where.key, patched({}, content_type, body), dry=dry)
        return super().write(method, where, content_type, body, dry=dry)

    def _create(self, like: Key, item: Tree, *, dry: bool) -> web.Response:
        key = like._replace(name=item["metadata"].get("name") or item["metadata"]["generateName"] + "x7k2p")
        item["metadata"]["managedFields"] = [{"manager": "unknown", "operation": "Update"}]
        if key in self.objects.items:
            raise ApiError(409, "AlreadyExists", f'{key.resource} "{key.name}" already exists')
        return as_json(201, item if dry else self.objects.put(key, item, "ADDED"))


async def _broken(request: web.Request, how: Break) -> web.StreamResponse:
    """Ends the connection, before the answer or within it."""
    response = web.StreamResponse(headers={"content-type": "application/json", "content-length": "100"})
    if how is Break.WITHIN:
        await response.prepare(request)
        await response.write(b"{")
    assert request.transport is not None
    request.transport.close()  # what was written is sent before
    return response


async def _echo(request: web.Request) -> web.WebSocketResponse:
    """What exec looks like from here: a websocket that says back what it hears."""
    socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
    await socket.prepare(request)
    async for message in socket:
        if message.type is WSMsgType.BINARY:
            await socket.send_bytes(message.data)
    return socket
