"""The picture of a live cluster: what is watched, in which order it is first taken, and how fresh it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from extauthz.cluster import facts
from extauthz.cluster.sinks import Context, Feed, Notes, Revisions, StatefulSets, Troubles, Workloads
from extauthz.core.decision.gate import Gate
from extauthz.core.ledger.store import Kind
from extauthz.kube.connection import Connection
from extauthz.kube.reflector import Reflector
from extauthz.kube.resource import Resource

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
LIMIT_RANGES = Resource("", "v1", "limitranges", "LimitRange")
RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
REVISIONS = Resource("apps", "v1", "controllerrevisions", "ControllerRevision")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
REPLICATION_CONTROLLERS = Resource("", "v1", "replicationcontrollers", "ReplicationController")
JOBS = Resource("batch", "v1", "jobs", "Job")
PODS = Resource("", "v1", "pods", "Pod")

PHASES: tuple[tuple[Resource, ...], ...] = (
    (NAMESPACES, LIMIT_RANGES, RUNTIME_CLASSES, STORAGE_CLASSES, REVISIONS),
    (DEPLOYMENTS, STATEFUL_SETS, REPLICATION_CONTROLLERS, JOBS),
    (REPLICA_SETS,),
    (PODS,),
)
"""What is watched. Each phase is listed when the one before is in: what bears on costs before what costs, and owners
before what they own, so that nothing has to be counted twice."""

AnyFeed: TypeAlias = Feed[Any]


class Watch(NamedTuple):
    """How one resource is followed, for metrics and for what is told of a source."""

    resource: str
    """``deployments.apps``."""
    synced: bool
    age_s: float
    """Since the server was last heard, bookmarks included; since the start where it never was."""
    relists: int
    failures: int
    error: str
    """What went wrong last; empty once the server is heard again."""


def feeds(gate: Gate, troubles: Troubles) -> dict[Kind, AnyFeed]:
    """A feed for each resource of ``PHASES``."""
    context = Context(gate)
    revisions = Revisions(REVISIONS, gate, troubles)
    made: dict[Resource, AnyFeed] = {
        NAMESPACES: Notes(NAMESPACES, facts.namespace_labels, context.namespace, troubles),
        LIMIT_RANGES: Notes(LIMIT_RANGES, facts.container_defaults, context.limit_range, troubles),
        RUNTIME_CLASSES: Notes(RUNTIME_CLASSES, facts.pod_overhead, context.runtime_class, troubles),
        STORAGE_CLASSES: Notes(STORAGE_CLASSES, facts.claim_class, context.storage_class, troubles),
        REVISIONS: revisions,
        STATEFUL_SETS: StatefulSets(STATEFUL_SETS, gate, troubles, revisions),
    }
    for resource in (DEPLOYMENTS, REPLICATION_CONTROLLERS, JOBS, REPLICA_SETS, PODS):
        made[resource] = Workloads(resource, facts.COUNTED[resource.group, resource.kind], gate, troubles)
    return {(resource.group, resource.plural): feed for resource, feed in made.items()}


class Listed:
    """A reflector's sink: a feed, and whether its first list is in."""

    def __init__(self, feed: AnyFeed) -> None:
        self._feed = feed
        self.first = asyncio.Event()
        self.convert = feed.convert
        self.changed = feed.changed
        self.reached = feed.reached

    def replaced(self, objects: Iterable[Any], version: str) -> None:
        self._feed.replaced(objects, version)
        self.first.set()


class LiveCluster:
    """Follows a cluster and keeps the gate's picture of it current.

    Args:
        troubles: told of objects that cannot be read.
    """

    def __init__(
        self, connection: Connection, gate: Gate, troubles: Troubles, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._connection = connection
        self._gate = gate
        self._clock = clock
        self._started_s = clock()
        self.feeds: Mapping[Kind, AnyFeed] = feeds(gate, troubles)
        """By (group, resource), so that a consistent read goes the way of the watches."""
        self.resources: Mapping[Kind, Resource] = {(one.group, one.plural): one for phase in PHASES for one in phase}
        self._reflectors: dict[Resource, Reflector[Any]] = {}
        self.synced = asyncio.Event()
        """All first lists are in."""

    async def run(self) -> None:
        """Follow for ever. Ends by cancellation."""
        async with asyncio.TaskGroup() as group:
            for phase in PHASES:
                listed = [self._follow(resource, group) for resource in phase]
                for one in listed:
                    await one.first.wait()
            self._gate.state_synced(True)
            self.synced.set()

    def _follow(self, resource: Resource, group: asyncio.TaskGroup) -> Listed:
        listed, reflector = self._reflector(resource)
        self._reflectors[resource] = reflector
        group.create_task(reflector.run())
        return listed

    def _reflector(self, resource: Resource) -> tuple[Listed, Reflector[Any]]:
        listed = Listed(self.feeds[resource.group, resource.plural])
        return listed, Reflector(self._connection, resource, listed, clock=self._clock)

    async def list_anew(self) -> None:
        """List once more all that counts, beside the watches: nothing written before this call is missed then."""
        for resource in (one for phase in PHASES[1:] for one in phase):
            listed, reflector = self._reflector(resource)
            following = asyncio.create_task(reflector.run())
            try:
                await listed.first.wait()
            finally:
                following.cancel()

    def watches(self) -> Iterator[Watch]:
        """Every watch as it stands now."""
        now_s = self._clock()
        for resource, reflector in self._reflectors.items():
            yield watch(resource, reflector, now_s, self._started_s)


def watch(resource: Resource, reflector: Reflector[Any], now_s: float, started_s: float) -> Watch:
    """How a reflector that began at ``started_s`` stands."""
    return Watch(
        resource.group_resource,
        reflector.synced,
        now_s - max(reflector.last_heard_s, started_s),
        reflector.relists,
        reflector.failures,
        reflector.last_error,
    )
