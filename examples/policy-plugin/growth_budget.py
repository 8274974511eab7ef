"""A policy for extauthz: a workload grows by so many replicas in a while, and no more.

``limit`` says how far a workload may grow at once, ``rank`` who comes first in a line, ``permit`` when it is worth to
ask again, ``reserve`` and ``after`` keep the books. A grant that came to nothing is given back.

    EXTAUTHZ_POLICIES=growth-budget GROWTH_BUDGET=10 GROWTH_BUDGET_S=60 extauthz serve …
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from extauthz.inputs.policies import Fate, Growth, GrowthPolicy, Limit, NotYet

CAME_TO_NOTHING = frozenset({Fate.REFUSED, Fate.NOT_SENT, Fate.WITHDRAWN})


class GrowthBudget(GrowthPolicy):
    """Lets each workload grow by ``replicas`` within ``seconds``.

    It runs in the loop that decides, so it needs no lock, and must never wait.
    """

    def __init__(self, replicas: int, seconds: float) -> None:
        self._replicas = replicas
        self._seconds = seconds
        self._grants: dict[object, dict[str, tuple[float, int]]] = {}
        """Workload to its grants of late: decision to when it was, and by how many replicas."""

    def limit(self, growth: Growth) -> Limit | None:
        """How far it may grow. Where nothing is left, ``permit`` says when something will be."""
        left = self._replicas - self._spent(growth)
        if left <= 0:
            return None
        return Limit(growth.before + left, f"{left} more replicas within {self._seconds:g} s")

    def rank(self, growth: Growth) -> int:
        """In a line, who grew by less of late comes first. Asked only under quotas with turns."""
        return min(self._spent(growth), 1_000)

    def permit(self, growth: Growth) -> NotYet | None:
        """Not before the oldest grant is old enough."""
        if growth.to <= growth.before or self._spent(growth) < self._replicas:
            return None
        oldest_s = min(at_s for at_s, _ in self._of_late(growth).values())
        wait_s = oldest_s + self._seconds - growth.now_s
        return NotYet(f"it grew by {self._spent(growth)} replicas within {self._seconds:g} s", wait_s)

    def reserve(self, growth: Growth) -> None:
        """It was granted. Told twice, it counts once."""
        if growth.to > growth.before:
            self._of_late(growth)[growth.id] = (growth.now_s, growth.to - growth.before)

    def after(self, growth: Growth, fate: Fate) -> None:
        """What came to nothing is given back."""
        if fate in CAME_TO_NOTHING:
            self._of_late(growth).pop(growth.id, None)

    def _spent(self, growth: Growth) -> int:
        return sum(replicas for _, replicas in self._of_late(growth).values())

    def _of_late(self, growth: Growth) -> dict[str, tuple[float, int]]:
        """The grants that count. What is older is forgotten, with workloads that have none left."""
        since_s = growth.now_s - self._seconds
        for ref, grants in list(self._grants.items()):
            kept = {name: one for name, one in grants.items() if one[0] > since_s}
            if kept:
                self._grants[ref] = kept
            else:
                del self._grants[ref]
        return self._grants.setdefault(growth.ref, {})


def from_environment(environment: Mapping[str, str] = os.environ) -> GrowthBudget:
    """What the entry point names: the gate calls it once, without arguments."""
    return GrowthBudget(int(environment.get("GROWTH_BUDGET", "10")), float(environment.get("GROWTH_BUDGET_S", "60")))
