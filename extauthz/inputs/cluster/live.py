"""The state of a live cluster: what is watched, in which order it is first listed, and how fresh it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

from extauthz.core import kinds, numbers
from extauthz.core.decision.gate import Gate
from extauthz.core.model import Kind, Observed, Tree, WorkloadRef
from extauthz.core.objects.custom import TEMPLATE, Where
from extauthz.core.objects.fields import version_of
from extauthz.core.objects.groups import Groups
from extauthz.inputs.cluster import object_readers
from extauthz.inputs.cluster.event_handlers import (
    READ,
    Context,
    Feed,
    InvalidObjects,
    Notes,
    Place,
    Seen,
    Workloads,
    named,
)
from extauthz.inputs.cluster.scaled import PodPrices, Pods, ScaledObjects
from extauthz.inputs.kube.connection import Connection
from extauthz.inputs.kube.reflector import EventHandler, Reflector
from extauthz.inputs.kube.resource import DEFINITIONS, Resource, ScaledKind, scaled


class StatefulSets(Workloads):
    """Handles StatefulSets, and knows which revisions they still run."""

    def __init__(self, resource: Resource, gate: Gate, invalid: InvalidObjects, revisions: Revisions) -> None:
        super().__init__(resource, object_readers.COUNTED["apps", "StatefulSet"], gate, invalid)
        self._revisions = revisions

    def convert(self, tree: Tree) -> Seen:
        seen = super().convert(tree)
        try:
            return seen._replace(old_revision=object_readers.old_revision(tree))
        except Exception as error:  # noqa: BLE001 (one object ends no gate)
            self._invalid.bad(self._resource, named(tree)[0], error)
            return seen

    async def replaced(self, objects: Iterable[Seen], version: str) -> None:
        listed = list(objects)
        await super().replaced(listed, version)
        for one in listed:
            self._run(one)
        for owner in self._revisions.owners():
            self._run_no_more(owner)

    def changed(self, event: str, obj: Seen) -> None:
        super().changed(event, obj)
        self._run(obj)

    def gone(self, place: Place, version: str) -> None:
        super().gone(place, version)
        self._run_no_more(place)

    def _run(self, seen: Seen) -> None:
        held = self.held(seen.ref)
        if (
            held is not None and held.resource_version == seen.version
        ):  # else a consistent read, or the watch, has brought a later one
            self._revisions.run_by((seen.ref.namespace, seen.ref.name), seen.old_revision)

    def _run_no_more(self, owner: Place) -> None:
        if self.held(WorkloadRef(self._resource.group, self._resource.plural, *owner)) is None:
            self._revisions.run_by(owner, "")


class Revisions(Notes[Observed]):
    """Handles the ControllerRevisions that StatefulSets still run."""

    def __init__(self, resource: Resource, gate: Gate, invalid: InvalidObjects) -> None:
        super().__init__(resource, object_readers.run_revision, self._changed, invalid)
        self._gate = gate
        self._run: dict[Place, str] = {}
        """StatefulSets to the names of their old revisions."""

    def unreadable(self, tree: Tree, version: str) -> Observed:
        return object_readers.unreadable(tree, version)

    def reached(self, version: str) -> None:
        self._gate.reached((self._resource.group, self._resource.plural), version)

    def _changed(self, place: Place, observed: Observed | None) -> None:
        if observed is None or observed.owner is None or self._is_run(place, observed):
            self._show(place)

    def owners(self) -> list[Place]:
        """The StatefulSets that still run a revision."""
        return list(self._run)

    def run_by(self, owner: Place, old: str) -> None:
        """A StatefulSet still runs that revision; empty: none."""
        before = self._run.get(owner, "")
        if before == old:
            return
        if old:
            self._run[owner] = old
        else:
            del self._run[owner]
        namespace, _ = owner
        if before:
            self._gate.observe(self._ref((namespace, before)), None)
        if old:
            self._show((namespace, old))

    def _is_run(self, place: Place, observed: Observed) -> bool:
        namespace, name = place
        return observed.owner is not None and self._run.get((namespace, observed.owner.name)) == name

    def _show(self, place: Place) -> None:
        observed = self.held(place)
        is_run = observed is not None and self._is_run(place, observed)
        self._gate.observe(self._ref(place), observed if is_run else None)

    def _ref(self, place: Place) -> WorkloadRef:
        return WorkloadRef(self._resource.group, self._resource.plural, *place)


NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
LIMIT_RANGES = Resource("", "v1", "limitranges", "LimitRange")
RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
DEVICE_CLASSES = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False)
CLAIM_TEMPLATES = Resource("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate")
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)


def _watched(key: Kind) -> Resource:
    kind = kinds.BY_KEY[key]
    return Resource(key[0], kind.version, key[1], kind.name)


REVISIONS = _watched(kinds.REVISIONS)
DEPLOYMENTS = _watched(kinds.DEPLOYMENTS)
STATEFUL_SETS = _watched(kinds.STATEFUL_SETS)
REPLICA_SETS = _watched(kinds.REPLICA_SETS)
REPLICATION_CONTROLLERS = _watched(kinds.REPLICATION_CONTROLLERS)
JOBS = _watched(kinds.JOBS)
CLAIMS = _watched(kinds.CLAIMS)
DEVICE_CLAIMS = _watched(kinds.DEVICE_CLAIMS)
PODS = _watched(kinds.PODS)

PHASES: tuple[tuple[Resource, ...], ...] = (
    (NAMESPACES, LIMIT_RANGES, RUNTIME_CLASSES, STORAGE_CLASSES, DEVICE_CLASSES, CLAIM_TEMPLATES, REVISIONS),
    (DEPLOYMENTS, STATEFUL_SETS, REPLICATION_CONTROLLERS, JOBS),
    (REPLICA_SETS, CLAIMS, DEVICE_CLAIMS),
    (PODS,),
)
"""What is watched, as far as the server has it. Each phase is listed when the one before is in: what bears on costs
before what costs, and owners before what they own, so that nothing has to be counted twice."""

OPTIONAL = (DEVICE_CLASSES, CLAIM_TEMPLATES, DEVICE_CLAIMS)
"""Not every API server has these: before Kubernetes 1.34 there is no ``resource.k8s.io/v1``. Where there are none,
nothing is waited for, and each is looked for again."""

GIVE_UP_S = 30.0
"""How long a custom resource is waited for that the API server refuses to list. Its operator may be broken or the
gate's rights not reach it: that leaves its workloads unknown, and must not leave all others without a gate. Silence is
no refusal, so it is waited out."""

LOOK_EVERY_S = 1.0

PASSING = frozenset({0, 408, 429, 503, 504})
"""Refusals that say nothing about the kind."""

AnyFeed: TypeAlias = Feed[Any]


def feeds(gate: Gate, invalid: InvalidObjects, prices: PodPrices) -> dict[Kind, AnyFeed]:
    """A feed for each resource of ``PHASES``."""
    context = Context(gate)
    took: dict[Resource, Callable[[Place, Any], None]] = {
        NAMESPACES: lambda place, labels: gate.observe_namespace(place[1], labels),
        LIMIT_RANGES: context.limit_range,
        RUNTIME_CLASSES: lambda place, overhead: gate.observe_runtime_class(place[1], overhead),
        DEVICE_CLASSES: lambda place, extended: gate.observe_device_class(place[1], extended),
        CLAIM_TEMPLATES: context.claim_template,
        STORAGE_CLASSES: context.storage_class,
    }
    made: dict[Resource, AnyFeed] = {
        one: Notes(one, object_readers.NOTED[one.group, one.kind], told, invalid) for one, told in took.items()
    }
    revisions = Revisions(REVISIONS, gate, invalid)
    made |= {
        REVISIONS: revisions,
        STATEFUL_SETS: StatefulSets(STATEFUL_SETS, gate, invalid, revisions),
        PODS: Pods(PODS, gate, invalid, prices),
    }
    for resource in (DEPLOYMENTS, REPLICATION_CONTROLLERS, JOBS, REPLICA_SETS, CLAIMS, DEVICE_CLAIMS):
        made[resource] = Workloads(resource, object_readers.COUNTED[resource.group, resource.kind], gate, invalid)
    return {(resource.group, resource.plural): feed for resource, feed in made.items()}


class Listed:
    """A reflector's event handler that wraps another one, and knows whether its first list has come.

    Args:
        there: what is held of the kind.
        missed: told the version of a later list that lacks some of that, before it is taken.
    """

    def __init__(
        self,
        handler: EventHandler[Any],
        there: Callable[[], Iterable[WorkloadRef]] = lambda: (),
        missed: Callable[[str], None] = lambda version: None,
    ) -> None:
        self._handler = handler
        self._there = there
        self._missed = missed
        self.first = asyncio.Event()
        self.convert = handler.convert
        self.changed = handler.changed
        self.reached = handler.reached

    async def replaced(self, objects: Iterable[Any], version: str) -> None:
        found = list(objects)
        there = set(self._there()) if self.first.is_set() else set()
        if there and not there <= {one.ref for one in found}:
            self._missed(version)
        await self._handler.replaced(found, version)
        self.first.set()


class LiveCluster:
    """Follows a cluster and keeps the gate up to date.

    Args:
        invalid: told of objects that cannot be read.
        templates: where custom resources have what their pods are made of, by ``resource.group``; others at
            ``TEMPLATE``. Those with groups count without a scale subresource too.
    """

    def __init__(
        self,
        connection: Connection,
        gate: Gate,
        invalid: InvalidObjects,
        *,
        templates: Mapping[str, Where] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._gate = gate
        self._invalid = invalid
        self._templates = templates or {}
        self._clock = clock
        self._prices = PodPrices(gate, self._repriced)
        self.feeds: dict[Kind, AnyFeed] = feeds(gate, invalid, self._prices)
        """By (group, resource), so that a consistent read goes the way of the watches."""
        self.resources: dict[Kind, Resource] = {(one.group, one.plural): one for phase in PHASES for one in phase}
        self._reflectors: dict[Resource, Reflector[Any]] = {}
        self._custom: dict[ScaledKind, tuple[Listed, asyncio.Task[None]]] = {}
        self._without: set[Resource] = set()
        """What it serves without, until it can be listed."""
        self._read: dict[str, int] = {}
        """The highest resourceVersion that consistent reads have brought, by kind."""
        self._group = asyncio.TaskGroup()
        self._defined: dict[Place, ScaledKind] = {}
        groups = [kind for kind, where in self._templates.items() if isinstance(where, Groups)]
        self._definitions = Listed(
            Notes(DEFINITIONS, lambda tree: (scaled(tree, groups),), self._took_definition, invalid)
        )
        self.synced = asyncio.Event()
        """All first lists have come."""

    async def run(self) -> None:
        self._gate.load()
        async with self._group:
            self._follow(DEFINITIONS, self._definitions)
            for number, phase in enumerate(PHASES):
                listed = [self._listed(one) for one in phase]
                for resource, one in zip(phase, listed, strict=True):
                    self._follow(resource, one)
                if number == 1:
                    await self._custom_listed()
                for one in listed:
                    await one.first.wait()
            self._gate.state_synced(True)
            self.synced.set()

    def _listed(self, resource: Resource) -> Listed:
        """Of a deletion that was missed, only the version of the list that shows it is known. Who shares a ledger must
        have come as far (design.md L8)."""
        kind = resource.group, resource.plural
        if resource in (PODS, REVISIONS):  # no gate writes one, and without one there is less
            return Listed(self.feeds[kind])
        return Listed(
            self.feeds[kind],
            lambda: self._gate.ledger.workloads.observed(kind),
            lambda version: self._has_read(resource, version),
        )

    def _has_read(self, resource: Resource, version: str) -> None:
        kind = resource.group_resource
        self._read[kind] = max(numbers.whole(version) or 0, self._read.get(kind, 0))

    def _follow(self, resource: Resource, listed: Listed) -> asyncio.Task[None]:
        reflector = self._reflectors[resource] = self._reflector(resource, listed)
        return self._group.create_task(reflector.run())

    def _reflector(self, resource: Resource, listed: Listed) -> Reflector[Any]:
        on_absent = listed.first.set if resource in OPTIONAL else None
        on_raise = lambda error: self._invalid.bad(resource, ("", ""), error)  # noqa: E731
        return Reflector(
            self._connection,
            resource,
            listed,
            clock=self._clock,
            on_absent=on_absent,
            on_raise=on_raise,
        )

    def serves(self, kind: Kind) -> bool:
        """Whether objects of a (group, resource) can exist, as far as is known."""
        return kind in self.resources or not self._definitions.first.is_set()

    async def list_anew(self) -> None:
        """List once more all that counts, beside the watches: nothing written before this call is missed then.

        Pods last: a resize that was allowed is seen of them alone. A custom resource that cannot be listed any more is
        not waited for: its watch is about to be stalled.
        """
        for resource in (one for phase in PHASES[1:-1] for one in phase):
            await self._list_anew(resource)
        for kind, (listed, _) in list(self._custom.items()):
            if listed.first.is_set():
                await self._list_anew(kind.resource)
        for resource in PHASES[-1]:
            await self._list_anew(resource)

    async def _list_anew(self, resource: Resource) -> None:
        feed = self.feeds.get((resource.group, resource.plural))
        if feed is None:  # its definition has gone meanwhile
            return
        listed = Listed(feed)
        reflector = self._reflector(resource, listed)
        following = asyncio.create_task(reflector.run())
        try:
            await self._first(resource, listed, reflector, self._clock())
        finally:
            following.cancel()
        kind = resource.group_resource  # who grants on what this has shown says so to the other gates
        self._read[kind] = max(reflector.seen, self._read.get(kind, 0))

    def pods_of(self, ref: WorkloadRef, tree: Tree) -> str:
        """The selector of pods that must be read with an object that was passed on, to know its cost; empty: none."""
        feed = self.feeds[ref.group, ref.resource]
        return feed.of_pods(tree) if isinstance(feed, ScaledObjects) else ""

    def seen(self) -> dict[str, int]:
        """``deployments.apps`` to the highest resourceVersion of any object of that kind that was shown to the gate."""
        kinds = {resource.group_resource: one.seen for resource, one in self._reflectors.items()}
        for kind, version in self._read.items():
            kinds[kind] = max(version, kinds.get(kind, 0))
        return kinds

    def has_reached(self, kind: str, version: int) -> bool:
        """Whether the watch of a kind has come as far as ``version``; also if nothing of that kind is watched, or it is
        served without."""
        found = next((each for each in self._reflectors.items() if each[0].group_resource == kind), None)
        if found is None:
            return True
        resource, reflector = found
        return reflector.upto >= version or reflector.absent or (resource in self._without and not reflector.synced)

    def has_shown(self, resource: Resource, version: str) -> bool:
        """Whether the watch of a resource has brought all changes up to a version."""
        reflector = self._reflectors.get(resource)
        reached = numbers.whole(version)
        return reflector is not None and reached is not None and reflector.upto >= reached

    def read(self, resource: Resource, tree: Tree) -> None:
        """Pass on the result of a consistent read of a watched resource."""
        tree.setdefault("apiVersion", resource.api_version)
        tree.setdefault("kind", resource.kind)
        self._has_read(resource, version_of(tree))
        feed = self.feeds[resource.group, resource.plural]
        feed.changed(READ, feed.convert(tree))

    def watches(self) -> list[Reflector[Any]]:
        """Those of what the server has."""
        return [reflector for reflector in self._reflectors.values() if not reflector.absent]

    # Custom resources.

    def _took_definition(self, place: Place, found: tuple[ScaledKind | None] | None) -> None:
        self._defined.pop(place, None)
        if found is not None and found[0] is not None:
            self._defined[place] = found[0]
        self._set_custom(frozenset(self._defined.values()))

    def _set_custom(self, kinds: frozenset[ScaledKind]) -> None:
        """Follow these kinds and no others. Objects stay counted while their definition is changed."""
        served = {kind.resource.group_resource for kind in kinds}
        for kind in self._custom.keys() - kinds:
            self._unfollow(kind, is_gone=kind.resource.group_resource not in served)
        for kind in kinds - self._custom.keys():
            resource = kind.resource
            if resource.namespaced:
                template = self._templates.get(resource.group_resource, TEMPLATE)
                self._gate.observe_kind(
                    resource.group, resource.kind, resource.plural, object_readers.shapes(kind, template)
                )
                feed = ScaledObjects(kind, template, self._gate, self._invalid, self._prices)
                self.feeds[resource.group, resource.plural] = feed
                self.resources[resource.group, resource.plural] = resource
                listed = self._listed(resource)
                self._custom[kind] = (listed, self._follow(resource, listed))

    def _unfollow(self, kind: ScaledKind, *, is_gone: bool) -> None:
        resource = kind.resource
        _, task = self._custom.pop(kind)
        task.cancel()
        feed = self.feeds.pop((resource.group, resource.plural))
        if is_gone and isinstance(feed, ScaledObjects):
            feed.withdrawn()
        del self.resources[resource.group, resource.plural]
        del self._reflectors[resource]
        self._without.discard(resource)

    async def _custom_listed(self) -> None:
        await self._definitions.first.wait()
        began_s = self._clock()
        for kind, (listed, _) in list(self._custom.items()):
            if kind in self._custom:  # its definition may have gone meanwhile
                await self._first(kind.resource, listed, self._reflectors[kind.resource], began_s)
                if kind in self._custom and not listed.first.is_set():
                    self._without.add(kind.resource)

    async def _first(self, resource: Resource, listed: Listed, reflector: Reflector[Any], began_s: float) -> None:
        """Wait for a list; of a custom resource, until it has gone or is refused for good."""
        feed = self.feeds.get((resource.group, resource.plural))
        while not listed.first.is_set():
            if isinstance(feed, ScaledObjects):
                is_refused = reflector.refusal not in PASSING and self._clock() - began_s >= GIVE_UP_S
                if is_refused or self.feeds.get((resource.group, resource.plural)) is not feed:
                    return
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await listed.first.wait()

    def _repriced(self, ref: WorkloadRef) -> None:
        feed = self.feeds.get((ref.group, ref.resource))
        if isinstance(feed, ScaledObjects):
            feed.repriced(ref)
