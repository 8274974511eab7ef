"""A small stand-in for the API server: https, objects in memory, what autoscalers need. For tests and the demo.

It serves any group, version and resource, the ``scale`` subresource, lists and watches (``reading``), and refuses with
``metav1.Status``. Bodies that are neither JSON nor YAML (leases in protobuf) are taken and given back as they are.
"""

from __future__ import annotations

import asyncio
import copy
import json
import ssl
import threading
import time
from collections.abc import Iterable
from email.utils import formatdate
from enum import StrEnum
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, unquote

from aiohttp import WSMsgType, web

from extauthz.demo.certs import Pair
from extauthz.demo.reading import Key, Objects, Options, Reading, Tree, patched, scale_of
from extauthz.inputs.kube.connection import ApiError

MAX_BODY_BYTES = 3 * 1024 * 1024
"""As the real one (``k8s.io/apiserver/pkg/server/config.go``)."""


class Break(StrEnum):
    """How a connection ends instead of an answer."""

    BEFORE = "before"
    """Without a byte of it."""
    WITHIN = "within"
    """After its head."""


class Seen(NamedTuple):
    """One request as it arrived."""

    method: str
    target: str
    """As spelled on the wire, with its query."""
    headers: dict[str, str]
    """Lower-case names."""
    body: bytes


class Where(NamedTuple):
    """What a path names."""

    key: Key
    subresource: str


class ApiServer:
    """Serves https on a free port of 127.0.0.1 from a thread of its own. A context manager."""

    date_off_s = 0.0
    """By how much its clock is ahead, as its answers have it."""

    def __init__(self, certificate: Pair, items: Iterable[Tree] = ()) -> None:
        self.objects = Objects(items)
        self.seen: list[Seen] = []
        """Every request, in order."""
        self.port = 0
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
        self._certificate = certificate
        self._loop = asyncio.new_event_loop()
        self.reading = Reading(self.objects, self._loop)
        self._thread = threading.Thread(target=self._loop.run_forever, name="apiserver", daemon=True)
        self._runner: web.AppRunner | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def writes(self, path: str = "") -> list[Seen]:
        """What arrived that was no read, and whose target begins like this."""
        return [one for one in self.seen if one.method not in ("GET", "HEAD") and one.target.startswith(path)]

    async def _start(self) -> None:
        app = web.Application(client_max_size=0)
        app.router.add_route("*", "/{anything:.*}", self._handle)
        app.on_response_prepare.append(self._date)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(*self._certificate)
        tls.set_alpn_protocols(["http/1.1"])
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _stop(self) -> None:
        assert self._runner is not None
        assert self._runner.server is not None
        for open_connection in self._runner.server.connections:
            if open_connection.transport is not None:
                open_connection.transport.abort()  # else TLS waits for a goodbye, and this loop is closed before
        await self._runner.cleanup()
        open_streams = asyncio.all_tasks() - {asyncio.current_task()}
        for task in open_streams:
            task.cancel()
        await asyncio.gather(*open_streams, return_exceptions=True)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        if headers.get("upgrade", "").lower() == "websocket":
            self.seen.append(Seen(request.method, request.raw_path, headers, b""))
            return await _echo(request)
        body = await request.read()
        self.seen.append(Seen(request.method, request.raw_path, headers, body))
        try:
            return await self._answer(request, body)
        except ApiError as error:
            return _json(error.status, _status(error))

    async def _date(self, _: web.Request, answer: web.StreamResponse) -> None:
        answer.headers["Date"] = formatdate(time.time() + self.date_off_s, usegmt=True)

    async def _answer(self, request: web.Request, body: bytes) -> web.StreamResponse:
        path, _, query = request.raw_path.partition("?")
        options = parse_qs(query)
        if self.tokens is not None and request.headers.get("authorization", "")[len("Bearer ") :] not in self.tokens:
            raise ApiError(401, "Unauthorized", "Unauthorized")
        where = _where(path)
        if where.subresource == "proxy":
            return web.Response(text=f"{len(body)} bytes")
        if len(body) > MAX_BODY_BYTES:
            raise ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {MAX_BODY_BYTES}")
        if request.method == "GET":
            return await self._read(request, where, options)
        while self.silent.is_set():  # noqa: ASYNC110 (set from another thread)
            await asyncio.sleep(0.02)
        goes_wrong = self.failing or self.breaking
        if self.lands or not goes_wrong:
            answer = self._take(request, where, body, dry="dryRun" in options)
        if self.breaking:
            return await _broken(request, self.breaking)
        if self.failing:
            raise ApiError(self.failing, "InternalError", "told to fail")
        return answer

    def _take(self, request: web.Request, where: Where, body: bytes, *, dry: bool) -> web.Response:
        content_type = request.headers.get("content-type", "") or "application/json"
        if not _readable(content_type):
            return web.Response(body=body, content_type=content_type.partition(";")[0])
        return self._write(request.method, where, content_type, body, dry=dry)

    async def _read(self, request: web.Request, where: Where, options: Options) -> web.StreamResponse:
        if (fault := await self.reading.fault(request)) is not None:
            return fault
        if "watch" in options:
            return await self.reading.watch(request, where.key, options)
        if where.key.name:
            item = self.objects.get(where.key)
            return _json(200, scale_of(item) if where.subresource == "scale" else item)
        return _json(200, self.reading.list(where.key, options))

    def _write(self, method: str, where: Where, content_type: str, body: bytes, *, dry: bool) -> web.Response:
        if method == "POST" and not where.key.name:
            return self._create(where.key, _parse(body), dry=dry)
        if method == "DELETE":
            return _json(200, self.objects.remove(where.key))
        if method not in ("PUT", "PATCH"):
            raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        before = self.objects.items.get(where.key)
        if before is None and content_type.startswith("application/apply-patch"):
            return self._create(where.key, patched({}, content_type, body), dry=dry)
        before = self.objects.get(where.key)
        view = scale_of(before) if where.subresource == "scale" else before
        after = _parse(body) if method == "PUT" else patched(view, content_type, body)
        _check_version(before, after)
        if where.subresource == "scale":
            replicas = _replicas(after)
            after = copy.deepcopy(before)
            after["spec"]["replicas"] = replicas
        stored = after if dry else self.objects.put(where.key, after, "MODIFIED")
        return _json(200, scale_of(stored) if where.subresource == "scale" else stored)

    def _create(self, like: Key, item: Tree, *, dry: bool) -> web.Response:
        key = like._replace(name=item["metadata"].get("name") or item["metadata"]["generateName"] + "x7k2p")
        item["metadata"]["managedFields"] = [{"manager": "unknown", "operation": "Update"}]
        if key in self.objects.items:
            raise ApiError(409, "AlreadyExists", f'{key.resource} "{key.name}" already exists')
        return _json(201, item if dry else self.objects.put(key, item, "ADDED"))


