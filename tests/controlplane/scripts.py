"""Drawn scripts of what is done to one workload, played to a simulated cluster and to a real one.

At each rest, where all controllers have done what there was to do, both say what there is.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from copy import deepcopy
from random import Random
from typing import Any, NamedTuple, TypeVar

from extauthz.core.model import Tree
from tests.controlplane.api import Api
from tests.controlplane.plane import Plane
from tests.waiting import eventually
from tests.worlds.judge import Key
from tests.worlds.loop import seeded
from tests.worlds.pods import objects
from tests.worlds.pods.judge import Amounts
from tests.worlds.pods.objects import (
    CLAIM,
    CLAIM_TEMPLATE,
    DEPLOYMENT,
    JOB,
    POD,
    REPLICA_SET,
    REVISION,
    STATEFUL_SET,
    Kind,
)
from tests.worlds.pods.plan import CPUS, Plan
from tests.worlds.pods.world import World, furnish

T = TypeVar("T")

WITHIN_S = 120.0
RESTS_S = 20.0
"""Of the virtual clock. The slowest rollout of a script takes half of that."""

LOOKS_EVERY_S = 0.3

STUCK = "stuck"
"""An image. The stand-in kubelet never starts it."""

COUNTS = (0, 1, 2, 3, 4, 5, 6, 8)
NO_LIMIT = Amounts(10**9, 10**6, 10**6)


class Step(NamedTuple):
    """What is done. ``rests``: what comes next waits until all controllers have done what there was to do."""

    what: str
    to: int
    cpu: str
    rests: bool


class Script(NamedTuple):
    """What is done to one workload, of one replica at the start."""

    name: str
    cpu: str
    parallel: bool
    """A StatefulSet's pods come in parallel; a Job ends after some pods."""
    stuck: str
    """Pods that ask for as much CPU never come to run, so that a rollout rests in its middle."""
    steps: tuple[Step, ...]


AT_REST = {
    "deploy": ("undo", "evict", "delete", "orphan"),
    "sts": ("undo", "evict", "delete", "partition", "canary"),
    "job": ("finish", "finish", "suspend", "delete"),
    "dra": ("evict", "delete", "reissue"),
}
"""What begins and ends with a rest: else what there is afterwards would hang on who was quicker."""


def drawn(random: Random) -> Script:
    """Half of its steps are counts and templates, of which some come while the last is still under way."""
    word = random.choice(("deploy", "deploy", "deploy", "sts", "sts", "job", "dra"))
    stuck = random.choice((*CPUS, "", "", "", ""))
    steps: list[Step] = []
    at_once = ("scale",) if word == "job" else ("scale", "scale", "apply")
    for _ in range(random.randint(4, 8)):
        what = random.choice(at_once if random.random() < 0.6 else AT_REST[word])
        rests = what in AT_REST[word]
        if rests and steps:
            steps[-1] = steps[-1]._replace(rests=True)
        partitioned = any(one.what in ("partition", "canary") for one in steps)
        rests = rests or partitioned or bool(stuck) or random.random() < 0.4
        steps.append(Step(what, random.choice(COUNTS), random.choice(CPUS), rests))
    steps[-1] = steps[-1]._replace(rests=True)
    return Script(f"web-{word}-0", random.choice(CPUS[:3]), random.random() < 0.5, stuck, tuple(steps))


