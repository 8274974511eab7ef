"""Who is told of decisions, and when: once the answer has left, in the order in which they were made."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from extauthz.core.model import Decision, Growth


class Told(NamedTuple):
    """A decision, or the answer to whether a count is lowered (``Lower``), as observers are told of it."""

    decision: Decision
    user: str = ""
    """Who sent it, as whoever asked vouches for it. Empty: not known."""
    user_agent: str = ""
    seconds: float = 0.0
    """What it took."""
    held: Growth | None = None
    """What a policy does not let go yet. It may be large: only policies look at it, and nobody keeps it."""


Observer: TypeAlias = Callable[[Told], None]
"""Must not block."""


class Observers:
    """Tells them. What waits is told at the latest by ``drain``, which a stop calls.

    Args:
        observers: told of each decision, in this order.
        tell: told of an observer that fails. The others are told all the same.
    """

    def __init__(self, observers: Sequence[Observer], tell: Callable[..., None]) -> None:
        self._observers = observers
        self._tell = tell
        self._waiting: list[Told] = []

    def put(self, told: Told) -> None:
        """Tell them later. A server writes its answer in this turn of the loop, or in the next one."""
        if not self._waiting:
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self.drain)
        self._waiting.append(told)

    def drain(self) -> None:
        """Tell them now of all that waits."""
        waiting, self._waiting = self._waiting, []
        for told in waiting:
            for observer in self._observers:
                try:
                    observer(told)
                except Exception:  # noqa: BLE001 (whatever it is, the write was answered, and others are to know)
                    self._tell("error", "observer-failed", id=told.decision.id, traceback=traceback.format_exc())
