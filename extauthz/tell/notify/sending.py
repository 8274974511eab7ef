"""One attempt to send one notice. No error that is made here has a URL, a header or a body."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import random
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple, Self

import aiohttp

from extauthz.inputs.sources.trusting import Trusting
from extauthz.tell.notify.receivers import CLOUDEVENT, JSON, Notice, Receiver, ReceiverError, cloudevent, slack

# Signs a notice: HMAC-SHA256 over ``id.timestamp.body``, in the headers of Standard Webhooks 1.0.
#
# Source: standard-webhooks, ``spec/standard-webhooks.md`` ("Signature scheme").

PREFIX: Final = "whsec_"
"""Before a key in base64. A key without it is taken as it is written."""

LEAST_BYTES: Final = 24
"""Of a key, as Standard Webhooks has it."""

MOST_KEYS: Final = 4
"""A new key and an old one, while receivers learn the new one."""


def read_keys(path: Path) -> tuple[bytes, ...]:
    """The keys of a file, one a line. With several, there is a signature by each.

    Raises:
        ReceiverError: it cannot be read, or holds no good key.
    """
    try:
        lines = [line.strip() for line in path.read_text().splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ReceiverError(f"{path}: {why}; put a key there, as `openssl rand -base64 32` prints one") from None
    if not 1 <= len(lines) <= MOST_KEYS:
        raise ReceiverError(f"{path}: holds {len(lines)} keys; write one a line, at most {MOST_KEYS}")
    return tuple(_key(line, path) for line in lines)


def headers(keys: Sequence[bytes], notice_id: str, time_s: float, body: bytes) -> dict[str, str]:
    """The three headers; without keys, those that say which notice it is and when it was sent."""
    timestamp = str(int(time_s))
    said = {"webhook-id": notice_id, "webhook-timestamp": timestamp}
    if keys:
        text = f"{notice_id}.{timestamp}.".encode() + body
        said["webhook-signature"] = " ".join(f"v1,{_mac(key, text)}" for key in keys)
    return said


def _mac(key: bytes, text: bytes) -> str:
    return base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()


def _key(line: str, path: Path) -> bytes:
    key = line.encode()
    if line.startswith(PREFIX):
        try:
            key = base64.b64decode(line.removeprefix(PREFIX), validate=True)
        except binascii.Error:
            raise ReceiverError(f"{path}: what follows {PREFIX} is no base64") from None
    if len(key) < LEAST_BYTES:
        raise ReceiverError(f"{path}: a key has at least {LEAST_BYTES} bytes; `openssl rand -base64 32` prints one")
    return key


TIMEOUT_S: Final = 10.0
"""For one attempt, the connection included."""

_PASSING: Final = frozenset({408, 425, 429})
"""Answers of a receiver, besides 5xx, after which trying again may help."""


class Attempt(NamedTuple):
    well: bool
    again: bool = False
    """Trying again may help."""
    why: str = ""
    after_s: float | None = None
    """How long the receiver asked to wait (``Retry-After``)."""


class Sender:
    """Sends over HTTP. An async context manager.

    Args:
        source: the CloudEvents attribute: who sends.
        keys: a folder with ``NAME.key`` for each receiver but Slack's; ``None``: nothing is signed.
        ca: authorities that receivers' certificates must come from; ``None``: the system's.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        source: str,
        keys: Path | None = None,
        ca: Path | None = None,
        *,
        user_agent: str = "extauthz",
        clock: Callable[[], float] = time.time,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._source = source
        self._keys = keys
        self._trusting = Trusting(ca)
        self._user_agent = user_agent
        self._clock = clock
        self._timeout_s = timeout_s
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=self._timeout_s)
        self._session = aiohttp.ClientSession(
            timeout=timeout, cookie_jar=aiohttp.DummyCookieJar(), headers={"user-agent": self._user_agent}
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    def problem(self, receiver: Receiver) -> str:
        """Why nothing could be sent to it now, as far as files can tell; empty: nothing is known against it."""
        try:
            receiver.url()
            self._signing_keys(receiver)
            self._trusting.context()
        except (ReceiverError, OSError) as error:
            return _brief(error)
        return ""

    async def send(self, receiver: Receiver, notice: Notice) -> Attempt:
        """POST it once; does not raise. URL, keys and authorities are read anew, as files may have changed. Redirects
        are not followed: they would lead where the configuration does not."""
        assert self._session is not None, "the sender is entered"
        try:
            url, tls = receiver.url(), self._trusting.context()
            body = slack(notice) if receiver.slack else cloudevent(notice, self._source)
            said = headers(self._signing_keys(receiver), notice.id, self._clock(), body)
        except (ReceiverError, OSError) as error:
            return Attempt(False, again=True, why=_brief(error))
        said["content-type"] = JSON if receiver.slack else CLOUDEVENT
        try:
            asked = self._session.post(url, data=body, headers=said, ssl=tls, allow_redirects=False)
            async with asked as response:
                return self._judged(response)  # its body is not read
        except TimeoutError:
            return Attempt(False, again=True, why=f"no answer within {self._timeout_s:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Attempt(False, again=True, why=_brief(error))

    def _judged(self, response: aiohttp.ClientResponse) -> Attempt:
        status = response.status
        if 200 <= status < 300:
            return Attempt(True)
        why = f"it answered {status}" + ("; redirects are not followed" if 300 <= status < 400 else "")
        after_s = retry_after(response.headers.get("retry-after", ""), self._clock())
        return Attempt(False, status >= 500 or status in _PASSING, why, after_s)

    def _signing_keys(self, receiver: Receiver) -> tuple[bytes, ...]:
        """Slack knows no signature."""
        if self._keys is None or receiver.slack:
            return ()
        return read_keys(self._keys / f"{receiver.name}.key")


def retry_after(text: str, now_s: float) -> float | None:
    """Seconds to wait by the header ``Retry-After`` (RFC 9110, section 10.2.3); ``None``: it says nothing."""
    text = text.strip()
    if text.isascii() and text.isdigit() and len(text) < 10:
        return float(text)
    try:
        return max(parsedate_to_datetime(text).timestamp() - now_s, 0.0)
    except (ValueError, OverflowError):
        return None


def _brief(error: Exception) -> str:
    """What went wrong. Errors of aiohttp may have the URL in their text, and that may be a secret."""
    if isinstance(error, ReceiverError):
        return str(error)
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "its certificate is not trusted"
    why = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    words = why.strerror if isinstance(why, OSError) else ""
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


MOST_WAITING: Final = 1000
"""Notices of one receiver, a few KiB each. Whoever gets a thousand at once has one thing to look at."""

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 300.0
"""Between two attempts, without the jitter."""

LONGEST_WISH_S: Final = 3600.0
"""What a receiver may ask for by ``Retry-After``."""

GIVE_UP_S: Final = 4 * 3600.0
"""After this long a notice is dropped: it is news no more."""

LEAVE_S: Final = 5.0
"""How long a clean stop waits for what is queued. A pod has 30 s to end."""

TELL_EVERY_S: Final = 60.0
"""Between two log lines about a full queue. Each has the number of all that were dropped since the last one."""


class Result(StrEnum):
    """What became of a notice; a metric label."""

    DELIVERED = "delivered"
    RETRIED = "retried"
    """An attempt failed, and another one follows. All others are the end of a notice."""
    REFUSED = "refused"
    EXPIRED = "expired"
    OVERFLOW = "overflow"
    UNSENT = "unsent"
    """Still queued when the gate stopped."""
    FAILED = "failed"
    """By a fault of ours."""


class _Waiting(NamedTuple):
    notice: Notice
    since_s: float


class _Lane:
    """One receiver: its queue, and the task that empties it."""

    def __init__(self, receiver: Receiver, delivery: Delivery) -> None:
        self.receiver = receiver
        self.waiting: deque[_Waiting] = deque()
        self.current: _Waiting | None = None
        """What is being delivered."""
        self.more = asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()
        self._delivery = delivery
        self._overflown = 0
        self._told_s = float("-inf")

    def put(self, notice: Notice, now_s: float) -> None:
        if len(self.waiting) >= MOST_WAITING:
            self._overflow(now_s)
            return
        self.waiting.append(_Waiting(notice, now_s))
        self.idle.clear()
        self.more.set()

    def _overflow(self, now_s: float) -> None:
        self._delivery.count(self.receiver.name, Result.OVERFLOW)
        self._overflown += 1
        if now_s - self._told_s >= TELL_EVERY_S:
            self._delivery.dropped(self.receiver.name, Result.OVERFLOW, "its queue is full", self._overflown)
            self._overflown, self._told_s = 0, now_s

    async def run(self) -> None:
        while True:
            while self.waiting:
                self.current = self.waiting.popleft()
                self._delivery.count(self.receiver.name, await self._delivery.delivered(self.receiver, self.current))
            self.current = None
            self.idle.set()
            self.more.clear()
            await self.more.wait()


class Delivery:
    """All receivers.

    Args:
        tell: ``Log.event``.
        clock: seconds, monotonic.
        chance: from 0 to 1, for the jitter: several gates do not try again at the same moment.
    """

    def __init__(
        self,
        receivers: Iterable[Receiver],
        sender: Sender,
        tell: Callable[..., None],
        *,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._sender = sender
        self._tell = tell
        self._clock = clock
        self._chance = chance
        self._leaving = asyncio.Event()
        self._lanes = {one.name: _Lane(one, self) for one in receivers}
        self.results: Counter[tuple[str, str]] = Counter()
        """By receiver and result."""

    def put(self, notice: Notice, names: Iterable[str]) -> None:
        """Queue it for each of these receivers. Does no I/O."""
        for name in names:
            self._lanes[name].put(notice, self._clock())

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for lane in self._lanes.values():
                group.create_task(lane.run())

    async def leave(self) -> None:
        """Deliver what is queued, within a bounded time: each notice is tried at once, and once only."""
        self._leaving.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                for lane in self._lanes.values():
                    await lane.idle.wait()
        for name, lane in self._lanes.items():
            left = len(lane.waiting) + (lane.current is not None)
            if left:
                self.results[name, Result.UNSENT] += left
                self.dropped(name, Result.UNSENT, "the gate stops", left)
                lane.waiting.clear()

    # For lanes.

    async def delivered(self, receiver: Receiver, waiting: _Waiting) -> Result:
        """What became of a notice in the end."""
        attempts = 0
        while True:
            attempts += 1
            answer = await self._try(receiver, waiting.notice)
            if answer is None:
                return Result.FAILED
            if answer.well:
                return Result.DELIVERED
            result = self._end(answer, waiting)
            if result is not None:
                self.dropped(receiver.name, result, answer.why, 1, waiting.notice.id)
                return result
            self.count(receiver.name, Result.RETRIED)
            if attempts == 1:
                self._tell("warning", "notice-retried", receiver=receiver.name, why=answer.why, id=waiting.notice.id)
            await self._pause(pause_s(attempts, answer.after_s, self._chance()))

    async def _try(self, receiver: Receiver, notice: Notice) -> Attempt | None:
        """``None``: a fault of ours, which must not end the gate."""
        try:
            return await self._sender.send(receiver, notice)
        except Exception:  # noqa: BLE001 (whatever it is, decisions and other notices go on)
            self._tell("error", "notice-failed", receiver=receiver.name, traceback=traceback.format_exc())
            return None

    def _end(self, answer: Attempt, waiting: _Waiting) -> Result | None:
        if not answer.again:
            return Result.REFUSED
        if self._leaving.is_set():
            return Result.UNSENT
        return Result.EXPIRED if self._clock() - waiting.since_s >= GIVE_UP_S else None

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._leaving.wait(), seconds)

    def count(self, name: str, result: Result) -> None:
        """One more of a result."""
        self.results[name, result] += 1

    def dropped(self, name: str, result: Result, why: str, notices: int, notice_id: str = "") -> None:
        """Say that notices will never be delivered."""
        which = {"id": notice_id} if notice_id else {}
        self._tell("error", "notice-dropped", receiver=name, result=result.value, why=why, notices=notices, **which)


def pause_s(attempts: int, wished_s: float | None, chance: float) -> float:
    """Before the next attempt: doubled each time, at least half of that, and no less than the receiver wishes."""
    doubled = min(FIRST_PAUSE_S * 2.0 ** min(attempts - 1, 20), LONGEST_PAUSE_S)
    return max(doubled * (0.5 + 0.5 * chance), min(wished_s or 0.0, LONGEST_WISH_S))
