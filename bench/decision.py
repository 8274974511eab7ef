"""The pure decision, without a wire: what it costs as quotas and workloads grow, and what a workload weighs."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from extauthz.core.decision.gate import Gate
from extauthz.core.intake.counts import read
from extauthz.core.ledger.entry import Event
from extauthz.core.model import Decision, Reading, Request, Verdict, WorkloadRef
from extauthz.core.queries import Queries
from extauthz.core.quota.tree import QuotaTree
from extauthz.serve.servers.api.answers import Answers

from .figures import Figure, Goal, figure, turns
from .machine import memory_bytes
from .population import WORKLOADS_PER_TEMPLATE, Population
from .requests import SENDERS

BYTES_A_WORKLOAD = 1_000
COST_GROWTH = 1.3
HEADROOM_COST = 2.0
TOP_GROWTH = 1.5
"""Of what a line of ``top`` costs. Each page and each answer has a cost of its own, and memory is farther away."""


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
    return [
        *figures,
        _headroom(size, large),
        _top(size, small, large),
        asyncio.run(_top_of_a_quota(size, small, large)),
        _memory(size, bytes_a_workload),
    ]


def _loaded(population: Population) -> tuple[Gate, float]:
    gate = Gate()
    gate.load_quotas(population.quotas(), 0.0)
    gc.collect()
    before = memory_bytes([os.getpid()], "VmRSS")
    gate.load_state(population.state, 0.0)
    gc.collect()
    return gate, (memory_bytes([os.getpid()], "VmRSS") - before) / population.workload_count


def loaded(population: Population, tree: QuotaTree | None = None) -> Gate:
    """A gate that knows all of it, under its own quotas or others."""
    gate = Gate()
    gate.load_quotas(tree if tree is not None else population.quotas(), 0.0)
    gate.load_state(population.state, 0.0)
    return gate


def _cost(kind: str, size: Size, small: Gate, large: Gate, say: Callable[[str], None]) -> Figure:
    pick = random.Random(kind)
    costs: dict[Population, list[float]] = {size.small: [], size.large: []}
    for number, order in enumerate(turns([(size.large, large), (size.small, small)], size.rounds), start=1):
        for population, gate in order:
            costs[population].append(batch_us(gate, batch(kind, population, size.decisions, pick)))
        say(f"decision, {kind}: round {number} of {size.rounds}")
    many = f"{size.large.quota_count:,} quotas and {size.large.workload_count:,} workloads"
    name = f"decision, {kind}: {many} over {size.small.quota_count:,} and {size.small.workload_count:,}"
    return in_us(name, costs[size.large], costs[size.small], COST_GROWTH)


def in_us(name: str, measured: Sequence[float], floors: Sequence[float], goal: float) -> Figure:
    return figure(name, measured, floors, Goal(goal), unit=" µs", digits=1)


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


def _headroom(size: Size, gate: Gate) -> Figure:
    """What "how many replicas may it have" costs, beside a decision about the same workloads."""
    pick, population = random.Random("headroom"), size.large
    decide = lambda reading: gate.decide(reading, "0" * 16, 0.0, charge=False)  # noqa: E731
    answers = Answers(Queries(gate.ledger), decide, time.monotonic)
    asked: list[float] = []
    decided: list[float] = []
    for _ in range(size.rounds):
        chosen = pick.sample(range(population.workload_count), size.decisions)
        refs = [WorkloadRef("apps", "deployments", population.namespace(i), population.name(i)) for i in chosen]
        start = time.process_time()
        found = [answers.headroom(ref) for ref in refs]
        asked.append((time.process_time() - start) / len(refs) * 1e6)
        assert all(one["replicas"] is not None and one["certain"] for one in found)
        decided.append(batch_us(gate, [SENDERS["KPA PATCH"](population, i, 9) for i in chosen]))
    name = f"headroom of a workload, over a decision: {population.workload_count:,} workloads"
    return in_us(name, asked, decided, HEADROOM_COST)


def _top(size: Size, small: Gate, large: Gate) -> Figure:
    """A page of ten quotas, anywhere in the list: it costs what is on it, however many quotas there are."""
    pages = [
        (Answers(Queries(gate.ledger), gate_asked, time.monotonic), list(Queries(gate.ledger).names()))
        for gate in (small, large)
    ]
    pick = random.Random("top")
    costs: list[list[float]] = [[], []]
    for answers, names in pages:
        answers.quota(names[0])  # quotas by name, made once
    for _ in range(size.rounds * 5):
        for (answers, names), spent in zip(pages, costs, strict=True):
            after = names[pick.randrange(max(1, len(names) - 9))]
            start = time.process_time()
            items = answers.quotas(after=after, limit=9)["items"]
            spent.append((time.process_time() - start) / max(1, len(items)) * 1e6)
    name = f"top, a quota printed: {size.large.quota_count:,} quotas over {size.small.quota_count:,}"
    return in_us(name, costs[1], costs[0], TOP_GROWTH)


async def _top_of_a_quota(size: Size, small: Gate, large: Gate) -> Figure:
    """Every workload of one workspace: it costs in proportion to those, however many there are elsewhere."""
    pick = random.Random("top of a quota")
    costs: list[list[float]] = [[], []]
    for _ in range(size.rounds):
        for population, gate, spent in ((size.small, small, costs[0]), (size.large, large, costs[1])):
            answers = Answers(Queries(gate.ledger), gate_asked, time.monotonic)
            answers.quota(population.workspaces[0])  # quotas by name, made once
            start = time.process_time()
            printed = 0
            while printed < 200:
                page = await answers.workloads(pick.choice(population.workspaces), "requests.cpu")
                printed += len(page["items"])
            spent.append((time.process_time() - start) / printed * 1e6)
    name = f"top QUOTA, a workload printed: {size.large.workload_count:,} workloads over {size.small.workload_count:,}"
    return in_us(name, costs[1], costs[0], TOP_GROWTH)


def gate_asked(reading: Reading) -> Decision:
    raise AssertionError("nothing is decided")


def _memory(size: Size, bytes_a_workload: float) -> Figure:
    return Figure(
        f"memory a workload ({size.large.workload_count:,}; {WORKLOADS_PER_TEMPLATE} share a template)",
        f"{bytes_a_workload:.0f} B",
        f"{BYTES_A_WORKLOAD} B",
        bytes_a_workload / BYTES_A_WORKLOAD,
        Goal(1.0),
    )
