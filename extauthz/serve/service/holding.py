"""The recovery hold: a gate that cannot know what an earlier run allowed grants no growth until all of that has landed.

A shared ledger knows it. A ledger in memory has forgotten it (design.md L5).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from extauthz.core.decision.gate import Gate
from extauthz.serve.service.inputs import Clock
from extauthz.serve.service.setting_types import KUBERNETES
from extauthz.serve.service.settings import Settings
from extauthz.tell.observe.log import Log

WHY = "a ledger in memory does not know which writes an earlier run allowed"


class Holding:
    def __init__(self, settings: Settings, gate: Gate, log: Log, clock: Clock) -> None:
        self._settings = settings
        self._gate = gate
        self._log = log
        self._clock = clock
        self._until_s: float | None = None
        """When the landing window of the last run's writes has elapsed; ``None``: nothing is held."""

    def begin(self) -> None:
        """Hold growth where writes of an earlier run may be under way.

        A state file is for demonstrations, and is trusted as it stands.
        """
        if self._settings.state != KUBERNETES or self._settings.shares_ledger:
            return
        if self._settings.on("unclean-start") == "allow":
            self._log.event("warning", "not-holding", why=WHY)
            return
        self._until_s = self._clock() + self._settings.window_s
        self._gate.hold(self._until_s)
        self._log.event("warning", "holding", why=WHY, seconds=self._settings.window_s)

    async def release(self, list_anew: Callable[[], Awaitable[None]]) -> None:
        """Let growth pass again, once the landing window has elapsed and everything was listed after that."""
        if self._until_s is None:
            return
        await asyncio.sleep(max(self._until_s - self._clock(), 0.0))
        await list_anew()
        self._until_s = None
        self._gate.release()
        self._log.event("info", "released")

    def notes(self) -> list[str]:
        if self._until_s is None:
            return []
        left_s = max(self._until_s - self._clock(), 0.0)
        return [
            f"grants no growth for another {left_s:.0f} s: writes that were allowed before the start may still land"
        ]
