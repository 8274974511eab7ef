"""The policy ``memory-pressure``: growth that costs memory waits while nodes are short of it (README.md).

Each pool of nodes has marks and a line (``marks.Pool``). Whoever is turned away takes a place in the line of
each pool that holds it. To be asked changes nothing. Time and what nodes use come from the caller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from cachetools import LRUCache

from extauthz.core.model import Tree, WorkloadRef
from extauthz.inputs.policies import Fate, Growth, GrowthPolicy, NotYet, UnknownError

from .marks import NodeMemory, Pool
from .options import STALE_AFTER_S, PoolOptions, PressureOptions
from .placement import ANY, allows, placement

NAME: Final = "memory-pressure"
"""Of the entry point, by which the setting ``policies`` names it."""

MEMORY: Final = ("requests.memory", "limits.memory")
"""Growth of these costs memory."""

FORGET_S: Final = 120.0
"""Who has not asked for so long stands in no line any more. Autoscalers ask every 15 to 60 s."""

_PLACEMENTS: Final = 1024
"""Of how many pairs of pool and placement it is remembered whether one allows the other."""


class PoolLevel(NamedTuple):
    """How a pool stands."""

    name: str
    used: float | None
    """Part of its memory; ``None``: not known."""
    is_held: bool
    waiting: int


class _Watched:
    """A pool, its nodes, and what was seen of them last."""

    def __init__(self, options: PoolOptions) -> None:
        self.name = options.name
        self.marks = options.marks
        self.selector = options.selector
        self.line = Pool(options.marks, FORGET_S)
        self.nodes: list[Mapping[str, str]] | None = None
        """Their labels; ``None``: nobody has looked yet."""
        self.used, self.capacity = 0, 0
        self.seen_s: float | None = None
        """When its memory was known last; ``None``: it never was."""

    def look(self, nodes: Sequence[NodeMemory], now_s: float) -> bool:
        """One round; whether it has other nodes now. Without metrics of at least half of its memory nothing is seen."""
        mine = [one for one in nodes if self.selector.matches(one.labels)]
        before, self.nodes = self.nodes, [one.labels for one in mine]
        self._see(mine, now_s)
        return before != self.nodes

    def _see(self, mine: Sequence[NodeMemory], now_s: float) -> None:
        known = [(one.used, one.capacity) for one in mine if one.used is not None]
        capacity = sum(has for _, has in known)
        if 2 * capacity < sum(one.capacity for one in mine):
            return
        self.used, self.capacity, self.seen_s = sum(used for used, _ in known), max(capacity, 1), now_s
        self.line.look(self.used, self.capacity, now_s)

    def may_have(self, placement: str) -> bool:
        """Whether pods of that placement may land on a node of it."""
        return self.nodes is None or any(allows(placement, labels) for labels in self.nodes)

    def sentence(self, who: Hashable) -> str:
        waiting = self.line.waiting
        before = waiting.index(who) if who in waiting else len(waiting)
        ahead = f", {before} before it in line" if before else ""
        return (
            f"nodes of pool {self.name} use {100 * self.used // self.capacity} % of their memory, growth waits from "
            f"{self.marks.upper} % on until it is {self.marks.lower} %{ahead}"
        )


class MemoryPressure(GrowthPolicy):
    """One gate's. Other gates have their own, with lines of their own."""

    def __init__(self, options: PressureOptions) -> None:
        self._options = options
        self._pools = tuple(_Watched(one) for one in options.pools)
        self._allowed: LRUCache[tuple[str, str], bool] = LRUCache(_PLACEMENTS)
        """A pool and a placement → whether the pool counts for it."""
        self._going: dict[str, Hashable] = {}
        """Grants that may still land: the id → what grows, to how many, and by how much memory."""
        self._together: Counter[Hashable] = Counter()
        """Of these, how many are for the same growth: a write that comes by two entrances takes one turn."""

    def look(self, nodes: Sequence[NodeMemory], now_s: float) -> None:
        """One round: all nodes as they are now."""
        for _ in self.looking(nodes, now_s):
            pass

    def looking(self, nodes: Sequence[NodeMemory], now_s: float) -> Iterator[None]:
        """``look`` pool by pool, each a few milliseconds where there are thousands of nodes."""
        for pool in self._pools:
            if pool.look(nodes, now_s):
                self._allowed.clear()
            yield

    def pools(self, now_s: float) -> list[PoolLevel]:
        """How all pools stand."""
        return [
            PoolLevel(
                pool.name,
                None if self._is_stale(pool, now_s) else pool.used / pool.capacity,
                pool.line.is_held,
                len(pool.line.waiting),
            )
            for pool in self._pools
        ]

    def keep(self, pod: Mapping[str, Tree]) -> str | None:
        """On which nodes the pods may land."""
        return placement(pod)

    def permit(self, growth: Growth) -> NotYet | None:
        """Not while a pool that it counts for holds it."""
        if not _costs_memory(growth):
            return None
        stale = [pool for pool in self._pools if self._is_stale(pool, growth.now_s)]
        unknown = [pool.name for pool in self._of(growth, stale)]
        if unknown:
            raise UnknownError(f"nobody says how much memory is used in pool {', '.join(unknown)}")
        who = _who(growth)
        refusing = [pool for pool in self._holding(growth) if not pool.line.passes(who)]
        if not refusing:
            return None
        again_s = max(self._again_s(pool, who) for pool in refusing)
        return NotYet("; ".join(pool.sentence(who) for pool in refusing), again_s)

    def turned_away(self, growth: Growth) -> None:
        """It stands in line where it is held. Where it could go, its turn is the next one's."""
        who = _who(growth)
        for pool in self._holding(growth):
            if pool.line.passes(who):
                pool.line.gives_way(who, growth.now_s)
            else:
                pool.line.turned_away(who, growth.now_s)

    def reserve(self, growth: Growth) -> None:
        """It has had its turn."""
        if growth.id in self._going or not _costs_memory(growth):
            return
        what = (growth.ref, growth.to, *(growth.rises.get(key, 0) for key in MEMORY))
        if not self._together[what]:
            for pool in self._holding(growth):
                pool.line.let_go(_who(growth))
        self._going[growth.id] = what
        self._together[what] += 1

    def after(self, growth: Growth, fate: Fate) -> None:
        """Nothing of it can land any more."""
        what = self._going.pop(growth.id, None)
        if what is not None:
            self._together[what] -= 1
            if not self._together[what]:
                del self._together[what]

    def _holding(self, growth: Growth) -> list[_Watched]:
        return self._of(growth, [pool for pool in self._pools if pool.line.is_held])

    def _of(self, growth: Growth, pools: Sequence[_Watched]) -> list[_Watched]:
        """Those with a node that its pods may land on; all if that is not known."""
        where = (growth.kept or {}).get(NAME, ANY)
        return [pool for pool in pools if where == ANY or self._counts(pool, where)]

    def _counts(self, pool: _Watched, placement: str) -> bool:
        key = pool.name, placement
        if key not in self._allowed:
            self._allowed[key] = pool.may_have(placement)
        return self._allowed[key]

    def _is_stale(self, pool: _Watched, now_s: float) -> bool:
        return pool.seen_s is None or now_s - pool.seen_s > STALE_AFTER_S

    def _again_s(self, pool: _Watched, who: WorkloadRef) -> float:
        """Until its turn at the earliest, and soon enough to keep its place."""
        waiting = pool.line.waiting
        before = waiting.index(who) if who in waiting else len(waiting)
        steps = before // pool.marks.step + 1
        return min(steps * pool.marks.patience * self._options.every_s, FORGET_S / 2)


def _who(growth: Growth) -> WorkloadRef:
    """Who stands in line. What is not there yet has one place for all of its kind and namespace: strangers may ask for
    as many as they can name."""
    is_there = growth.observed is not None and growth.observed.resource_version
    return growth.ref if is_there else growth.ref._replace(name="")


def _costs_memory(growth: Growth) -> bool:
    return any(growth.rises.get(key, 0) > 0 for key in MEMORY)
