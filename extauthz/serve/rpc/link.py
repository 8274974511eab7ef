"""One connection in asyncio: bytes between a transport and a ``Connection``, calls between that and their handlers.

What was read at once is answered with one write. A unary call that is answered at once needs no task.

Nobody works for one client while others wait: what was read stands in a line in which peers take turns, and a turn ends
after some milliseconds. What all connections keep together is bounded too: beyond that, the peer that holds most loses
a connection (``places``).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterable, Mapping
from time import monotonic
from typing import Any, Final, cast

from extauthz.serve.rpc import accepting
from extauthz.serve.rpc.accepting import Accepted, Listener
from extauthz.serve.rpc.connection import Connection
from extauthz.serve.rpc.frames import Bounds
from extauthz.serve.rpc.heads import Code, Head, Methods, Sink, StatusError, Streaming
from extauthz.serve.rpc.places import Line, Place, Places
from extauthz.serve.rpc.streams import Asked, Drained, Ended, Event, Gone, Message, Opened

ALPN: Final = "h2"
"""RFC 9113 §3.2."""

TURN_S: Final = 0.002
"""For so long what has come is worked on, before the loop looks for more. Some fifty checks. A header block that is as
costly as can be may take 3 ms more."""

AT_ONCE: Final = 16
"""Events that are handled before the clock is looked at."""

HELD_BYTES: Final = 128 << 20
"""Of all connections: heads, parts of messages, answers that are not taken. Four connections may hold as much as one
may. 66 that did took 2 GiB."""

SETTLED_S: Final = 1.0
"""A client that does not answer the PING of a graceful end has heard of it after so long."""


class Link(asyncio.Protocol, Place):
    """The calls of one client. As a ``Place`` it holds bytes."""

    def __init__(self, methods: Methods, bounds: Bounds, owner: Server, accepted: Accepted) -> None:
        Place.__init__(self, accepted.peer, 0)
        self._owner = owner
        self._accepted = accepted
        self._connection = Connection(methods, bounds)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        """``None``: not let in, or closed."""
        self._come = b""
        """What stands in line, beside what the connection has not read."""
        self._stands = self._is_full = self._is_ended = False
        """In line; the client takes no answers; it says nothing more."""
        self._sinks: dict[int, Sink] = {}
        self._calls: dict[int, _Call] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._flushing: asyncio.Handle | None = None
        self._expiring: asyncio.TimerHandle | None = None
        self._expires_s = 0.0
        """When that is due. uvloop cannot say, where it is at once."""
        self._is_leaving = False

    # Of the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        both = cast(asyncio.Transport, transport)  # that of uvloop is no instance of it
        tls: ssl.SSLObject | None = both.get_extra_info("ssl_object")
        if (tls is not None and tls.selected_alpn_protocol() != ALPN) or not self._owner.enter(self):
            both.abort()
            return
        self._transport = both
        self._flush()

    def connection_lost(self, error: BaseException | None) -> None:
        if self._transport is None:
            return
        self._transport = None
        for timer in (self._flushing, self._expiring):
            if timer is not None:
                timer.cancel()
        self._flushing = self._expiring = None
        for task in list(self._tasks.values()):
            task.cancel()
        self._sinks.clear()
        self._calls.clear()
        self._owner.quit(self)

    def data_received(self, data: bytes) -> None:
        if self._transport is None:
            return
        self._come = self._come + data if self._come else data
        if not self._stands:
            self._stands = True
            self._owner.comes(self)

    def eof_received(self) -> bool:
        """What came before is answered first. Over TLS there is no half of a connection."""
        self._is_ended = self._stands and self._transport is not None
        return self._is_ended and self._transport.get_extra_info("ssl_object") is None  # type: ignore[union-attr]

    def pause_writing(self) -> None:
        """The client does not read what it asks for. So it is asked no further."""
        self._is_full = True
        self._pace()

    def resume_writing(self) -> None:
        self._is_full = False
        self._pace()

    def _pace(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if self._is_full or self._connection.has_more:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    # Of its turn in the line.

    def work(self, until_s: float) -> bool:
        """Work on what has come; whether there is more that must wait for another turn.

        Args:
            until_s: on ``time.monotonic``.
        """
        connection = self._connection
        data, self._come = self._come, b""
        was_behind = connection.has_more
        while self._transport is not None:
            self._handle(
                connection.feed(data, self._loop.time(), lambda told: told >= AT_ONCE or monotonic() > until_s)
            )
            data = b""
            if not connection.has_more or monotonic() > until_s:
                break
        self._stands = connection.has_more and self._transport is not None
        if was_behind != connection.has_more:
            self._pace()
        if connection.greeted:
            self._wait_or_work()
        self._flush()
        if self._is_ended and not self._stands and self._transport is not None:
            self._transport.close()
        return self._stands

    def _wait_or_work(self) -> None:
        self._accepted.works()
        if self._connection.awaits_client:
            self._accepted.waits()

    def give_up(self) -> None:
        """All connections hold too much together, and this peer most of it."""
        self.abort()

    # Of who listens.

    def leave(self) -> None:
        """Begin a graceful end: no new calls, and streams that have no end of their own are ended."""
        if self._transport is None:
            return
        self._is_leaving = True
        self._connection.go_away()
        for stream, sink in list(self._sinks.items()):
            self._connection.answer(stream, sink.last)
        self._sinks.clear()
        self._loop.call_later(SETTLED_S, self._settle)
        self._flush()

    def _settle(self) -> None:
        self._connection.settle()
        self._flush()

    def abort(self) -> None:
        """End the connection at once, and what is under way on it."""
        if self._transport is not None:
            self._transport.abort()

    # Events.

    def _handle(self, events: list[Event]) -> None:
        for event in events:
            if type(event) is Asked:
                self._asked(event)
            elif type(event) is Opened:
                self._opened(event)
            elif type(event) is Message:
                self._message(event)
            elif type(event) is Ended:
                self._ended(event.stream)
            elif type(event) is Gone:
                self._gone(event.stream)
            elif type(event) is Drained and event.stream in self._calls:
                self._calls[event.stream].drained()

    def _asked(self, event: Asked) -> None:
        stream = event.stream
        if not self._connection.is_open(stream):
            return  # given up in the same read: its answer would reach nobody
        try:
            answer = event.method.answer(event.message, event.timeout_s)
        except Exception as error:  # noqa: BLE001 (whatever a handler raises is its own call's)
            self._failed(stream, error)
            return
        if isinstance(answer, bytes):
            self._connection.answer(stream, answer)
        else:
            self._begin(stream, self._later(stream, answer), answer)

    async def _later(self, stream: int, answer: Awaitable[bytes]) -> None:
        self._connection.answer(stream, await answer)
        self.flush_soon()

    def _opened(self, event: Opened) -> None:
        if not self._connection.is_open(event.stream):
            return
        if type(event.method) is Sink and self._is_leaving:
            self._connection.answer(event.stream, event.method.last)
        elif type(event.method) is Sink:
            self._sinks[event.stream] = event.method
        elif type(event.method) is Streaming:
            call = self._calls[event.stream] = _Call(self, event.stream, event.head)
            self._begin(event.stream, self._run(event.method, call))

    async def _run(self, method: Streaming, call: _Call) -> None:
        await method.run(call)
        self._connection.finish(call.stream)

    def _message(self, event: Message) -> None:
        sink = self._sinks.get(event.stream)
        if sink is None:
            if event.stream in self._calls:
                self._calls[event.stream].come(event.message)
            return
        self._connection.taken(event.stream, event.message)
        try:
            sink.take(event.message)
        except Exception as error:  # noqa: BLE001 (as above)
            del self._sinks[event.stream]
            self._failed(event.stream, error)

    def _ended(self, stream: int) -> None:
        sink = self._sinks.pop(stream, None)
        if sink is not None:
            self._connection.answer(stream, sink.last)
        elif stream in self._calls:
            self._calls[stream].end()

    def _gone(self, stream: int) -> None:
        self._sinks.pop(stream, None)
        task = self._tasks.get(stream)
        if task is not None:
            task.cancel()

    # Tasks.

    def _begin(self, stream: int, work: Coroutine[Any, Any, None], inner: Awaitable[bytes] | None = None) -> None:
        task = self._tasks[stream] = self._loop.create_task(work)
        task.add_done_callback(lambda done: self._done(stream, done, inner))

    def _done(self, stream: int, task: asyncio.Task[None], inner: Awaitable[bytes] | None) -> None:
        del self._tasks[stream]
        self._calls.pop(stream, None)
        if isinstance(inner, Coroutine):
            inner.close()  # a task that was cancelled before its first step has not begun it
        if task.cancelled():
            self._connection.finish(stream, Code.CANCELLED)
        elif (error := task.exception()) is not None:
            self._failed(stream, error)
        if self._connection.awaits_client and self._transport is not None:
            self._accepted.waits()
        self.flush_soon()

    def _failed(self, stream: int, error: BaseException) -> None:
        if isinstance(error, StatusError):
            self._connection.finish(stream, error.code, error.text)
            return
        self._loop.call_exception_handler({"message": "a gRPC call's handler failed", "exception": error})
        self._connection.finish(stream, Code.UNKNOWN, "the server failed")

    # Writing.

    def flush_soon(self) -> None:
        """Write once what is answered in this turn of the loop."""
        if self._flushing is None and self._transport is not None:
            self._flushing = self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = None
        if self._transport is None:
            return
        data = self._connection.pending_bytes()
        if data:
            self._transport.write(data)
        if self._connection.held_bytes != self.size:
            self._owner.holds(self, self._connection.held_bytes)
        if self._connection.finished and not self._transport.is_closing():
            self._accepted.leaves()
            self._transport.close()
        self._watch_deadlines()

    def _watch_deadlines(self) -> None:
        due_s = self._connection.deadline_s
        if due_s is not None and (self._expiring is None or due_s < self._expires_s):
            if self._expiring is not None:
                self._expiring.cancel()
            self._expires_s = due_s
            self._expiring = self._loop.call_at(due_s, self._expire)

    def _expire(self) -> None:
        self._expiring = None
        self._handle(self._connection.expire(self._loop.time()))
        self._flush()

    # Of a call.

    def send(self, stream: int, message: bytes) -> bool:
        """Send one message of an answer; whether the client has room for it."""
        self._connection.send(stream, message)
        self.flush_soon()
        return not self._connection.has_unsent(stream)

    def taken(self, stream: int, message: bytes) -> None:
        """A call has read this message."""
        self._connection.taken(stream, message)
        self.flush_soon()


class _Call:
    def __init__(self, link: Link, stream: int, head: Head) -> None:
        self.stream = stream
        self._link = link
        self._head = head
        self._come: deque[bytes] = deque()
        self._is_ended = False
        self._reading: asyncio.Future[None] | None = None
        self._writing: asyncio.Future[None] | None = None

    @property
    def metadata(self) -> Mapping[str, str]:
        return self._head.metadata

    async def read(self) -> bytes | None:
        while not self._come:
            if self._is_ended:
                return None
            self._reading = asyncio.get_running_loop().create_future()
            await self._reading
        message = self._come.popleft()
        self._link.taken(self.stream, message)
        return message

    async def write(self, message: bytes) -> None:
        if not self._link.send(self.stream, message):
            self._writing = asyncio.get_running_loop().create_future()
            await self._writing

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (message := await self.read()) is not None:
            yield message

    def come(self, message: bytes) -> None:
        self._come.append(message)
        _wake(self._reading)

    def end(self) -> None:
        self._is_ended = True
        _wake(self._reading)

    def drained(self) -> None:
        _wake(self._writing)


def _wake(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)


ACCEPTED = accepting.Bounds(connections=1_024, each=512)
"""An Envoy needs one for each of its workers. Without a bound of each, one peer could take all."""


class Server:
    """A gRPC server.

    Args:
        methods: what is served, by path.
        sockets: where, TCP or unix; bound. ``stop`` closes them.
        tls: offers ``link.ALPN``; for plain text ``None``.
        bounds: what the calls of a client may cost.
        accepted: how many connections there may be, and how long each may be silent.
        held_bytes: what all connections may keep.
    """

    def __init__(
        self,
        methods: Methods,
        sockets: Iterable[socket.socket],
        tls: ssl.SSLContext | None = None,
        bounds: Bounds | None = None,
        accepted: accepting.Bounds = ACCEPTED,
        held_bytes: int = HELD_BYTES,
    ) -> None:
        self._methods = dict(methods)
        self._bounds = bounds or Bounds()
        self._links: set[Link] = set()
        self._budget = Places(held_bytes)
        self._line: Line[Link] = Line()
        self._working = False
        self._listener = Listener(list(sockets), self._link, accepted, tls)
        self._is_leaving = False
        self._empty = asyncio.Event()

    async def start(self) -> None:
        self._listener.start()

    async def stop(self, grace_s: float) -> None:
        """Take no more connections and calls, and end when all calls are answered; at the latest after ``grace_s``."""
        self._is_leaving = True
        self._listener.close()
        for link in list(self._links):
            link.leave()
        if self._links:
            try:
                await asyncio.wait_for(self._empty.wait(), grace_s)
            except TimeoutError:
                for link in list(self._links):
                    link.abort()
                await self._empty.wait()

    def _link(self, accepted: Accepted) -> Link:
        return Link(self._methods, self._bounds, self, accepted)

    def enter(self, link: Link) -> bool:
        """Whether it may serve one more."""
        if self._is_leaving:
            return False
        self._links.add(link)
        self._budget.enter(link)
        return True

    def comes(self, link: Link) -> None:
        """Something has come, and stands in line."""
        self._line.put(link.peer, link)
        if not self._working:
            self._working = True
            asyncio.get_running_loop().call_soon(self._work)

    def _work(self) -> None:
        """One turn: of as many links as have little to say, or of one that has much."""
        until_s = monotonic() + TURN_S
        try:
            while self._line and monotonic() < until_s:
                link = self._line.next()
                try:
                    if link.work(until_s):
                        self._line.put(link.peer, link)
                except Exception:  # a mistake of ours is its own connection's; the loop tells it
                    link.abort()
                    raise
        finally:
            self._working = bool(self._line)
            if self._working:
                asyncio.get_running_loop().call_soon(self._work)

    def holds(self, link: Link, size: int) -> None:
        """So many bytes are kept for it."""
        if link in self._links and not self._budget.resize(link, size):
            link.abort()

    def quit(self, link: Link) -> None:
        """It is closed."""
        self._links.discard(link)
        self._budget.leave(link)
        if self._is_leaving and not self._links:
            self._empty.set()