class Cluster(ABC):
    """Where a script is played: its workload and all that belongs to it are alone in a namespace."""

    def __init__(self, key: Key, script: Script) -> None:
        self.key, self.script = key, script
        self.kind = objects.kind_of(key[1])

    @abstractmethod
    def all(self, kind: Kind) -> list[Tree]:
        """All of a kind in the namespace."""

    @abstractmethod
    def create(self, tree: Tree) -> None:
        """Create an object."""

    @abstractmethod
    def change(self, **spec: Any) -> None:
        """Other values in the workload's spec."""

    @abstractmethod
    def end(self, pod: Tree, phase: str) -> None:
        """A pod comes to its end."""

    @abstractmethod
    def delete(self, kind: Kind, name: str, *, orphan: bool = False) -> None:
        """Delete an object, and wait until it is gone. What it owns goes too, sometime, or stays as an ``orphan``."""

    @abstractmethod
    def until(self, what: Callable[[], object]) -> object:
        """Wait until it is so."""

    @property
    def workload(self) -> Tree:
        """As it is now."""
        (found,) = self.all(self.kind)
        return found

    def active(self) -> list[Tree]:
        """Pods that run or may run. At rest those of one place are all alike."""
        return sorted(filter(objects.is_active, self.all(POD)), key=_seat)

    def make(self, replicas: int, cpu: str) -> None:
        more = objects.variant(self.kind, parallel=self.script.parallel)
        self.create(objects.workload(self.key, replicas, cpu, **more))

    def take(self, step: Step) -> None:
        """Do it."""
        _TAKEN[step.what](self, step)

    def found(self) -> Tree:
        """What there is: counts and prices, and nothing of names and times."""
        workload, sets, pods, revisions = self.workload, self.all(REPLICA_SET), self.all(POD), self.all(REVISION)
        own = _uids([workload])
        cpus = {one["metadata"]["name"]: objects.cpu_of(one["data"]) for one in revisions}
        status = workload.get("status", {})
        return {
            "pods": sorted((*_pod(one), _is_of(one, own | _uids(sets))) for one in pods),
            "replica sets": sorted((objects.cpu_of(one), one["spec"]["replicas"], _is_of(one, own)) for one in sets),
            "revisions": sorted((objects.cpu_of(one["data"]), _is_of(one, own)) for one in revisions),
            "revision": [cpus.get(status.get(f"{one}Revision", "")) for one in ("current", "update")],
            "claims": Counter(_is_of(one, _uids(pods)) for one in self.all(CLAIM) if objects.owner_uid(one)),
            "ended": ("Complete" in {one["type"] for one in status.get("conditions", ())}, status.get("succeeded", 0)),
        }


def _uids(trees: list[Tree]) -> set[str]:
    return {one["metadata"]["uid"] for one in trees}


def _is_of(tree: Tree, uids: set[str]) -> bool:
    """Whether it belongs to one of them."""
    return objects.owner_uid(tree) in uids


def _seat(pod: Tree) -> tuple[str, str]:
    """The price of a pod; of a StatefulSet's also which it is."""
    labels = pod["metadata"]["labels"]
    at = pod["metadata"]["name"].rpartition("-")[2] if "controller-revision-hash" in labels else ""
    return at, objects.asks(pod)


def _pod(pod: Tree) -> tuple[str, str, str, bool]:
    """Its seat, how it is, and whether it is going."""
    return *_seat(pod), pod["status"]["phase"], "deletionTimestamp" in pod["metadata"]


# What each step does.


def _scaled(cluster: Cluster, step: Step) -> None:
    cluster.change(**{"parallelism" if cluster.kind is JOB else "replicas": step.to})


def _applied(cluster: Cluster, step: Step) -> None:
    cluster.change(replicas=step.to, template=objects.template(cluster.key[1], step.cpu))
    made, of = (REPLICA_SET, lambda one: one) if cluster.kind is DEPLOYMENT else (REVISION, lambda one: one["data"])
    cluster.until(lambda: any(objects.cpu_of(of(one)) == step.cpu for one in cluster.all(made)))


def _undone(cluster: Cluster, step: Step) -> None:
    now = objects.cpu_of(cluster.workload)
    old = {objects.cpu_of(one) for one in cluster.all(REPLICA_SET)}
    old |= {objects.cpu_of(one["data"]) for one in cluster.all(REVISION)}
    if others := sorted(old - {now}):
        cluster.change(template=objects.template(cluster.key[1], others[step.to % len(others)]))


def _ended(phase: str) -> Callable[[Cluster, Step], None]:
    def ended(cluster: Cluster, step: Step) -> None:
        if pods := cluster.active():
            cluster.end(pods[step.to % len(pods)], phase)

    return ended


def _made_again(cluster: Cluster, step: Step, *, orphan: bool = False) -> None:
    cpu = objects.cpu_of(cluster.workload)
    cluster.delete(cluster.kind, cluster.key[1], orphan=orphan)
    cluster.make(step.to, cpu)


def _orphaned(cluster: Cluster, step: Step) -> None:
    _made_again(cluster, step, orphan=True)


