"""What is done against a lack of memory: nothing, pausing as in the paper, or holding growth as a gate could."""

from __future__ import annotations

from memory_pressure import marks as pausing
from memory_pressure.marks import Marks, Next, Pool

from .cluster import Cluster, Node
from .container import Container
from .setup import CAPACITY


class Pausing:
    """The paper's remedy on one node, a round at a time.

    Its listing is mended: it goes back to waiting once all are released; it pauses as many as there are where there are
    fewer than R; it releases each container that it has paused; and it kills no more than it takes to get below Mlower.
    """

    def __init__(self, cluster: Cluster, node: Node, marks: Marks) -> None:
        self._cluster, self._node, self._marks = cluster, node, marks
        self._paused: list[Container] = []
        self._pausing = pausing.Pausing(marks)
        cluster.every(cluster.free.round_s, self._look)

    def _look(self) -> None:
        self._paused = [one for one in self._paused if one.is_paused]  # one that ended or was killed no longer is
        now = self._pausing.look(self._node.used, CAPACITY, bool(self._paused))
        if now is Next.PAUSE:
            self._restrict()
        elif now is Next.RELEASE:
            for one in self._paused:
                self._cluster.resume(one)
            self._paused = []

    def _restrict(self) -> None:
        """Pause those that use the least memory. If all are paused, kill the last ones, until there is memory."""
        candidates = sorted((one for one in self._node.running() if not one.is_paused), key=lambda one: one.holds)
        for one in candidates[: self._marks.step]:
            self._cluster.pause(one)
            self._paused.append(one)
        if not candidates:
            self._kill()

    def _kill(self) -> None:
        for one in reversed(self._paused[-self._marks.step :]):
            if not self._marks.left(self._node.used, CAPACITY):
                self._cluster.kill(one)


class Holding:
    """Ours: whoever would start a container asks a gate, when the requests leave room for it.

    It sees the pool, not the node that the scheduler will choose. It sees it as old as the metrics are.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._pool = Pool(cluster.free.hold_marks, forget_s=10 * cluster.free.metrics_s)
        cluster.admits = self._admits
        cluster.every(cluster.free.metrics_s, self._look)

    def _look(self) -> None:
        nodes = self._cluster.nodes
        self._pool.look(sum(node.used for node in nodes), CAPACITY * len(nodes), self._cluster.now_s)
        self._cluster.place()  # whoever was turned away asks again

    def _admits(self, container: Container) -> bool:
        if not self._pool.passes(container.number):
            self._pool.turned_away(container.number, self._cluster.now_s)
            return False
        self._pool.let_go(container.number)
        return True


def put(remedy: str, cluster: Cluster, marks: Marks) -> None:
    """Have a cluster use a remedy. ``marks``: those of pausing."""
    if remedy == "pause":
        for node in cluster.nodes:
            Pausing(cluster, node, marks)
    elif remedy == "hold":
        Holding(cluster)
