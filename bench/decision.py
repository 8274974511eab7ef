"""The pure decision, without a wire: what it costs as quotas and workloads grow, and what a workload weighs."""

from __future__ import annotations

import gc
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from extauthz.core.decision.gate import Gate
from extauthz.core.intake.counts import read
from extauthz.core.ledger.entry import Event
from extauthz.core.model import Request, Verdict

from .figures import Figure, Goal, median_ratio
from .population import WORKLOADS_PER_TEMPLATE, Population
from .requests import SENDERS

BYTES_A_WORKLOAD = 1_000
COST_GROWTH = 1.3


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    small: Population
    large: Population
    rounds: int
    decisions: int
    """In a batch: one batch a gate and round."""


FULL = Size(Population(10, 10_000), Population(100_000, 1_000_000), rounds=40, decisions=1_000)
QUICK = Size(Population(10, 1_000), Population(1_000, 10_000), rounds=7, decisions=200)


def measure(size: Size, say: Callable[[str], None]) -> list[Figure]:
    """Cost and memory, small against large."""
    say(f"loading {size.large.quota_count:,} quotas and {size.large.workload_count:,} workloads")
    large, bytes_a_workload = _loaded(size.large)
    small, _ = _loaded(size.small)
    gc.collect()
    gc.freeze()  # as the service does after a load
    return [*(_cost(kind, size, small, large, say) for kind in SENDERS), _memory(size, bytes_a_workload)]


def _loaded(population: Population) -> tuple[Gate, float]:
    gate = Gate()
    gate.load_quotas(population.quotas(), 0.0)
    gc.collect()
    before = _resident_bytes()
    gate.load_state(population, 0.0)
    gc.collect()
    return gate, (_resident_bytes() - before) / population.workload_count


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def _cost(kind: str, size: Size, small: Gate, large: Gate, say: Callable[[str], None]) -> Figure:
    pick = random.Random(kind)
    costs: dict[Population, list[float]] = {size.small: [], size.large: []}
    gates = [(size.small, small), (size.large, large)]
    for number in range(size.rounds):
        for population, gate in gates if number % 2 else reversed(gates):
            costs[population].append(batch_us(gate, batch(kind, population, size.decisions, pick)))
        say(f"decision, {kind}: round {number + 1} of {size.rounds}")
    ratio = median_ratio(costs[size.large], costs[size.small])
    return Figure(
        f"decision, {kind}: {size.large.quota_count:,} quotas and {size.large.workload_count:,} workloads "
        f"over {size.small.quota_count:,} and {size.small.workload_count:,}",
        f"{median(costs[size.large]):.1f} µs",
        f"{median(costs[size.small]):.1f} µs",
        ratio,
        Goal(COST_GROWTH),
    )


def batch(kind: str, population: Population, count: int, pick: random.Random) -> list[Request]:
    """Growth of workloads drawn from the whole population, so that caches help no more than they do in use."""
    send = SENDERS[kind]
    return [send(population, i, 9 + i % 3) for i in pick.sample(range(population.workload_count), count)]


def batch_us(gate: Gate, requests: Sequence[Request]) -> float:
    """Processor time a decision; each is a charged grant, settled afterwards, so that batches are alike."""
    ids = [f"{number:016x}" for number in range(len(requests))]
    start = time.process_time()
    decisions = [gate.decide(read(request), one, 0.0) for request, one in zip(requests, ids, strict=True)]
    spent_s = time.process_time() - start
    for decision in decisions:
        assert decision.verdict is Verdict.ALLOW, decision.sentence
        assert decision.pending_write is not None, decision.sentence
        gate.ledger.pending.settle(decision.pending_write, Event.NOT_FORWARDED, 0.0)
    assert not gate.ledger.pending_writes, "all were settled"
    return spent_s / len(requests) * 1e6


def _memory(size: Size, bytes_a_workload: float) -> Figure:
    return Figure(
        f"memory a workload ({size.large.workload_count:,}; {WORKLOADS_PER_TEMPLATE} share a template)",
        f"{bytes_a_workload:.0f} B",
        f"{BYTES_A_WORKLOAD} B",
        bytes_a_workload / BYTES_A_WORKLOAD,
        Goal(1.0),
    )
