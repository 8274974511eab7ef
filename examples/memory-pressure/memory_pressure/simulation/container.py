"""One container: what it holds, what it does next, and what became of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .cluster import Node


class Phase(Enum):
    """Where a container is."""

    QUEUED = "queued"
    RUNNING = "running"
    BACKING_OFF = "backing off"
    ENDED = "ended"


@dataclass(slots=True, eq=False)
class Container:
    """Memory in MiB, times in seconds since the start of the run."""

    number: int
    chance: random.Random
    phase: Phase = Phase.QUEUED
    node: Node | None = None
    holds: int = 0
    wants: int = 0
    """What this cycle will still allocate."""
    cycle: int = 0
    is_paused: bool = False
    pace: float = 1.0
    """How many times as long everything takes."""
    kills: int = 0
    back_off_s: float = 0.0
    """The last one."""
    off_s: float = 0.0
    """All of them."""
    started_s: float = 0.0
    began_s: float = 0.0
    """The last time."""
    ended_s: float = 0.0
    due_s: float = 0.0
    then: Callable[[Container], None] | None = None
    """What it does at ``due_s``."""
    turn: int = 0
    """Of ``then``."""

    def draw(self) -> float:
        """How much of what it may take this cycle takes: above 0, at most 1."""
        return 1 - self.chance.random()

    def around(self, usual_s: float, jitter: float) -> float:
        """A time near the usual one."""
        return usual_s * self.chance.uniform(1 - jitter, 1 + jitter)
