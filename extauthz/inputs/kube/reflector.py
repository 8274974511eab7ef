"""Keeps an event handler current with one collection: its whole list first, then every change in order, for ever.

The list is streamed where the server can (a watch with ``sendInitialEvents``, KEP-3157), else fetched page by page.
Either way an object is a tree only while ``EventHandler.convert`` looks at it. After that a watch goes on from the
list's version; if the server no longer knows that version (410), the list is taken again, so that nothing is missed.
Follows ``client-go/tools/cache/reflector.go``.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Generic, Protocol, TypeVar

from extauthz.core import numbers
from extauthz.core.model import Tree

from .connection import ApiError, Connection, Query, Unreachable
from .resource import Resource

# How long to wait before trying again: client-go's own numbers (``client-go/tools/cache/reflector.go``).


FIRST_S = 0.8
LONGEST_S = 30.0
FACTOR = 2.0
CALM_S = 120.0
"""After this long without a failure, the count begins again."""


class Backoff:
    """Waits that double from ``FIRST_S`` to ``LONGEST_S``. The second half of each wait is random."""

    def __init__(self, clock: Callable[[], float], chance: Callable[[], float] = random.random) -> None:
        self._clock = clock
        self._chance = chance
        self._next_s = FIRST_S
        self._failed_s = 0.0

    def failed(self) -> float:
        """Seconds to wait after one more failure."""
        now = self._clock()
        if now - self._failed_s > CALM_S:
            self._next_s = FIRST_S
        wait_s = self._next_s * (1 + self._chance())
        self._failed_s = now + wait_s
        self._next_s = min(self._next_s * FACTOR, LONGEST_S / 2)
        return wait_s


Item = TypeVar("Item")

SILENCE_S = 70.0
"""After this long without a word a watch is taken for dead. The server sends a bookmark a minute
(``apiserver/pkg/storage/cacher/cacher.go``, ``defaultBookmarkFrequency``) if etcd has told it of progress
(``--watch-progress-notify-interval``; kubeadm sets 5 s). Twice this is less than ``Numbers.stale_after_s``, so that
a cluster without such bookmarks is not taken for stalled."""

SILENCES = 2
"""After so many attempts without an event, the list is taken again. Only a list then proves that nothing was missed."""

WATCH_S = 300.0
"""How long watches may last: a random time between this and twice this, as in client-go."""

SHORT_WATCH_S = 1.0
"""A watch that ends sooner and brought nothing has failed (client-go's ``VeryShortWatchError``)."""

PAGE = 500
PAGE_WITHIN_S = 60.0
RETRY_AFTER_AT_MOST_S = 120.0

CANNOT_STREAM = (400, 422, 500)
"""How servers refuse to stream a list: they do not know the parameters, do not allow them, or can not ask their etcd
how far it is (``RequestWatchProgress``: 3.4.31, 3.5.13 and later can)."""

CURES = {
    401: "let the credentials be renewed",
    403: "grant get, list and watch on it, as deploy/rbac.yaml does",
    404: "is it installed in this cluster, in this version?",
}


def with_cure(error: ApiError) -> str:
    """What an API server said to a read, and what helps."""
    return f"{error} ({CURES[error.status]})" if error.status in CURES else str(error)


INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends a streamed list (``metav1.InitialEventsAnnotationKey``)."""


class EventHandler(Protocol[Item]):
    """Receives what a reflector brings. Its methods must not raise, and must not wait, except for their turn."""

    def convert(self, tree: Tree) -> Item:
        """What to keep of an object. It has its apiVersion and kind, and no managedFields."""

    async def replaced(self, objects: Iterable[Item], version: str) -> None:
        """A whole list as of ``version``: objects that are not in it are gone. While a long list is taken, others get
        their turn."""

    def changed(self, event: str, obj: Item) -> None:
        """One object was ``ADDED``, ``MODIFIED`` or ``DELETED``. The last state of one that is gone has the version of
        its going."""

    def reached(self, version: str) -> None:
        """All changes up to ``version`` have been handed on."""


class Reflector(Generic[Item]):
    """Follows one collection.

    Args:
        on_absent: called where the server has no such collection; ``None``: it must have.
        on_raise: told what the handler has raised, after which the list is taken again; ``None``: it is raised.
    """

    def __init__(
        self,
        connection: Connection,
        resource: Resource,
        handler: EventHandler[Item],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        silence_s: float = SILENCE_S,
        watch_s: float = WATCH_S,
        streams_lists: bool = True,
        on_absent: Callable[[], None] | None = None,
        on_raise: Callable[[Exception], None] | None = None,
    ) -> None:
        self.resource = resource
        self._connection = connection
        self._handler = handler
        self._clock = clock
        self._began_s = clock()
        self._sleep = sleep
        self._silence_s = silence_s
        self._watch_s = watch_s
        self._backoff = Backoff(clock)
        self._streams_lists = streams_lists
        self._on_absent = on_absent
        self._on_raise = on_raise
        self.absent = False
        """The server has no such collection, and need not have. It may come to have it."""
        self._stream_failed = False
        """A streamed list began and did not end. The next list comes in pages."""
        self._opened_s: float | None = None
        """When the present watch was opened."""
        self.synced = False
        """At least one whole list has been passed on."""
        self.version = ""
        """The resourceVersion up to which everything has been handed on; ``""``: the list must be taken."""
        self.upto = 0
        """The same as a number. It stays while the list is taken again: what was passed on before is still known."""
        self.seen = 0
        """The highest resourceVersion of any object that was handed on; bookmarks do not count."""
        self.last_heard_s = float("-inf")
        """On ``clock``: the last list, event or bookmark. What was handed on is what the cluster had then."""
        self.relists = 0
        """Lists taken after the first."""
        self.failures = 0
        """Lists and watches that failed, broken connections included."""
        self.refusal = 0
        """HTTP code by which the server refused the last try; 0: it did not answer, or the next try is under way."""
        self.last_error = ""
        """The last error and what would help; ``""`` again once something is received."""

    @property
    def age_s(self) -> float:
        """Time since the server last sent something, bookmarks included; or since it was made."""
        return self._clock() - max(self.last_heard_s, self._began_s)

    async def run(self) -> None:
        while True:
            self.refusal = 0
            try:
                await self._follow()
            except (ApiError, Unreachable) as error:
                await self._sleep(self._failed(error))
            except Exception as error:  # no object of a cluster ends the gate
                if self._on_raise is None:
                    raise
                self._on_raise(error)
                self.version = ""
                await self._sleep(self._failed(Unreachable(f"what it sent was not taken: {error!r}")))

    async def _follow(self) -> None:
        """One watch to its end. If needed, the list comes before it."""
        if self._clock() - self.last_heard_s > SILENCES * self._silence_s:
            self.version = ""
        if self.version:
            await self._watch(None)
        elif self._streams_lists and not self._stream_failed:
            await self._streamed_list()
        else:
            await self._paged_list()

    async def _streamed_list(self) -> None:
        """Take the list as the beginning of a watch, and follow that. In pages if the server can not stream."""
        self._stream_failed = True
        try:
            await self._watch({})
        except ApiError as error:
            if self.version or error.status not in CANNOT_STREAM:
                raise
            self._streams_lists = False
            await self._paged_list()

    async def _watch(self, listed: dict[str, Item] | None) -> None:
        """One watch. With ``listed`` the server first streams the list into it."""
        self._opened_s = None
        query = [("allowWatchBookmarks", "true"), ("timeoutSeconds", self._patience())]
        query += [("resourceVersion", self.version)] if listed is None else _STREAM_LIST
        path = self.resource.collection()
        heard_before = self.last_heard_s
        async with self._connection.watch(path, query=query, silence_s=self._silence_s) as events:
            self._opened_s = self._clock()
            await self._take_in(events, listed)
        if not self.version or (self.last_heard_s == heard_before and not self._stood()):
            raise Unreachable(f"{self._connection.server} ended a watch before its time")

    async def _take_in(self, events: AsyncIterator[Tree], listed: dict[str, Item] | None) -> None:
        async for event in events:
            if listed is None:
                self._hand_on(event["type"], event["object"])
            elif _ends_list(event):
                await self._replace(listed.values(), _version(event["object"]))
                listed = None
            else:
                self._collect(listed, event["type"], event["object"])

    def _hand_on(self, event: str, tree: Tree) -> None:
        version = _version(tree)
        if event != "BOOKMARK":
            self._handler.changed(event, self._convert(tree))
        self._handler.reached(version)
        self._heard(version)

    def _collect(self, listed: dict[str, Item], event: str, tree: Tree) -> None:
        """Changes to streamed objects may come in between."""
        if event == "DELETED":
            listed.pop(_key(tree), None)
        elif event != "BOOKMARK":
            listed[_key(tree)] = self._convert(tree)

    async def _paged_list(self) -> None:
        """Page by page. If the continuation is too old (410), all in one piece, as client-go's pager does."""
        items: list[Item] = []
        page = await self._page([("limit", str(PAGE))], items)
        while going_on := page.get("continue"):
            try:
                page = await self._page([("limit", str(PAGE)), ("continue", going_on)], items)
            except ApiError as error:
                if error.status != 410:
                    raise
                items.clear()
                page = await self._page([], items)
        await self._replace(items, str(page.get("resourceVersion", "")))

    async def _page(self, query: Query, items: list[Item]) -> Tree:
        """Add one page to ``items``; its metadata."""
        path = self.resource.collection()
        metadata = await self._connection.items(
            path, lambda tree: items.append(self._convert(tree)), query=query, timeout_s=PAGE_WITHIN_S
        )
        return _metadata({"metadata": metadata})

    async def _replace(self, items: Iterable[Item], version: str) -> None:
        self.relists += self.synced
        await self._handler.replaced(items, version)
        self._handler.reached(version)
        self.synced, self.absent = True, False
        self._stream_failed = False
        self._heard(version)

    def _convert(self, tree: Tree) -> Item:
        """Items of lists have no kind. Nobody reads their ``managedFields``."""
        metadata = _metadata(tree)
        metadata.pop("managedFields", None)
        self.seen = max(self.seen, numbers.whole(str(metadata.get("resourceVersion", ""))) or 0)
        tree.setdefault("apiVersion", self.resource.api_version)
        tree.setdefault("kind", self.resource.kind)
        return self._handler.convert(tree)

    def _heard(self, version: str) -> None:
        self.version = version
        self.upto = max(self.upto, numbers.whole(version) or 0)
        self.last_heard_s = self._clock()
        self.last_error = ""

    def _failed(self, error: ApiError | Unreachable) -> float:
        """React to a failure; seconds to wait."""
        self.failures += 1
        self.refusal = error.status if isinstance(error, ApiError) else 0
        if isinstance(error, Unreachable):
            self.last_error = f"{self.resource.group_resource}: {error}"
            return 0.0 if self._stood() else self._backoff.failed()
        if error.status == 410:
            self.version = ""
        if error.status == 404 and self._on_absent is not None and not self.synced:
            self.absent = True
            self._on_absent()
        self.last_error = f"{self.resource.group_resource}: {with_cure(error)}"
        return max(self._backoff.failed(), min(error.retry_after_s or 0.0, RETRY_AFTER_AT_MOST_S))

    def _patience(self) -> str:
        """For how many seconds to watch."""
        return str(round(self._watch_s * (1 + random.random())))  # noqa: S311 (to spread load)

    def _stood(self) -> bool:
        """The watch was open for a while. So its end is no failure of the server."""
        lasted = self._opened_s is not None and self._clock() - self._opened_s >= SHORT_WATCH_S
        return lasted and bool(self.version)


_STREAM_LIST = [("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")]


def _metadata(tree: Tree) -> Tree:
    if not (isinstance(tree, dict) and isinstance(found := tree.get("metadata"), dict)):
        raise Unreachable(f"what answers is no Kubernetes API: {str(tree)[:60]}")
    return found


def _version(tree: Tree) -> str:
    return str(_metadata(tree).get("resourceVersion", ""))


def _key(tree: Tree) -> str:
    metadata = _metadata(tree)
    return f"{metadata.get('namespace', '')}/{metadata.get('name')}"


def _ends_list(event: Tree) -> bool:
    annotations = _metadata(event["object"]).get("annotations") or {}
    return event["type"] == "BOOKMARK" and annotations.get(INITIAL_EVENTS_END) == "true"