def _partitioned(cluster: Cluster, step: Step) -> None:
    more = {"template": objects.template(cluster.key[1], step.cpu)} if step.what == "canary" else {}
    cluster.change(updateStrategy=objects.partitioned(step.to % 4), **more)


def _suspended(cluster: Cluster, step: Step) -> None:
    cluster.change(suspend=not cluster.workload["spec"].get("suspend", False))


def _reissued(cluster: Cluster, step: Step) -> None:
    cluster.delete(CLAIM_TEMPLATE, objects.OWN)
    cluster.create(objects.claim_template(cluster.key[0], 1 + step.to % 4))


_TAKEN: dict[str, Callable[[Cluster, Step], None]] = {
    "scale": _scaled,
    "apply": _applied,
    "undo": _undone,
    "evict": _ended("Failed"),
    "finish": _ended("Succeeded"),
    "delete": _made_again,
    "orphan": _orphaned,
    "partition": _partitioned,
    "canary": _partitioned,
    "suspend": _suspended,
    "reissue": _reissued,
}


# The two clusters.


class Simulated(Cluster):
    """The controllers of ``tests/worlds/pods/``, with delays of a seed."""

    def __init__(self, key: Key, script: Script, seed: int) -> None:
        super().__init__(key, script)
        place = f"{key[0]}/{key[1]}"
        workloads = ((place, script.cpu, script.parallel),)
        self._world = World(Plan(seed, 0, "memory", workloads, NO_LIMIT, (), frozenset()))
        self._world.controllers.stuck = {script.stuck}
        self._world.controllers.graces_s = (0.0,)  # as the stand-in kubelet ends pods
        furnish(self._world)

    def all(self, kind: Kind) -> list[Tree]:
        objects = self._world.server.objects(kind.collection).items()
        return [tree for (namespace, _), tree in objects if namespace == self.key[0]]

    def create(self, tree: Tree) -> None:
        self._world.server.request("POST", _kind_of(tree).path(self.key[0]), {}, tree)

    def change(self, **spec: Any) -> None:
        self._put(self.kind, objects.with_spec(self.workload, **spec))

    def end(self, pod: Tree, phase: str) -> None:
        self._put(POD, objects.with_status(pod, phase=phase))

    def _put(self, kind: Kind, tree: Tree) -> None:
        self._world.server.request("PUT", kind.path(self.key[0], tree["metadata"]["name"]), {}, tree)

    def delete(self, kind: Kind, name: str, *, orphan: bool = False) -> None:
        self._world.server.request("DELETE", kind.path(self.key[0], name), {}, None)
        for one in self.all(REPLICA_SET) if orphan else ():
            self._put(REPLICA_SET, objects.without_owner(one))

    def until(self, what: Callable[[], object]) -> None:
        assert self._world.loop.run_until_complete(self._world.until(lambda: bool(what()), RESTS_S))

    def close(self) -> None:
        self._world.loop.run(asyncio.sleep(0))

    def rest(self) -> Tree:
        """Wait until all is done. Returns what there is."""
        self.until(lambda: self._world.is_quiet)
        return self.found()


def simulated(script: Script, seed: int) -> list[Tree]:
    """What there is at each rest."""
    with seeded(seed), closing(Simulated(("shop", script.name), script, seed)) as cluster:
        return list(_played(cluster, cluster.rest))


def _played(cluster: Cluster, rest: Callable[[], Tree]) -> Iterator[Tree]:
    yield rest()
    for step in cluster.script.steps:
        cluster.take(step)
        if step.rests:
            yield rest()


