"""What to do while nodes are short of memory: hold growth (``Pool``), or pause what runs (``Pausing``).

A pool is *open* or *held*. It is held from the round in which its use reaches ``upper``. Nobody grows then, and who was
turned away stands in line. Once the use is down to ``lower``, the first ``step`` of the line may go, and after
``patience`` rounds the next ones. A held pool opens when nobody stands in line. A round is one look at the nodes.

Pausing is that of a paper, which has the names of the marks too (Kang and Yu, doi 10.3745/TKIPS.2024.13.3.91): Mupper,
Mlower, T and R. It acts on one node; ``step`` containers are paused from the upper mark on, and all are released at the
lower one (simulation.md).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from enum import Enum
from itertools import islice
from typing import NamedTuple


class NodeMemory(NamedTuple):
    """One node. Amounts are in one unit, whichever."""

    name: str
    labels: Mapping[str, str]
    capacity: int
    used: int | None
    """``None``: there are no metrics of it, or only old ones."""


class Marks(NamedTuple):
    """When there is too little memory, when there is enough, and how fast to act."""

    upper: int
    """Percent of the memory. From here on growth is held, or containers are paused (Mupper)."""
    lower: int
    """Percent. From here down growth is let go, or containers are released (Mlower)."""
    patience: int
    """Rounds from one step to the next (T)."""
    step: int
    """How many are let go, or paused, in one step (R)."""

    def reached(self, used: int, capacity: int) -> bool:
        """Whether that is the upper mark or more."""
        return used * 100 >= capacity * self.upper

    def left(self, used: int, capacity: int) -> bool:
        """Whether that is the lower mark or less."""
        return used * 100 <= capacity * self.lower


class Next(Enum):
    """What pausing does now."""

    WAIT = "wait"
    PAUSE = "pause"
    """The next ``step`` containers."""
    RELEASE = "release"
    """All that are paused."""


class Pausing:
    """The paper's remedy on one node, a round at a time. Who is paused the caller knows."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks
        self._rounds = 0
        """Since containers were last paused."""

    def look(self, used: int, capacity: int, is_any_paused: bool) -> Next:
        """One round."""
        if not is_any_paused:
            self._rounds = 0
            return Next.PAUSE if self._marks.reached(used, capacity) else Next.WAIT
        if self._marks.left(used, capacity):
            return Next.RELEASE
        self._rounds += 1
        if self._rounds < self._marks.patience:
            return Next.WAIT
        self._rounds = 0
        return Next.PAUSE


class Pool:
    """What one pool remembers. Asking (``passes``) changes nothing.

    Args:
        marks: when it is held.
        forget_s: who has not asked for so long no longer stands in line.
    """

    def __init__(self, marks: Marks, forget_s: float) -> None:
        self.marks = marks
        self.is_held = False
        self._forget_s = forget_s
        self._asked_s: dict[Hashable, float] = {}
        """The line, oldest first: who waits → when it last asked."""
        self._left = 0
        """How many may still go in this step."""
        self._rounds = 0
        """Since the last step."""

    @property
    def waiting(self) -> tuple[Hashable, ...]:
        """Who stands in line, oldest first."""
        return tuple(self._asked_s)

    def look(self, used: int, capacity: int, now_s: float) -> None:
        """One round: the nodes of the pool use ``used`` of ``capacity`` bytes."""
        self._asked_s = {who: at_s for who, at_s in self._asked_s.items() if now_s - at_s <= self._forget_s}
        if self.marks.reached(used, capacity):
            self.is_held, self._left, self._rounds = True, 0, self.marks.patience
            return
        self._rounds += 1
        if not self.marks.left(used, capacity):
            return
        if not self._asked_s:
            self.is_held = False
        elif self._rounds >= self.marks.patience:
            self._left, self._rounds = self.marks.step, 0

    def passes(self, who: Hashable) -> bool:
        """Whether ``who`` may grow now."""
        if not self.is_held:
            return True
        if who in self._asked_s:
            return who in islice(self._asked_s, self._left)
        return len(self._asked_s) < self._left

    def turned_away(self, who: Hashable, now_s: float) -> None:
        """``who`` may not grow now: it keeps its place in line, or takes the last one."""
        self._asked_s[who] = now_s

    def gives_way(self, who: Hashable, now_s: float) -> None:
        """``who`` may grow here, and is held elsewhere: its turn is the next one's."""
        if self._asked_s.pop(who, None) is not None:
            self._asked_s[who] = now_s

    def let_go(self, who: Hashable) -> None:
        """``who`` grows."""
        self._asked_s.pop(who, None)
        self._left -= 1
