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
from extauthz.core.intake.read import read
from extauthz.core.ledger.pending_write import Event
from extauthz.core.model import Request, Verdict, WorkloadRef
from extauthz.core.queries import Queries

from .figures import Figure, Goal, median_ratio
from .population import WORKLOADS_PER_TEMPLATE, Population
from .requests import SENDERS

BYTES_A_WORKLOAD = 600
COST_GROWTH = 1.3
HEADROOM_COST = 2.0


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
    figures = [_cost(kind, size, small, large, say) for kind in SENDERS]
    return [*figures, _headroom(size, large), _memory(size, bytes_a_workload)]


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
            costs[population].append(_batch_us(gate, _batch(kind, population, size.decisions, pick)))
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


def _batch(kind: str, population: Population, count: int, pick: random.Random) -> list[Request]:
    """Growth of workloads drawn from the whole population, so that caches help no more than they do in use."""
    send = SENDERS[kind]
    return [send(population, i, 9 + i % 3) for i in pick.sample(range(population.workload_count), count)]


def _batch_us(gate: Gate, requests: Sequence[Request]) -> float:
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


def _headroom(size: Size, gate: Gate) -> Figure:
    """What "how many replicas may it have" costs, beside a decision about the same workloads."""
    pick, population, queries = random.Random("headroom"), size.large, Queries(gate.ledger)
    asked: list[float] = []
    decided: list[float] = []
    for _ in range(size.rounds):
        chosen = pick.sample(range(population.workload_count), size.decisions)
        refs = [WorkloadRef("apps", "deployments", population.namespace(i), population.name(i)) for i in chosen]
        start = time.process_time()
        found = [queries.headroom(ref) for ref in refs]
        asked.append((time.process_time() - start) / len(refs) * 1e6)
        assert all(one is not None and one.replicas is not None for one in found)
        decided.append(_batch_us(gate, [SENDERS["KPA PATCH"](population, i, 9) for i in chosen]))
    ratio = median_ratio(asked, decided)
    name = f"headroom of a workload, over a decision: {population.workload_count:,} workloads"
    return Figure(name, f"{median(asked):.1f} µs", f"{median(decided):.1f} µs", ratio, Goal(HEADROOM_COST))


def _memory(size: Size, bytes_a_workload: float) -> Figure:
    return Figure(
        f"memory a workload ({size.large.workload_count:,}; {WORKLOADS_PER_TEMPLATE} share a template)",
        f"{bytes_a_workload:.0f} B",
        f"{BYTES_A_WORKLOAD} B",
        bytes_a_workload / BYTES_A_WORKLOAD,
        Goal(1.0),
    )
