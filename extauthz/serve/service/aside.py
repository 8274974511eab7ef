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
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Self, TypeAlias

from extauthz.core.intake.admission import Review, kept
from extauthz.core.model import Unreadable
from extauthz.core.objects.custom import NO_SHAPES, Shapes
from extauthz.serve.rpc.places import FullError, Turns
from extauthz.serve.service.aside_process import LENGTH

MOST = 32
"""Bodies that wait: some 2 s of reading at most. Peers take turns, so who sends many waits behind who sends one."""

LONGEST_S = 1.5
"""Less than the webhook's timeout of 2 s. The budget of a body is about a tenth of a second."""

NICE = 5
"""Where processors are few, those who decide come first."""

COMMAND = (
    sys.executable,
    "-c",
    f"import os; os.nice({NICE}); from extauthz.serve.service.aside_process import main; main()",
)


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
        self._turns = Turns(MOST)
        self._process: Process | None = None
        self._reading: asyncio.Task[Found] | None = None

    async def __aenter__(self) -> Self:
        await self._start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._reading is not None:
            self._reading.cancel()
            with suppress(asyncio.CancelledError):
                await self._reading
        await self._end()

    async def review(self, body: bytes, shapes: Shapes = NO_SHAPES, source: Hashable = None) -> Found:
        """When it is this source's turn; refused where too many wait, and most of them are this source's."""
        try:
            await self._turns.enter(source)
        except FullError:
            why = f"{MOST} bodies that take long wait to be read, and none has sent more of them"
            return Unreadable("too-many-bodies", f"{why}; try again in a second")
        # If its caller leaves, it is read to its end all the same: what the process says next is of this body.
        self._reading = asyncio.create_task(self._read(shapes, body))
        self._reading.add_done_callback(lambda _: self._turns.leave())
        return await asyncio.shield(self._reading)

    def _has_ended(self) -> bool:
        return self._process is not None and self._process.returncode is not None

    async def _read(self, shapes: Shapes, body: bytes) -> Found:
        if self._process is None or self._has_ended():  # while nobody looked
            await self._end()
            await self._start()
        try:
            async with asyncio.timeout(self._longest_s):
                return await self._exchange(pickle.dumps(dict(shapes)), body)
        except TimeoutError:
            why = f"took more than {self._longest_s:g} s"
        except (OSError, EOFError):
            why = "ended"
        except Exception as error:  # noqa: BLE001 (one body must not end the reading of all that come after it)
            why = "gave an answer that cannot be read"
            self._tell("error", "aside-answer", error=repr(error))
        self._tell("error", "aside-ended", why=why)
        await self._end()
        await self._start()
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
