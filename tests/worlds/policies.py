"""The policy of the simulated world: a plug-in that has rules, and cannot be relied on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any, Final

from extauthz.core.model import Growth
from extauthz.core.policies import Enlisted, Fate, GrowthPolicy, Limit, NotYet, Refused

LIMITED: Final[Mapping[str, int]] = {"web": 3}
"""The beginning of a workload's name, to the highest count that ``Odd`` lets it be raised to."""

FAILS: Final[Mapping[str, int]] = {"job": 4}
"""The same, to the highest count that ``Odd`` does not fail at."""


def most(name: str) -> int | None:
    """The highest count that ``Odd`` lets a workload be raised to; ``None``: any."""
    return {**LIMITED, **FAILS}.get(name[:3])


class Odd(GrowthPolicy):
    """Has a rule for each workload, and now and then fails, lies about its type, or refuses; until there is peace."""

    def __init__(self, random: Random, peace: asyncio.Event) -> None:
        self._random = random
        self._peace = peace
        self.reserved: dict[str, Growth] = {}
        """Grants that it was told of, and not of their end."""
        self.wrong = ""
        """What it was told that cannot be."""

    def filter(self, growth: Growth) -> Refused | None:
        if not self._peace.is_set() and growth.to > max(growth.before, FAILS.get(growth.ref.name[:3], growth.to)):
            raise RuntimeError("so many")
        said: Refused | None = self._said(growth, Refused("odd"))
        return said

    def limit(self, growth: Growth) -> Limit | None:
        limit = LIMITED.get(growth.ref.name[:3])
        return Limit(limit) if limit is not None and not self._peace.is_set() else None

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

    def after(self, growth: Growth, fate: Fate) -> None:
        if self.reserved.pop(growth.id, None) is None:
            self.wrong = f"it was told of the end of {growth.id}, and never of a grant"
        self._may_fail()

    def _may_fail(self) -> None:
        if not self._peace.is_set() and self._random.random() < 0.05:
            raise RuntimeError("odd")


def enlisted(odd: Odd) -> tuple[Enlisted, ...]:
    """As a gate is given it."""
    return (Enlisted("odd", odd),)