def _where(path: str) -> Where:
    """Group, resource, namespace, name and subresource of a path, as RequestInfo has them."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[0] not in ("api", "apis") or len(parts) < 3:
        raise ApiError(404, "NotFound", "the server could not find the requested resource")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    resource, name, subresource = (*rest, "", "", "")[:3]
    return Where(Key(group, resource, namespace, name), subresource)


def _readable(content_type: str) -> bool:
    return any(format_ in content_type for format_ in ("json", "yaml"))


def _parse(body: bytes) -> Tree:
    try:
        return json.loads(body)
    except ValueError as error:
        raise ApiError(400, "BadRequest", str(error)) from error


def _replicas(scale: Tree) -> int:
    replicas = scale.get("spec", {}).get("replicas", 0)
    if not isinstance(replicas, int) or replicas < 0:
        raise ApiError(422, "Invalid", f"Scale is invalid: spec.replicas: Invalid value: {replicas!r}")
    return replicas


def _check_version(before: Tree, after: Tree) -> None:
    wanted = after.get("metadata", {}).get("resourceVersion")
    if wanted not in (None, "", before["metadata"]["resourceVersion"]):
        name = before["metadata"]["name"]
        raise ApiError(409, "Conflict", f'Operation cannot be fulfilled on "{name}": the object has been modified')


def _status(error: ApiError) -> Tree:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": error.message,
        "reason": error.reason,
        "code": error.status,
    }


def _json(code: int, tree: Any) -> web.Response:  # noqa: ANN401 (any JSON)
    return web.Response(status=code, text=json.dumps(tree), content_type="application/json")


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
