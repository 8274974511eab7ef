"""The longest turn of the loop that each kind of event takes, over a decision's median: nobody waits longer for it.

What is counted anew is counted in slices, each of which is a turn. Before an event all of the one before is counted.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from math import inf
from statistics import median

from extauthz.core.decision.gate import Gate
from extauthz.core.ledger.entry import Event
from extauthz.core.model import Operation, WorkloadRef, Write
from extauthz.core.objects.workloads import observe
from extauthz.core.quota.spec import WorkspaceQuota
from extauthz.core.quota.tree import QuotaTree
from extauthz.serve.service.counting import SLICE
from extauthz.testing import workload

from .figures import Figure, Goal
from .population import Population

TURN = 20.0
"""Decisions."""

CPU = 10**9


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    population: Population
    decisions: int
    rounds: int


FULL = Size(Population(600, 60_000), 500, rounds=3)
QUICK = Size(Population(10, 500), 50, rounds=1)


def measure(size: Size, say: Callable[[str], None]) -> list[Figure]:
    """A row for each kind of event."""
    say(f"events: loading {size.population.workload_count:,} workloads")
    world = _World(size.population)
    decision_s = world.decision_s(size.decisions)
    figures = []
    for name, event in EVENTS.items():
        rounds = [list(_turns_s(world, event)) for _ in range(size.rounds)]
        # Turn by turn the least of all rounds: they do the same, and other work on the machine only adds to it.
        longest_s = max(map(min, zip_longest(*rounds, fillvalue=inf)))
        shown = f"{longest_s * 1e3:.2f} ms", f"{decision_s * 1e6:.0f} µs"
        figures.append(Figure(f"turn of the loop, {name}, in decisions", *shown, longest_s / decision_s, Goal(TURN)))
    say(f"events: {len(figures)} kinds")
    return figures


class _World:
    """A gate with all of a population, whose counts are made slice by slice."""

    def __init__(self, population: Population) -> None:
        self.population, self.number = population, 0
        self.gate = Gate()
        self.listed = list(population.workloads)
        self.quotas = [node.quota for node in population.quotas().nodes]
        self.gate.load_quotas(QuotaTree.build(self.quotas), 0.0)
        self.gate.load_state(population.state, 0.0)
        gc.collect()
        gc.freeze()  # as the service does after a load
        self.usage = self.gate.ledger.usage
        self.usage.on_count = lambda: None
        self.namespace = population.namespace(0)
        self.labels = population.namespaces[self.namespace]

    def new(self) -> int:
        """A number that nobody has had."""
        self.number += 1
        return self.number

    def decision_s(self, decisions: int) -> float:
        """The median processor time of a charged grant."""
        took = []
        for i in range(decisions):
            ref = WorkloadRef("apps", "deployments", self.population.namespace(i), self.population.name(i))
            write = Write(ref, Operation.PATCH, True, False, 50)
            begin = time.process_time()
            found = self.gate.decide(write, f"d{i}", 0.0)
            took.append(time.process_time() - begin)
            assert found.pending_write is not None, found.sentence
            self.gate.ledger.pending.settle(found.pending_write, Event.NOT_FORWARDED, 0.0)
        return median(took)


def _turns_s(world: _World, event: Callable[[_World], Iterator[None] | None]) -> Iterator[float]:
    """The processor time of each turn: the event, or each step of it, and each slice of what it has counted anew."""
    begin = time.process_time()
    steps = event(world)
    yield time.process_time() - begin
    more = True
    while more:
        begin = time.process_time()
        more = next(steps, ...) is None if steps is not None else world.usage.count(SLICE)
        yield time.process_time() - begin
        if not more and steps is not None:
            steps, more = None, True


def _quotas(
    change: Callable[[_World, list[WorkspaceQuota]], list[WorkspaceQuota]],
) -> Callable[[_World], Iterator[None]]:
    """As a source of quotas does it: the tree, where it places all namespaces, and then it is in force."""

    def event(world: _World) -> Iterator[None]:
        world.quotas = change(world, world.quotas)
        tree, _ = yield from QuotaTree.salvaging(world.quotas)
        yield from world.gate.ledger.coverage.placing(tree)
        yield
        world.gate.load_quotas(tree, 0.0)

    return event


def _raised(world: _World, quotas: list[WorkspaceQuota]) -> list[WorkspaceQuota]:
    hard = {key: amount + world.new() for key, amount in quotas[1].hard.items()}
    return [quotas[0], replace(quotas[1], hard=hard), *quotas[2:]]


def _workload(world: _World, kind: str = "Deployment") -> None:
    made = workload(f"new-{world.number}", 3, kind=kind, namespace=world.namespace, version=str(world.new()))
    world.gate.observe(*observe(made))


def _list(world: _World) -> Iterator[None]:
    """All Deployments anew, as after a broken watch."""
    return world.gate.observing_all(("apps", "deployments"), world.listed, "400000000")


def _moved(world: _World) -> None:
    """There and back again."""
    number = world.new()
    other = world.population.namespaces[world.population.namespace(1)]
    world.gate.observe_namespace(world.namespace, other if number % 2 else world.labels)


EVENTS: dict[str, Callable[[_World], Iterator[None] | None]] = {
    "a Deployment": _workload,
    "a ReplicaSet": lambda world: _workload(world, "ReplicaSet"),
    "a list of all": _list,
    "a limit raised": _quotas(_raised),
    "one more quota": _quotas(lambda world, all_: [*all_, WorkspaceQuota(f"new-{world.new()}", hard={"pods": CPU})]),
    "one quota less": _quotas(lambda _, all_: all_[:-1]),
    "one more namespace": lambda world: world.gate.observe_namespace(f"new-{world.new()}", world.labels),
    "labels of a namespace": lambda world: world.gate.observe_namespace(
        world.namespace, {**world.labels, "n": str(world.new())}
    ),
    "a namespace under another quota": _moved,
    "a RuntimeClass": lambda world: world.gate.observe_runtime_class("kata", {"requests.cpu": world.new()}),
    "a DeviceClass": lambda world: world.gate.observe_device_class(f"gpu-{world.new()}", "nvidia.com/gpu"),
    "a StorageClass": lambda world: world.gate.observe_default_storage_class(f"fast-{world.new()}"),
}
"""What a watch may bring."""
