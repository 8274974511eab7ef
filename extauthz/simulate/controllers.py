"""The cluster's own controllers: they make ReplicaSets and volume claims, past the gates and in their own time."""

from __future__ import annotations

from random import Random

from extauthz.core.model import Tree

from . import objects
from .judge import Key
from .loop import VirtualLoop
from .objects import CPUS, KINDS, REPLICA_SET, word_of
from .reference import CLAIMS
from .server import ApiServer

SLOWEST_S = 0.6
"""How long a controller may wait before its next write."""


class Controllers:
    """Called with every stored change."""

    def __init__(self, loop: VirtualLoop, server: ApiServer, random: Random) -> None:
        self._loop = loop
        self._server = server
        self._random = random
        self._waiting: set[Key] = set()
        server.wrote.append(self._wrote)

    @property
    def busy(self) -> bool:
        """Whether something must still be created or deleted."""
        return bool(self._waiting)

    def _wrote(self, collection: str, key: Key, before: Tree, after: Tree) -> None:
        if after is None or collection not in (KINDS["roll"].collection, KINDS["sts"].collection):
            return
        if word_of(key[1]) == "roll":
            self._begin_rollout(key, after)
        if word_of(key[1]) in ("roll", "sts"):
            self._later(key)

    def _later(self, key: Key) -> None:
        if key not in self._waiting:
            self._waiting.add(key)
            wait_s = self._random.choice((0.0, 0.05, SLOWEST_S)) * self._random.random()
            self._loop.call_later(wait_s, self._go_on, key)

    def _go_on(self, key: Key) -> None:
        self._waiting.discard(key)
        tree = self._server.objects(KINDS[word_of(key[1])].collection).get(key)
        if tree is None:
            return
        if word_of(key[1]) == "sts":
            self._make_claims(key, tree["spec"]["replicas"])
        elif self._roll(key, tree):
            self._later(key)

    def _make_claims(self, key: Key, replicas: int) -> None:
        """The claims stay when the StatefulSet shrinks."""
        held = self._server.objects(CLAIMS)
        for ordinal in range(replicas):
            made = objects.claim(key, ordinal)
            if (key[0], made["metadata"]["name"]) not in held:
                self._server.request("POST", f"/api/v1/namespaces/{key[0]}/persistentvolumeclaims", {}, made)

    # Rollouts: never more pods than the Deployment asks for, or than there were.

    def _begin_rollout(self, key: Key, tree: Tree) -> None:
        """The ReplicaSet of another template is there at once, with one pod in the place of an old one."""
        wanted, cpu, sets = self._asked(key, tree)
        if sets.get(cpu) or (cpu in sets and not wanted):
            return
        if sum(sets.values()) >= wanted:
            self._shrink(key, sets, cpu, 1)
        if cpu in sets:
            self._resize(key, cpu, 1)
        else:
            made = objects.replica_set(tree, min(wanted, 1), cpu)
            self._server.request("POST", REPLICA_SET.path(key[0]), {}, made)

    def _roll(self, key: Key, tree: Tree) -> bool:
        """Take one step. True: there is another one to take."""
        wanted, cpu, sets = self._asked(key, tree)
        total, new = sum(sets.values()), sets[cpu]
        if total > wanted:
            self._shrink(key, sets, cpu, total - wanted)
        elif total > new:
            self._shrink(key, sets, cpu, 1)
            self._resize(key, cpu, new + 1)
        elif new < wanted:
            self._resize(key, cpu, wanted)
        return (total, new) != (wanted, wanted)

    def _asked(self, key: Key, tree: Tree) -> tuple[int, str, dict[str, int]]:
        """The count, the template, and the ReplicaSets that there are: template to count."""
        held = self._server.objects(REPLICA_SET.collection)
        found = {cpu: held.get((key[0], f"{key[1]}-{cpu}")) for cpu in CPUS}
        sets = {cpu: one["spec"]["replicas"] for cpu, one in found.items() if one is not None}
        cpu = tree["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"]
        return tree["spec"]["replicas"], cpu, sets

    def _shrink(self, key: Key, sets: dict[str, int], new: str, by: int) -> None:
        """Old ones first."""
        for cpu in sorted(sets, key=lambda one: one == new):
            less = min(by, sets[cpu])
            by -= less
            if less:
                self._resize(key, cpu, sets[cpu] - less)

    def _resize(self, key: Key, cpu: str, replicas: int) -> None:
        path = REPLICA_SET.path(key[0], f"{key[1]}-{cpu}")
        self._server.request("PATCH", f"{path}/scale", {}, {"spec": {"replicas": replicas}})
