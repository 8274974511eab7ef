"""Calls and watches in raw JSON, over the official client's transport: its TLS, its proxies, its connection pool."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from extauthz.core import numbers
from extauthz.core.model import Tree

from .clock import ClockCheck
from .lists import listed, loads
from .resource import Calls
from .session import SERVICE_ACCOUNT, Access, InCluster, KubeConfig, Message, NoClusterError, Session

CONNECT_WITHIN_S = 10.0

EVENT_AT_MOST_BYTES = 32 * 1024 * 1024
"""Ten times the largest object that the API server takes (``k8s.io/apiserver/pkg/server/config.go``)."""

TURN = 16
"""Items of a list that are read in one go."""

Query = Sequence[tuple[str, str]]


class ApiError(Exception):
    """The API server refused. It has what the ``metav1.Status`` says."""

    def __init__(self, status: int, reason: str, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        """HTTP code."""
        self.reason = reason
        """Machine-readable (``metav1.StatusReason``), ``""`` if there is none."""
        self.message = message
        self.retry_after_s = retry_after_s


class Unreachable(Exception):  # noqa: N818 (what it says of the server)
    """No answer, or a part of one. The text says which server and why."""


class Connection:
    """One API server. Made by ``connect``."""

    def __init__(self, session: Session, clock: ClockCheck | None = None) -> None:
        self._session = session
        self.clock = clock if clock is not None else ClockCheck()
        """How far ours is off the server's."""
        self.calls: Counter[str] = Counter()
        """Requests sent so far, by HTTP method in lower case. Watches count as ``watch``."""

    @property
    def server(self) -> str:
        return self._session.server

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
        """Send one request; the decoded answer, ``None`` if it is empty.

        Raises:
            ApiError: if the server refuses.
            Unreachable: if there is no answer within ``timeout_s``, or no whole one.
        """
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        self.calls[method.lower()] += 1
        async with self._answer(Message(method, _target(path, query), body, content_type, timeout)) as response:
            with _told(self.server, timeout_s):
                body = await response.read()
        return _decoded(body, self.server) if body else None

    async def items(
        self,
        path: str,
        take: Callable[[Tree], object],
        *,
        query: Query = (),
        timeout_s: float = 60.0,
    ) -> Tree:
        """GET a List and hand its items to ``take`` one by one, others taking turns; the list's metadata.

        Raises: as ``call``. Some items may have been handed over by then.
        """
        self.calls["get"] += 1
        message = Message("GET", _target(path, query), None, "application/json", aiohttp.ClientTimeout(total=timeout_s))
        async with self._answer(message) as response:
            with _told(self.server, timeout_s):
                body = await response.read()
        found = _decoded(body, self.server, listed)
        for number, item in enumerate(found.items or ()):
            take(_decoded(bytes(item), self.server))
            if not number % TURN:
                await asyncio.sleep(0)
        return _decoded(bytes(found.metadata), self.server)

    @asynccontextmanager
    async def watch(self, path: str, *, query: Query = (), silence_s: float) -> AsyncIterator[AsyncIterator[Tree]]:
        """Open a watch: a stream of ``{"type": …, "object": …}``, until the server ends it.

        Opening and reading raise:
            ApiError: if the server refuses, or sends an ERROR event (410: the version is too old).
            Unreachable: if the connection breaks, also amid an event, or nothing comes for ``silence_s``.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=min(CONNECT_WITHIN_S, silence_s), sock_read=silence_s)
        target = _target(path, [*query, ("watch", "1")])
        self.calls["watch"] += 1
        async with self._answer(Message("GET", target, None, "application/json", timeout)) as response:
            yield _events(response.content, self.server, silence_s)

    @asynccontextmanager
    async def _answer(self, message: Message) -> AsyncIterator[aiohttp.ClientResponse]:
        """A good answer. Its body is not read yet. If it is not read to the end, the connection is closed."""
        patience_s = message.timeout.total or message.timeout.sock_read or 0.0
        with _told(self.server, patience_s):
            response = await self._sent(message)
        transport = response.connection.transport if response.connection is not None else None
        try:
            if response.status >= 300:
                with _told(self.server, patience_s):
                    raise _refusal(response.status, response.headers, await response.read())
            yield response
        finally:
            response.close()  # one that was read to its end has given its connection back by now
            if transport is not None and transport.is_closing():
                transport.abort()  # else TLS waits for a goodbye, from a server that may have stalled

    async def _sent(self, message: Message) -> aiohttp.ClientResponse:
        """Send it. If its credentials are refused and there are newer ones, send it once more."""
        access = await self._session.current()
        try:
            response = await self._timed(access, message)
            if response.status != 401:
                return response
        except aiohttp.ClientConnectorCertificateError:
            response = None
        renewed = await self._session.renewed(access)
        if response is not None:
            if renewed is access:
                return response
            response.close()
        return await self._timed(renewed, message)

    async def _timed(self, access: Access, message: Message) -> aiohttp.ClientResponse:
        began_s = self.clock.begin()
        response = await access.send(message)
        self.clock.answered(began_s, response.headers.get("Date"))
        return response


async def get_or_none(api: Calls, path: str, timeout_s: float = 10.0) -> Tree | None:
    """An object; ``None``: there is none. Raises as ``call`` does."""
    try:
        return await api.call("GET", path, timeout_s=timeout_s)
    except ApiError as error:
        if error.status == 404:
            return None
        raise


@asynccontextmanager
async def connect(
    kubeconfig: Path | None = None,
    *,
    user_agent: str = "extauthz",
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
    clock: Callable[[], float] = time.monotonic,
    wall: Callable[[], float] = time.time,
) -> AsyncIterator[Connection]:
    """A connection as ``kubeconfig`` says; without one, as a pod's environment and service account say.

    Raises:
        NoClusterError: with the cure. Nothing is sent yet.
    """
    source = KubeConfig(kubeconfig) if kubeconfig else InCluster(environ, service_account)
    session = Session(source, user_agent, clock)
    await session.current()
    try:
        yield Connection(session, ClockCheck(wall, clock))
    finally:
        await session.close()


def _target(path: str, query: Query) -> URL:
    return URL(f"{path}?{urlencode(query)}" if query else path, encoded=True)


@contextmanager
def _told(server: str, patience_s: float) -> Iterator[None]:
    """Say in our words what fails on the way to the server."""
    try:
        yield
    except TimeoutError as error:
        raise Unreachable(f"{server}: nothing came within {patience_s:g} s") from error
    except (aiohttp.ClientError, OSError) as error:
        raise Unreachable(f"{server}: {error or type(error).__name__}") from error
    except NoClusterError as error:
        raise Unreachable(str(error)) from error


async def _events(content: aiohttp.StreamReader, server: str, silence_s: float) -> AsyncIterator[Tree]:
    with _told(server, silence_s):
        async for line in _lines(content, server):
            event = _decoded(line, server)
            if not (isinstance(event, dict) and event.keys() >= {"type", "object"}):
                raise Unreachable(f"{server} sent no event: {line[:60]!r}")
            if event["type"] == "ERROR":
                raise _status_error(event["object"], 500, None)
            yield event


async def _lines(content: aiohttp.StreamReader, server: str) -> AsyncIterator[bytes]:
    """Lines of any length; aiohttp's own ``readline`` gives up at two chunks."""
    parts: list[bytes] = []
    async for chunk in content.iter_any():
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield b"".join((*parts, end))
            parts.clear()
        parts.append(rest)
        if sum(map(len, parts)) > EVENT_AT_MOST_BYTES:
            raise Unreachable(f"{server} sent an event of more than {EVENT_AT_MOST_BYTES} bytes")
        await asyncio.sleep(0)  # what is buffered is read without a pause: let others have theirs
    if any(parts):
        raise Unreachable(f"{server} broke off amid an event")


def _decoded(body: bytes, server: str, read: Callable[[bytes], Tree] = loads) -> Tree:
    try:
        return read(body)
    except ValueError as error:
        raise Unreachable(f"{server} did not answer in JSON: {body[:60]!r}") from error


def _refusal(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    retry_after = headers.get("Retry-After", "")
    retry_after_s = numbers.whole(retry_after, numbers.INT32)
    try:
        told = loads(body)
    except ValueError:
        told = body[:200].decode(errors="replace").strip()
    return _status_error(told, status, retry_after_s)


def _status_error(told: Tree, status: int, retry_after_s: float | None) -> ApiError:
    """The ApiError of a ``metav1.Status``. ``status`` and ``retry_after_s`` are used if it has none."""
    if not isinstance(told, dict):
        told = {"message": str(told)[:200]}
    details = told.get("details") or {}
    if retry_after_s is None:
        retry_after_s = details.get("retryAfterSeconds")
    return ApiError(told.get("code") or status, told.get("reason") or "", told.get("message") or "", retry_after_s)
