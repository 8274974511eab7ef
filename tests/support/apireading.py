"""How the stand-in for the API server is read: lists in pages, watches with history and bookmarks, faults on demand.

Held to the real server's behaviour by ``tests/contract/test_reflector.py``.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from aiohttp import web

from extauthz.demo.apiserver import Key, Objects, Tree
from extauthz.inputs.kube.connection import ApiError

HISTORY = 2000
"""Changes that a watch can catch up on."""

BOOKMARK_S = 60.0

INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}

Options = Mapping[str, Sequence[str]]


class Change(NamedTuple):
    """One change of one object."""

    version: int
    event: str
    key: Key
    item: Tree


class Fault(NamedTuple):
    """An answer out of turn, for the next read."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = {}
    then: str = "end"
    """``end`` it properly, ``cut`` the connection, or ``hang`` until the client goes."""
    only: str = ""
    """Only for a request whose target contains this."""


class Reading:
    """Answers to GETs of collections."""

    def __init__(self, objects: Objects, loop: asyncio.AbstractEventLoop) -> None:
        self.faults: deque[Fault] = deque()
        """Each is used once, in order; the first one waits for a read that it is for."""
        self.streams_lists = True
        """Whether watches can begin with the list (KEP-3157)."""
        self.bookmark_s = BOOKMARK_S
        self._objects = objects
        self._loop = loop
        self._history: deque[Change] = deque(maxlen=HISTORY)
        self._oldest = objects.version
        """Watches can go on from here on."""
        self._news = asyncio.Event()
        self._pages: dict[str, list[Tree]] = {}
        self._tokens = itertools.count()
        objects.listeners.add(self._note)

    def forget(self) -> None:
        """As etcd's compaction: no watch and no continued list goes on from what was before."""
        self._history.clear()
        self._oldest = self._objects.version
        self._pages.clear()

    async def fault(self, request: web.Request) -> web.StreamResponse | None:
        """What was asked to go wrong next, if it is for this request."""
        if not self.faults or self.faults[0].only not in request.raw_path:
            return None
        fault = self.faults.popleft()
        response = web.StreamResponse(
            status=fault.status, headers={"content-type": "application/json", **fault.headers}
        )
        await response.prepare(request)
        await response.write(fault.body)
        if fault.then == "hang":
            await asyncio.Event().wait()
        if fault.then == "cut" and request.transport is not None:
            request.transport.abort()
        return response

    def list(self, key: Key, options: Options) -> Tree:
        """One page, or the whole list. Items do not say their kind, as the real server's.

        Raises:
            ApiError: 410 for a continuation that is no longer known.
        """
        if token := _option(options, "continue"):
            if token not in self._pages:
                raise ApiError(410, "Expired", "The provided continue parameter is too old")
            version, items = token.partition(".")[0], self._pages.pop(token)
        else:
            version, items = str(self._objects.version), [*self._selected(key, options)]
        limit = int(_option(options, "limit") or len(items) + 1)
        metadata = {"resourceVersion": version}
        if items[limit:]:
            metadata["continue"] = f"{version}.{base64.b64encode(str(next(self._tokens)).encode()).decode()}"
            self._pages[metadata["continue"]] = items[limit:]
        return {"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": [_bare(i) for i in items[:limit]]}

    async def watch(self, request: web.Request, key: Key, options: Options) -> web.StreamResponse:
        """A stream of changes, for as long as the client stays or ``timeoutSeconds`` say."""
        begins_with_list = _option(options, "sendInitialEvents") == "true"
        if begins_with_list and not self.streams_lists:
            raise ApiError(422, "Invalid", "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch")
        response = web.StreamResponse(headers={"content-type": "application/json"})
        await response.prepare(request)
        try:
            async with asyncio.timeout(float(_option(options, "timeoutSeconds") or 1800)):
                await self._follow(response, key, options, begins_with_list=begins_with_list)
        except (TimeoutError, ConnectionError, asyncio.CancelledError):
            pass
        return response

    async def _follow(
        self, response: web.StreamResponse, key: Key, options: Options, *, begins_with_list: bool
    ) -> None:
        since = int(_option(options, "resourceVersion") or 0)
        if begins_with_list or not since:
            since = self._objects.version
            for item in self._selected(key, options):
                await response.write(_line("ADDED", item))
        if begins_with_list:
            await response.write(self._bookmark(key, since, INITIAL_EVENTS_END))
        while True:
            news = self._news
            if since < self._oldest:
                await response.write(_line("ERROR", _expired(since, self._oldest)))
                return
            since = await self._catch_up(response, key, options, since)
            try:
                await asyncio.wait_for(news.wait(), self.bookmark_s)
            except TimeoutError:
                if _option(options, "allowWatchBookmarks"):
                    await response.write(self._bookmark(key, since, {}))

    async def _catch_up(self, response: web.StreamResponse, key: Key, options: Options, since: int) -> int:
        wanted = _selector(options)
        for change in [each for each in self._history if each.version > since]:
            if _within(key, change.key) and wanted(change.key, change.item):
                await response.write(_line(change.event, change.item))
            since = change.version
        return since

    def _selected(self, key: Key, options: Options) -> Iterator[Tree]:
        wanted = _selector(options)
        found = [(each, item) for each, item in self._objects.items.items() if _within(key, each)]
        return (item for each, item in sorted(found, key=lambda pair: pair[0]) if wanted(each, item))

    def _bookmark(self, key: Key, version: int, annotations: Mapping[str, str]) -> bytes:
        metadata: Tree = {"resourceVersion": str(version), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        return _line("BOOKMARK", {"kind": key.resource, "apiVersion": key.group, "metadata": metadata})

    def _note(self, event: str, key: Key, item: Tree) -> None:
        """From whatever thread."""
        version = int(item["metadata"]["resourceVersion"])
        if len(self._history) == HISTORY:
            self._oldest = self._history[0].version
        self._history.append(Change(version, event, key, item))
        self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()


def _within(like: Key, key: Key) -> bool:
    return key[:2] == like[:2] and like.namespace in ("", key.namespace)


def _selector(options: Options) -> Callable[[Key, Tree], bool]:
    """Raises: ApiError: 400 for anything but equality, and for fields other than these three."""
    fields = _equalities(_option(options, "fieldSelector"))
    labels = _equalities(_option(options, "labelSelector"))
    if fields.keys() - {"metadata.name", "metadata.namespace", "involvedObject.name"}:
        raise ApiError(400, "BadRequest", f"field label not supported: {sorted(fields)}")

    def wanted(key: Key, item: Tree) -> bool:
        about = (item.get("involvedObject") or {}).get("name", "")
        has = {"metadata.name": key.name, "metadata.namespace": key.namespace, "involvedObject.name": about}
        its = item.get("metadata", {}).get("labels") or {}
        return fields.items() <= has.items() and labels.items() <= its.items()

    return wanted


def _equalities(selector: str) -> dict[str, str]:
    pairs = [term.replace("==", "=").split("=") for term in selector.split(",") if term]
    if any(len(pair) != 2 or pair[0].endswith("!") for pair in pairs):
        raise ApiError(400, "BadRequest", f"unable to parse requirement: {selector}")
    return {name.strip(): value.strip() for name, value in pairs}


def _option(options: Options, name: str) -> str:
    return options.get(name, [""])[0]


def _bare(item: Tree) -> Tree:
    return {name: value for name, value in item.items() if name not in ("apiVersion", "kind")}


def _line(event: str, item: Tree) -> bytes:
    return json.dumps({"type": event, "object": item}).encode() + b"\n"


def _expired(since: int, oldest: int) -> Tree:
    message = f"too old resource version: {since} ({oldest})"
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
    return {**status, "reason": "Expired", "code": 410, "message": message}
