"""Policies of the simulated world: those that operators write into quotas, and a plug-in that cannot be relied on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any, Final

from extauthz.core.model import Growth, Tree
from extauthz.core.policies import Enlisted, Fate, GrowthPolicy, NotYet, Refused

WRITTEN: Final[Mapping[str, str]] = {
    "most-2": "write.to <= 2",
    "most-4": "write.to <= workload.replicas || write.to <= 4",
    "limit-3": "1 + 2",
    "fails-0": "write.to / 0 > 0",
}
"""Name to expression. The name ends with the highest count that a workload may be raised to."""


def written(names: tuple[str, ...]) -> Tree:
    """``spec.policies``."""
    return [{"name": name, "expression": WRITTEN[name], "message": name} for name in names]


def most(policies: Tree) -> int | None:
    """The highest count that such policies let a workload be raised to; ``None``: any."""
    return min((int(one["name"].rpartition("-")[2]) for one in policies or ()), default=None)


class Odd(GrowthPolicy):
    """Fails, lies about its type, or refuses, now and then; until there is peace."""

    def __init__(self, random: Random, peace: asyncio.Event) -> None:
        self._random = random
        self._peace = peace
        self.reserved: dict[str, Growth] = {}
        """Grants that it was told of, and not of their end."""
        self.wrong = ""
        """What it was told that cannot be."""

    def filter(self, growth: Growth) -> Refused | None:
        said: Refused | None = self._said(growth, Refused("odd"))
        return said

    def permit(self, growth: Growth) -> NotYet | None:
        said: NotYet | None = self._said(growth, NotYet("odd", 5.0))
        return said

    def _said(self, growth: Growth, said: Any) -> Any:
        if not growth.rises and growth.to <= growth.before:
            self.wrong = f"it was asked about {growth.ref}, which raises nothing"
        chance = 1.0 if self._peace.is_set() else self._random.random()
        if chance < 0.03:
            raise RuntimeError("odd")
        return said if chance < 0.08 else "a lie" if chance < 0.1 else None

    def reserve(self, growth: Growth) -> None:
        if growth.id in self.reserved:
            self.wrong = f"it was told twice of {growth.id}"
        self.reserved[growth.id] = growth
        self._may_fail()

    def unreserve(self, growth: Growth) -> None:
        if self.reserved.pop(growth.id, None) is None:
            self.wrong = f"it was told of the end of {growth.id}, and never of a grant"
        self._may_fail()

    def after(self, growth: Growth, fate: Fate) -> None:
        if growth.id in self.reserved:
            self.wrong = f"it was told what became of {growth.id} before its end"
        self._may_fail()

    def _may_fail(self) -> None:
        if not self._peace.is_set() and self._random.random() < 0.05:
            raise RuntimeError("odd")


def enlisted(odd: Odd) -> tuple[Enlisted, ...]:
    """As a gate is given it."""
    return (Enlisted("odd", odd),)
