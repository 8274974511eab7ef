"""An event loop on a virtual clock: time jumps to the next timer when nothing is ready, and chance comes from a seed.

Everything belongs to a process, as on a cluster. Callbacks of one process run in the order in which they became
ready, as asyncio promises; which process comes next is left to chance. A process can be stopped for a while, and ended
between any two of its callbacks, which is at any of its awaits.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from itertools import count
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")

STEP_S = 1e-6
"""Time that a callback takes. So no two things happen at the same time."""

ROUNDS = 3
"""How often the tasks of an ending process are cancelled: some wait for others, or for new ones."""


class StandstillError(RuntimeError):
    """Nothing is ready, and no timer is set: what is awaited will never happen."""


class Process:
    """A process: everything that runs, stops and ends together."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ready: deque[asyncio.Handle] = deque()
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.steps = 0
        """Callbacks that have run."""
        self.ends_at: int | None = None
        """The process ends after so many callbacks."""
        self.stopped = False
        self.ending = False
        """It is cleaning up."""
        self.ended = False
        self.on_end: list[Callable[[], None]] = []
        """Called when it ends, before it could clean up."""
        self._alive = 64
        self._context = copy_context()
        self._context.run(_current.set, self)

    def start(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine as a part of this process."""
        return asyncio.get_running_loop().create_task(coroutine, context=self._context.copy())

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Remember a task, so that it ends with the process."""
        if len(self.tasks) > 2 * self._alive:
            self.tasks = {one: None for one in self.tasks if not one.done()}
            self._alive = max(len(self.tasks), 64)
        self.tasks[task] = None


_current: ContextVar[Process] = ContextVar("process")


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs a world. There is no I/O: who waits for any waits for ever."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.world = Process("world")
        """The process of everything that belongs to no other."""
        self.errors: list[str] = []
        """Errors that nobody sees: exceptions of tasks that are not awaited."""
        self._random = random
        self._now_s = 0.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._numbers = count()
        self._processes: list[Process] = []
        self._runnable: list[Process] = []
        """Processes with callbacks that are ready, stopped ones included."""
        self.set_exception_handler(self._heed)

    def process(self, name: str) -> Process:
        """A new one."""
        self._processes.append(Process(name))
        return self._processes[-1]

    def time(self) -> float:
        return self._now_s

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._numbers), handle))
        return handle

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> asyncio.Task[Any]:  # type: ignore[override]
        task: asyncio.Task[Any] = super().create_task(coro, name=name, context=context)
        process = context.get(_current, self.world) if context is not None else _current.get(self.world)
        process.keep(task)
        return task

    def _call_soon(self, callback: Callable[..., object], args: Any, context: Context | None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready_now(handle)
        return handle

    def _ready_now(self, handle: asyncio.Handle) -> None:
        process = _of(handle, self.world)
        if process.ended:
            return
        if not process.ready and not process.ending:
            self._runnable.append(process)
        process.ready.append(handle)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Cancelled timers are dropped when they are due."""

    def _run_once(self) -> None:
        self._now_s += STEP_S
        process = self._next()
        handle = process.ready.popleft()
        if not process.ready:
            self._runnable.remove(process)
        if handle.cancelled():
            return
        process.steps += 1
        handle._run()
        if process.ends_at is not None and process.steps >= process.ends_at:
            self.end(process)

    def _next(self) -> Process:
        while True:
            while self._timers and self._timers[0][0] <= self._now_s:
                handle = heapq.heappop(self._timers)[2]
                if not handle.cancelled():
                    self._ready_now(handle)
            able = [one for one in self._runnable if not one.stopped]
            if able:
                return able[0] if len(able) == 1 else self._random.choice(able)
            if not self._timers:
                raise StandstillError("nothing will ever happen again")
            self._now_s = max(self._now_s, self._timers[0][0])

    def end(self, process: Process) -> None:
        """End a process at once, as ``kill -9`` does. Its cleaning up reaches nobody."""
        if process.ending:
            return
        process.ending = True
        if process in self._runnable:
            self._runnable.remove(process)
        for tell in process.on_end:
            tell()
        for _ in range(ROUNDS):
            for task in process.tasks:
                task.cancel()
            while process.ready:
                handle = process.ready.popleft()
                if not handle.cancelled():
                    handle._run()
        process.ended = True
        process.ready.clear()

    def run(self, main: Coroutine[Any, Any, object]) -> None:
        """Run until ``main`` ends; everything else ends with it."""
        try:
            self.run_until_complete(main)
        finally:
            self.call_soon(self._end_all)
            self.run_forever()
            self.close()

    def _end_all(self) -> None:
        for process in [*self._processes, self.world]:
            self.end(process)
        self.stop()

    def _heed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.errors.append(f"{context['message']}: {error!r}")


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """While it is open, chance comes from ``seed`` for all who have none of their own: backoff, and how long a watch
    lasts."""
    before = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)


def _of(handle: asyncio.Handle, world: Process) -> Process:
    return handle._context.get(_current, world)  # type: ignore[attr-defined,no-any-return]
