"""Nodes and containers: what happens to them, in the order of time."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from itertools import count
from typing import Final

from .container import Container, Phase
from .setup import BACK_OFF_S, CAPACITY, GIB, NODES, RESET_S, SLOWED, Free, Workload

AT_MOST_S: Final = 7 * 86400.0
"""No run takes a week. One that does would never end."""


class Node:
    """The memory of one machine."""

    def __init__(self, system: int) -> None:
        self.system = system
        self.containers: list[Container] = []
        """Placed here, and not ended: some may wait for their restart."""

    @property
    def used(self) -> int:
        return self.system + sum(one.holds for one in self.containers)

    def running(self) -> list[Container]:
        """Those that have memory, in the order in which they were placed."""
        return [one for one in self.containers if one.phase is Phase.RUNNING]


class Cluster:
    """One run: all containers of a workload are submitted at the start, and it ends with the last of them."""

    def __init__(self, workload: Workload, degree: int, free: Free, seed: int) -> None:
        self.workload, self.free = workload, free
        self.now_s = 0.0
        self.nodes = [Node(round(free.system_gb * GIB)) for _ in range(NODES)]
        self.containers = [
            Container(number, random.Random(f"{seed} {number}"))  # noqa: S311 (a simulation)
            for number in range(workload.containers)
        ]
        self.queue = list(self.containers)
        self.admits: Callable[[Container], bool] = lambda _: True
        """Whether a container may start now. A remedy may say no."""
        self._fit = round(free.allocatable_gb * GIB) * degree // (100 * workload.limit)
        """Requests are limits over the degree. So many fit on a node."""
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    def at(self, when_s: float, act: Callable[[], None]) -> None:
        """Have something happen."""
        heapq.heappush(self._due, (when_s, next(self._order), act))

    def every(self, period_s: float, act: Callable[[], None]) -> None:
        """Have something happen again and again."""

        def once() -> None:
            act()
            self.at(self.now_s + period_s, once)

        self.at(self.now_s + period_s, once)

    def run(self) -> None:
        """Until all containers have ended."""
        self.place()
        while any(one.phase is not Phase.ENDED for one in self.containers):
            self.now_s, _, act = heapq.heappop(self._due)
            assert self.now_s < AT_MOST_S, "no end in sight"
            act()

    def place(self) -> None:
        """Start what the requests leave room for, first come, first served, on the node with the most room."""
        while self.queue:
            node = min(self.nodes, key=lambda one: len(one.containers))
            if len(node.containers) >= self._fit or not self.admits(self.queue[0]):
                return
            container = self.queue.pop(0)
            container.node, container.started_s = node, self.now_s
            node.containers.append(container)
            self._begin(container)

    def pause(self, container: Container) -> None:
        """Cut its CPU: what it does next takes longer. The others have its share."""
        container.is_paused = True
        self._pace(container, SLOWED)
        self._share(container)

    def resume(self, container: Container) -> None:
        """Give it back its CPU."""
        container.is_paused = False
        self._share(container)

    def kill(self, container: Container) -> None:
        """It loses all it has done, and starts again after its back-off."""
        first_s, most_s = BACK_OFF_S
        if self.now_s - container.began_s >= RESET_S:
            container.back_off_s = 0.0
        container.back_off_s = min(2 * container.back_off_s, most_s) or first_s
        container.kills += 1
        container.off_s += container.back_off_s
        container.phase, container.holds = Phase.BACKING_OFF, 0
        container.is_paused, container.pace = False, 1.0
        self._then(container, container.back_off_s, self._begin)
        self._share(container)

    def _begin(self, container: Container) -> None:
        container.phase, container.began_s, container.cycle = Phase.RUNNING, self.now_s, 0
        self._take(container, self.workload.limit // 2)
        self._fill(container)
        self._share(container)

    def _fill(self, container: Container) -> None:
        """Begin a cycle."""
        container.wants = round(container.draw() * self.workload.limit / 2)
        self._work(container, self.free.step_s, self._step)

    def _step(self, container: Container) -> None:
        """Allocate once more, or hold what there is."""
        more = min(self.workload.step, container.wants)
        container.wants -= more
        self._take(container, more)
        if container.wants:
            self._work(container, self.free.step_s, self._step)
        else:
            self._work(container, self.free.hold_s, self._release)

    def _release(self, container: Container) -> None:
        """Free what the cycle took; go on with the next one, or end."""
        container.cycle += 1
        if container.cycle < self.free.cycles:
            container.holds = self.workload.limit // 2
            self._fill(container)
            return
        assert container.node is not None
        container.phase, container.ended_s = Phase.ENDED, self.now_s
        container.holds = 0
        container.node.containers.remove(container)
        self._share(container)
        self.place()

    def _take(self, container: Container, more: int) -> None:
        """Allocate. If the node has no more, the kernel kills until it has."""
        node = container.node
        assert node is not None
        container.holds += more
        while node.used > CAPACITY:
            self.kill(max(node.running(), key=lambda one: one.holds))

    def _work(self, container: Container, usual_s: float, then: Callable[[Container], None]) -> None:
        """``then`` happens when the container has worked for some time. A killed container works no longer."""
        if container.phase is Phase.RUNNING:
            self._then(container, container.around(usual_s, self.free.jitter) * container.pace, then)

    def _share(self, changed: Container) -> None:
        """Containers on the node of ``changed`` that run and are not paused have its cores in equal parts, and never
        more than one each."""
        assert changed.node is not None
        sharing = [one for one in changed.node.running() if not one.is_paused]
        pace = max(1.0, len(sharing) / self.free.cores)
        for one in sharing:
            # One that begins has nothing to do yet: what it does first has this pace.
            if one.pace != pace and one.then is not None:
                self._pace(one, pace)

    def _pace(self, container: Container, pace: float) -> None:
        """What it is about to do takes so many times as long from now on."""
        assert container.then is not None
        left_s = (container.due_s - self.now_s) * pace / container.pace
        container.pace = pace
        self._then(container, left_s, container.then)

    def _then(self, container: Container, after_s: float, then: Callable[[Container], None]) -> None:
        """What a container does next. What it would have done instead is void."""
        container.due_s, container.then = self.now_s + after_s, then
        container.turn = turn = container.turn + 1
        self.at(container.due_s, lambda: then(container) if container.turn == turn else None)
