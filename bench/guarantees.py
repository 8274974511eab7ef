"""What a decision costs where every quota is guaranteed something, beside one without; and with 100,000 such quotas."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from dataclasses import replace
from statistics import median

from extauthz.core.decision.gate import Gate
from extauthz.core.quota.tree import QuotaTree

from .decision import COST_GROWTH, Size, batch, batch_us
from .figures import Figure, Goal, median_ratio
from .population import Population

COST = Goal(1.5)

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
    for number in range(size.rounds):
        for at in (0, 1, 2) if number % 2 else (2, 1, 0):
            population, gate = gates[at]
            costs[at].append(batch_us(gate, batch("KPA PATCH", population, size.decisions, pick)))
    say(f"guarantees: {size.rounds} rounds")
    quotas = f"{many.quota_count:,} quotas over {size.small.quota_count:,}"
    return [
        _figure("decision where every quota has guarantees, over one without", costs[1], costs[0], COST),
        _figure(f"decision with guarantees: {quotas}", costs[2], costs[1], Goal(COST_GROWTH)),
    ]


def _figure(name: str, measured: list[float], floor: list[float], goal: Goal) -> Figure:
    shown = (f"{median(one):.1f} µs" for one in (measured, floor))
    return Figure(name, *shown, median_ratio(measured, floor), goal)


def _gate(population: Population, *, guaranteed: bool) -> Gate:
    gate, tree = Gate(), population.quotas()
    if guaranteed:
        tree = QuotaTree.build(
            replace(node.quota, guaranteed=GUARANTEED) if node.parent is not None else node.quota for node in tree.nodes
        )
    gate.load_quotas(tree, 0.0)
    gate.load_state(population.state, 0.0)
    return gate
