"""What a decision costs where every quota is guaranteed something, beside one without; and with 100,000 such quotas."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from dataclasses import replace

from extauthz.core.decision.gate import Gate
from extauthz.core.quota.tree import QuotaTree

from .decision import COST_GROWTH, FULL, QUICK, Size, batch, batch_us, in_us, loaded
from .figures import Figure, turns
from .population import Population

__all__ = ["FULL", "QUICK", "measure"]

COST = 1.5

GUARANTEED = {"requests.cpu": 10**9, "requests.memory": 10**18, "limits.memory": 10**9, "pods": 10**13}
"""Of each workspace. Of two keys it uses more, so that it needs more; of the others less."""

FEWER = 10
"""Workloads of the large one are so many times fewer than elsewhere: quotas are what is many here."""


def measure(size: Size, say: Callable[[str], None]) -> list[Figure]:
    """Both figures. Each pair of batches is of the same moment."""
    many = replace(size.large, workload_count=size.large.workload_count // FEWER)
    plain, few = (_gate(size.small, guaranteed=guaranteed) for guaranteed in (False, True))
    large = _gate(many, guaranteed=True)
    gc.collect()
    gc.freeze()
    pick, gates = random.Random("guarantees"), [(size.small, plain), (size.small, few), (many, large)]
    costs: list[list[float]] = [[], [], []]
    for order in turns((0, 1, 2), size.rounds):
        for at in order:
            population, gate = gates[at]
            costs[at].append(batch_us(gate, batch("KPA PATCH", population, size.decisions, pick)))
    say(f"guarantees: {size.rounds} rounds")
    quotas = f"{many.quota_count:,} quotas over {size.small.quota_count:,}"
    return [
        in_us("decision where every quota has guarantees, over one without", costs[1], costs[0], COST),
        in_us(f"decision with guarantees: {quotas}", costs[2], costs[1], COST_GROWTH),
    ]


def _gate(population: Population, *, guaranteed: bool) -> Gate:
    nodes = population.quotas().nodes
    given = (replace(one.quota, guaranteed=GUARANTEED if guaranteed and one.parent else {}) for one in nodes)
    return loaded(population, QuotaTree.build(given))