class Real(Cluster):
    """A namespace of a real API server, with kube-controller-manager and the stand-in kubelet."""

    def __init__(self, plane: Plane, namespace: str, script: Script) -> None:
        super().__init__((namespace, script.name), script)
        self._api = Api(plane.url, plane.tls)
        self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        if objects.word_of(script.name) == "dra":
            self.create(objects.claim_template(namespace, 1))
            self.create(objects.shared_claim(namespace))
        self.make(1, script.cpu)

    def close(self) -> None:
        self._api.close()

    def all(self, kind: Kind) -> list[Tree]:
        items: list[Tree] = self._api.call("GET", kind.path(self.key[0]))["items"]
        return items

    def create(self, tree: Tree) -> None:
        kind = tree["kind"]
        path = "/api/v1/namespaces" if kind == "Namespace" else _kind_of(tree).path(self.key[0])
        self._api.call("POST", path, self._imaged(_taken(tree)))

    def change(self, **spec: Any) -> None:
        self._patch(self.kind, self.key[1], self._imaged({"spec": spec}))

    def _imaged(self, tree: Tree) -> Tree:
        """The stand-in kubelet knows pods that never come to run by their image."""
        if "template" not in tree.get("spec", {}) or objects.cpu_of(tree) != self.script.stuck:
            return tree
        stuck = deepcopy(tree)
        stuck["spec"]["template"]["spec"]["containers"][0]["image"] = STUCK
        return stuck

    def end(self, pod: Tree, phase: str) -> None:
        self._patch(POD, f"{pod['metadata']['name']}/status", {"status": {"phase": phase}})

    def _patch(self, kind: Kind, name: str, tree: Tree) -> None:
        self._api.call("PATCH", kind.path(self.key[0], name), tree, "application/merge-patch+json")

    def delete(self, kind: Kind, name: str, *, orphan: bool = False) -> None:
        options = {"kind": "DeleteOptions", "propagationPolicy": "Orphan" if orphan else "Background"}
        self._api.call("DELETE", kind.path(self.key[0], name), options)
        self.until(lambda: name not in {one["metadata"]["name"] for one in self.all(kind)})

    def until(self, what: Callable[[], T], why: Callable[[], object] = lambda: "") -> T:
        return eventually(what, why, WITHIN_S, every_s=LOOKS_EVERY_S)

    @property
    def observed(self) -> bool:
        """The controller has seen the last change."""
        tree = self.workload
        return self.kind is JOB or tree["status"].get("observedGeneration") == tree["metadata"]["generation"]


def played(plane: Plane, namespace: str, script: Script, ways: list[list[Tree]]) -> None:
    """Play it to a real cluster. At each rest there is what there was there on one of the simulation's ways.

    Raises:
        OutOfTimeError: there was something else; with what there was.
    """
    at = iter(range(len(ways[0])))
    left = ways

    def rest() -> Tree:
        nonlocal left
        number = next(at)
        seen: list[Tree] = [None]

        def same() -> list[list[Tree]]:
            seen[0] = cluster.found()
            return [way for way in left if way[number] == seen[0]] if cluster.observed else []

        left = cluster.until(same, lambda: _otherwise(script, number, seen[0], [one[number] for one in left]))
        return seen[0]

    with closing(Real(plane, namespace, script)) as cluster:
        for _ in _played(cluster, rest):
            pass


def _otherwise(script: Script, number: int, seen: Tree, wanted: list[Tree]) -> str:
    """What differs, for who reads the failure."""
    steps = "; ".join(" ".join([one.what, str(one.to), one.cpu, "rests" * one.rests]) for one in script.steps)
    off = [
        f"{name}: {there}, in the simulation {one[name]}"
        for one in wanted
        for name, there in seen.items()
        if there != one[name]
    ]
    stuck = f", {script.stuck} is stuck" if script.stuck else ""
    head = f"{script.name} of {script.cpu}{', parallel' * script.parallel}{stuck}: {steps}\nat rest {number}: "
    return head + ("\n".join(dict.fromkeys(off)) or "the last change was not observed")


def _kind_of(tree: Tree) -> Kind:
    kinds = (DEPLOYMENT, STATEFUL_SET, JOB, CLAIM, CLAIM_TEMPLATE)
    return next(one for one in kinds if one.kind == tree["kind"])


def _taken(tree: Tree) -> Tree:
    """As a real API server takes a new object."""
    metadata = {key: value for key, value in tree["metadata"].items() if key != "generation"}
    spec = dict(tree.get("spec", {}))
    if tree["kind"] == JOB.kind:
        del spec["selector"]
        spec["template"] = {**spec["template"], "spec": {**spec["template"]["spec"], "restartPolicy": "Never"}}
    return {key: value for key, value in tree.items() if key != "status"} | {"metadata": metadata, "spec": spec}
