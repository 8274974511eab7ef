"""Houses that do not do for all, with a root that has turns, for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from extauthz.core.ledger.line import Seen
from extauthz.core.model import Decision, Growth, WorkloadRef
from extauthz.core.objects.workloads import observe
from extauthz.core.policies import GrowthPolicy
from extauthz.core.quota.spec import WorkspaceQuota
from extauthz.testing import Asker, gate, quota, scale, workload

GPU = "requests.nvidia.com/gpu"
NANO = 10**9


def root(hard: int, turn_s: int | None = 300, **more: Any) -> WorkspaceQuota:
    return quota("root", {GPU: str(hard)}, namespaces={"none": "such"}, turn_s=turn_s, **more)


def child(name: str, hard: int = 100, parent: str = "root", **more: Any) -> WorkspaceQuota:
    return quota(name, {GPU: str(hard)}, parent=parent, namespaces={"team": name}, **more)


class House:
    """A gate over one tree. In each namespace, of the name of its quota, Deployments of one GPU a pod."""

    def __init__(self, quotas: Sequence[WorkspaceQuota], has: dict[str, int], gpus: dict[str, int] | None = None):
        sizes = gpus or {}
        objects = [
            workload(name, count, {"nvidia.com/gpu": str(sizes.get(name, 1))}, namespace=name.partition("-")[0])
            for name, count in has.items()
        ]
        spaces = {name.partition("-")[0] for name in has}
        self.gate = gate(quotas, *objects, namespaces={name: {"team": name} for name in spaces})
        self.ask = Asker(self.gate)
        self._sizes = sizes
        self._version = 1

    def wants(self, name: str, replicas: int, *, question: bool = False) -> Decision:
        """A write that is answered, as ``Deciding`` does it; or a question."""
        found = self.ask(scale(name, replicas, namespace=name.partition("-")[0]), charge=not question)
        if not question:
            self.gate.answered(found, self.ask.now_s)
        return found

    def has(self, name: str, replicas: int) -> None:
        """It is observed with so many replicas, and no more may land."""
        self._version += 1
        ref = self.ref(name)
        for pending in [one.id for where, one in self.gate.ledger.pending if where == ref]:
            self.gate.ledger.pending.forget(pending)
        size = {"nvidia.com/gpu": str(self._sizes.get(name, 1))}
        seen = workload(name, replicas, size, namespace=ref.namespace, version=str(self._version))
        self.gate.observe(*observe(seen))

    def passes(self, seconds: float) -> None:
        self.ask.now_s += seconds
        self.gate.ledger.turns.tick(self.ask.now_s)

    def line(self, of: str = "root") -> list[str]:
        return [one.ref.name for one in self.shown(of)]

    def shown(self, of: str = "root") -> list[Seen]:
        return self.gate.ledger.turns.waiting(of, self.ask.now_s)

    @staticmethod
    def ref(name: str) -> WorkloadRef:
        return WorkloadRef("apps", "deployments", name.partition("-")[0], name)


def full(turn_s: int | None = 300) -> House:
    """Ten of ten are in use, by three teams; b has the smallest share."""
    return House([root(10, turn_s), child("a"), child("b"), child("c")], {"a": 4, "b": 1, "c": 5})


class Ranked(GrowthPolicy):
    """Gives ranks by name; an error is raised."""

    def __init__(self, ranks: Mapping[str, Any]) -> None:
        self._ranks = ranks

    def rank(self, growth: Growth) -> int:
        found = self._ranks.get(growth.ref.name, 0)
        if isinstance(found, Exception):
            raise found
        rank: int = found
        return rank
