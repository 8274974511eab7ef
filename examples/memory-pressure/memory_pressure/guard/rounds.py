"""One look at all nodes: whose limits are lowered now, and whose are restored. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from memory_pressure.marks import Marks, Next, Pausing

from .pods import NOTHING_LEFT, Pod, to_restore


class Use(NamedTuple):
    """Memory of a node, in nano-units of bytes."""

    used: int
    capacity: int

    def __str__(self) -> str:
        return f"{100 * self.used // self.capacity} %"


class Seen(NamedTuple):
    """What one look shows."""

    nodes: Mapping[str, Use]
    """Only nodes of which it is known, and not out of date."""
    pods: Sequence[Pod]
    memory: Mapping[tuple[str, str], int]
    """Namespace and name of a pod → what it uses."""


class Act(NamedTuple):
    """Something to do."""

    is_lowering: bool
    pod: Pod
    why: str


class Rounds:
    """Remembers what happens on each node.

    Args:
        marks: those of every node.
        dry_run: nothing is really lowered, so it remembers who would be.
    """

    def __init__(self, marks: Marks, *, dry_run: bool) -> None:
        self._marks = marks
        self._dry_run = dry_run
        self._would_be: set[str] = set()
        self._nodes: dict[str, Pausing] = {}

    def look(self, seen: Seen) -> list[Act]:
        """One round."""
        nodes = dict.fromkeys(pod.node for pod in seen.pods)
        self._nodes = {name: self._nodes.get(name) or Pausing(self._marks) for name in nodes}
        self._would_be &= {pod.uid for pod in seen.pods}
        acts = [act for name in nodes for act in self._on(name, seen)]
        if self._dry_run:
            self._would_be |= {act.pod.uid for act in acts if act.is_lowering}
            self._would_be -= {act.pod.uid for act in acts if not act.is_lowering}
        return acts

    def is_lowered(self, pod: Pod) -> bool:
        """Whether a pod is lowered, or would be."""
        return pod.lowered is not None or pod.uid in self._would_be

    def _on(self, node: str, seen: Seen) -> list[Act]:
        there = [pod for pod in seen.pods if pod.node == node]
        lowered = [pod for pod in there if self.is_lowered(pod)]
        use = seen.nodes.get(node)
        if use is None:
            return [Act(False, pod, f"the memory of node {node} is not known") for pod in lowered]
        left_over = [Act(False, pod, why) for pod in lowered if (why := _no_longer(pod))]
        held = [pod for pod in lowered if not _no_longer(pod)]
        now = self._nodes[node].look(use.used, use.capacity, bool(held))
        at = f"node {node} uses {use} of its memory"
        if now is Next.RELEASE:
            return left_over + [Act(False, pod, f"{at}, the lower mark is {self._marks.lower} %") for pod in held]
        if now is Next.WAIT:
            return left_over
        candidates = [pod for pod in there if not pod.why_not and not self.is_lowered(pod) and pod.key in seen.memory]
        least = sorted(candidates, key=lambda pod: seen.memory[pod.key])[: self._marks.step]
        why = f"{at}, the upper mark is {self._marks.upper} %"
        return left_over + [Act(True, pod, why) for pod in least]


def _no_longer(pod: Pod) -> str:
    """Why a pod need not be kept lowered; empty if it is to be."""
    if pod.lowered is not None and not to_restore(pod):
        return "nothing of it is lowered"
    return "" if pod.lowered is not None and pod.why_not == NOTHING_LEFT else pod.why_not
