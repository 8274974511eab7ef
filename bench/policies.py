"""What a plug-in costs, beside the same decision without one."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from extauthz.core.model import Growth
from extauthz.core.policies import Enlisted, GrowthPolicy, Limit, NotYet, Policies
from extauthz.inputs.policies.plugins import Patience

from .decision import FULL, QUICK, Size, batch, batch_us, in_us, loaded
from .figures import Figure, turns

__all__ = ["FULL", "QUICK", "measure"]

COST = 1.5


class Calm(GrowthPolicy):
    """A plug-in that looks and lets pass."""

    def limit(self, growth: Growth) -> Limit | None:
        return Limit(growth.before + 100)

    def permit(self, growth: Growth) -> NotYet | None:
        return NotYet("full", 1.0) if growth.rises.get("requests.cpu", 0) > 10**15 else None


def measure(size: Size, say: Callable[[str], None]) -> list[Figure]:
    """Both gates know the same cluster, and each pair of batches is of the same moment."""
    population, pick = size.small, random.Random("policies")
    plain, asking = loaded(population), loaded(population)
    asking.enlist(Policies([Enlisted("calm", Calm())], ask=Patience(10.0, time.monotonic).ask))
    spent: dict[int, list[float]] = {id(plain): [], id(asking): []}
    for order in turns((plain, asking), size.rounds * 2):
        requests = batch("KPA PATCH", population, size.decisions, pick)
        for gate in order:
            spent[id(gate)].append(batch_us(gate, requests))
    say(f"policies: {size.rounds * 2} rounds")
    return [in_us("decision with a plug-in, over one without", spent[id(asking)], spent[id(plain)], COST)]
