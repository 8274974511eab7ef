"""Reads AdmissionReviews that take long in a process of its own, one at a time, while the gate goes on deciding.

A thread would not do: it shares the interpreter's lock with the loop, and the parsers written in C keep it for a whole
body.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from typing import Self, TypeAlias

from extauthz.core.intake.admission import Review, kept
from extauthz.core.model import Unreadable
from extauthz.core.objects.custom import NO_SHAPES, Shapes
from extauthz.service.aside_process import LENGTH

MOST = 8
"""Bodies that wait or are read at a time: some 25 MB, and most often less than a second."""

LONGEST_S = 1.5
"""Less than the webhook's timeout of 2 s. The budget of a body is about a tenth of a second."""

NICE = 5
"""Where processors are few, those who decide come first."""

COMMAND = (sys.executable, "-c", f"import os; os.nice({NICE}); from extauthz.service.aside_process import main; main()")


Found: TypeAlias = Review | Unreadable


class AsideProcess:
    """Reads in another process, which is started anew where it ends or takes too long. An async context manager.

    Args:
        tell: an event for the log: level, name, fields.
        command: starts the process.
        longest_s: what one body may take.
    """

    def __init__(
        self, tell: Callable[..., None], command: tuple[str, ...] = COMMAND, longest_s: float = LONGEST_S
    ) -> None:
        self._tell = tell
        self._command = command
        self._longest_s = longest_s
        self._queue: asyncio.Queue[tuple[bytes, bytes, asyncio.Future[Found]]] = asyncio.Queue(MOST - 1)
        self._process: Process | None = None
        self._running: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._running = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._running is not None
        self._running.cancel()
        with suppress(asyncio.CancelledError):
            await self._running
        await self._end()

    async def review(self, body: bytes, shapes: Shapes = NO_SHAPES) -> Found:
        """As soon as those before it are read; refused at once where too many wait."""
        answer: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        try:
            self._queue.put_nowait((pickle.dumps(dict(shapes)), body, answer))
        except asyncio.QueueFull:
            return Unreadable("too-many-bodies", f"{MOST} bodies that take long are being read; try again in a second")
        return await answer

    async def _run(self) -> None:
        while True:
            if self._process is None:
                await self._start()
            shapes, body, answer = await self._queue.get()
            if self._has_ended():  # while nobody looked
                await self._end()
                await self._start()
            if not answer.done():  # its caller has left
                reading = await self._read(shapes, body)
                if not answer.done():
                    answer.set_result(reading)

    def _has_ended(self) -> bool:
        return self._process is not None and self._process.returncode is not None

    async def _read(self, shapes: bytes, body: bytes) -> Found:
        try:
            async with asyncio.timeout(self._longest_s):
                return await self._exchange(shapes, body)
        except TimeoutError:
            why = f"took more than {self._longest_s:g} s"
        except (OSError, EOFError):
            why = "ended"
        except Exception as error:  # noqa: BLE001 (one body must not end the reading of all that come after it)
            why = "gave an answer that cannot be read"
            self._tell("error", "aside-answer", error=repr(error))
        self._tell("error", "aside-ended", why=why)
        await self._end()
        return Unreadable("not-read", f"the process that reads bodies that take long {why}; try again")

    async def _exchange(self, shapes: bytes, body: bytes) -> Found:
        process = self._process
        if process is None:
            raise EOFError
        assert process.stdin is not None
        assert process.stdout is not None
        for part in (shapes, body):
            process.stdin.write(LENGTH.pack(len(part)))
            process.stdin.write(part)
        await process.stdin.drain()
        (length,) = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))
        return kept(pickle.loads(await process.stdout.readexactly(length)))  # noqa: S301 (our own process's)

    async def _start(self) -> None:
        # It has the modules that this process has, and a Ctrl-C in a terminal is not for it.
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=PIPE, stdout=PIPE, env=environment, start_new_session=True
            )
        except OSError as error:
            self._tell("error", "aside-ended", why=f"cannot be started: {error}")

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
