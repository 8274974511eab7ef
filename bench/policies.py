"""What a plug-in costs, beside the same decision without one."""

from __future__ import annotations

import random
import time
from statistics import median

from extauthz.core.decision.gate import Gate
from extauthz.core.model import Growth
from extauthz.core.policies import Enlisted, GrowthPolicy, Limit, NotYet, Policies
from extauthz.inputs.policies.plugins import Patience

from .decision import Size, batch, batch_us
from .figures import Figure, Goal, median_ratio
from .population import Population

COST = Goal(1.5)


class Calm(GrowthPolicy):
    """A plug-in that looks and lets pass."""

    def limit(self, growth: Growth) -> Limit | None:
        return Limit(growth.before + 100)

    def permit(self, growth: Growth) -> NotYet | None:
        return NotYet("full", 1.0) if growth.rises.get("requests.cpu", 0) > 10**15 else None


def measure(size: Size) -> Figure:
    """One figure. Both gates know the same cluster, and each pair of batches is of the same moment."""
    population = size.small
    pick = random.Random("policies")
    plain, asking = _gate(population), _gate(population)
    asking.enlist(Policies([Enlisted("calm", Calm())], ask=Patience(10.0, time.monotonic).ask))
    spent: dict[int, list[float]] = {id(plain): [], id(asking): []}
    for number in range(size.rounds * 2):
        requests = batch("KPA PATCH", population, size.decisions, pick)
        for gate in (plain, asking) if number % 2 else (asking, plain):
            spent[id(gate)].append(batch_us(gate, requests))
    ratio = median_ratio(spent[id(asking)], spent[id(plain)])
    name = "decision with a plug-in, over one without"
    return Figure(name, f"{median(spent[id(asking)]):.1f} µs", f"{median(spent[id(plain)]):.1f} µs", ratio, COST)


def _gate(population: Population) -> Gate:
    gate = Gate()
    gate.load_quotas(population.quotas(), 0.0)
    gate.load_state(population.state, 0.0)
    return gate
