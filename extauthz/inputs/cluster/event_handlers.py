"""Event handlers: pass on to the gate what watches and consistent reads bring, kind by kind. Objects that cannot be
read are reported.

A workload that cannot be read stays in the count, with an unknown cost a pod (design.md rule 6). Of any other
object the last state that could be read stays in force. Whatever reading or taking an object raises, the object cannot
be read, and the gate goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from extauthz.core.decision.gate import Gate
from extauthz.core.footprint import LimitRangeDefaults
from extauthz.core.kinds import BY_KEY
from extauthz.core.ledger.entry import is_newer
from extauthz.core.model import Observed, Template, Tree, WorkloadRef
from extauthz.core.objects.fields import place_of, version_of
from extauthz.core.quota.selectors import LabelSelector
from extauthz.inputs.cluster import object_readers
from extauthz.inputs.cluster.object_readers import Workload
from extauthz.inputs.kube.reflector import EventHandler
from extauthz.inputs.kube.resource import Resource

Value = TypeVar("Value")
Item = TypeVar("Item")

Place: TypeAlias = tuple[str, str]
"""Namespace (empty where there is none) and name."""

DELETED = "DELETED"
READ = "READ"
"""No event of a watch: a read shows it, and may have overtaken the watch."""


class Feed(EventHandler[Item], Protocol[Item]):
    """An event handler that a consistent read can feed too."""

    def gone(self, place: Place, version: str) -> None:
        """There is no such object any more, as of ``version``."""


def named(tree: Tree) -> tuple[Place, str]:
    """Where an object is, and its resourceVersion; empty, as far as it does not say. Raises nothing."""
    place, version = ("", ""), ""
    with suppress(Exception):
        place = place_of(tree)
    with suppress(Exception):
        version = version_of(tree)
    return place, version


class InvalidObjects:
    """Invalid objects: they cannot be read. Each is reported once, and again after it was good in between.

    Args:
        tell: the resource, ``namespace/name`` and what is wrong.
    """

    def __init__(self, tell: Callable[[Resource, str, str], None]) -> None:
        self._tell = tell
        self._now: set[tuple[str, Place]] = set()

    def __len__(self) -> int:
        return len(self._now)

    def bad(self, resource: Resource, place: Place, error: Exception) -> None:
        """An object cannot be read."""
        key = (resource.group_resource, place)
        if key not in self._now:
            self._now.add(key)
            self._tell(resource, "/".join(filter(None, place)), str(error))

    def over(self, resource: Resource, place: Place) -> None:
        """An object can be read, or is gone."""
        self._now.discard((resource.group_resource, place))


class Seen(NamedTuple):
    """A workload, as much of it as the gate keeps."""

    ref: WorkloadRef
    observed: Observed | None
    """``None``: it does not count any more."""
    version: str
    old_revision: str = ""
    """Of a StatefulSet: the revision that it may run besides its template's own."""
    selector: LabelSelector | None = None
    """Of a custom resource: which pods are its own."""


class Workloads:
    """Feeds a kind that counts."""

    def __init__(
        self, resource: Resource, read: Callable[[Tree], Workload | None], gate: Gate, invalid: InvalidObjects
    ) -> None:
        self._resource = resource
        self._read = read
        self._gate = gate
        self._invalid = invalid
        kind = BY_KEY.get((resource.group, resource.plural))
        self.template = kind.template if kind is not None and kind.is_gated else ()
        """Where its objects have a pod template; empty: policies are not asked about them."""

    def convert(self, tree: Tree) -> Seen:
        place, version = named(tree)
        try:
            workload = self._read(tree)
            if workload is not None and self.template and self._gate.policies.all:
                workload[1].kept = self._gate.policies.kept(tree, self.template)
        except Exception as error:  # noqa: BLE001 (see above)
            self._invalid.bad(self._resource, place, error)
            return Seen(self._ref(place), object_readers.unreadable(tree, version), version)
        self._invalid.over(self._resource, place)
        if workload is None:
            return Seen(self._ref(place), None, version)
        ref, observed = workload
        return Seen(ref, observed, observed.resource_version)

    def _ref(self, place: Place) -> WorkloadRef:
        return WorkloadRef(self._resource.group, self._resource.plural, *place)

    async def replaced(self, objects: Iterable[Seen], version: str) -> None:
        listed = list(objects)
        try:
            await self._replaced(listed, version)
        except Exception:  # noqa: BLE001 (some object: each is taken by itself, to find out which)
            await self._replaced([self._taken(one) for one in listed], version)

    async def _replaced(self, objects: Iterable[Seen], version: str) -> None:
        counted = ((one.ref, one.observed) for one in objects if one.observed is not None)
        for _ in self._gate.observing_all((self._resource.group, self._resource.plural), counted, version):
            await asyncio.sleep(0)

    def changed(self, event: str, obj: Seen) -> None:
        if event == DELETED:
            self.gone((obj.ref.namespace, obj.ref.name), obj.version)
        else:
            self._taken(obj, is_next=event != READ)

    def _taken(self, seen: Seen, *, is_next: bool = False) -> Seen:
        """What the gate has taken: where that raises, an object that cannot be read."""
        try:
            self._gate.observe(seen.ref, seen.observed, version=seen.version, is_next=is_next)
        except Exception as error:  # noqa: BLE001 (see above)
            self._invalid.bad(self._resource, (seen.ref.namespace, seen.ref.name), error)
            if seen.observed is not None:
                seen = seen._replace(observed=Observed(1, None, resource_version=seen.version))
            with suppress(Exception):
                self._gate.observe(seen.ref, seen.observed, version=seen.version)
            self._gate.ledger.usage.count_anew()
        return seen

    def reached(self, version: str) -> None:
        self._gate.reached((self._resource.group, self._resource.plural), version)

    def held(self, ref: WorkloadRef) -> Observed | None:
        """What the gate takes for its state; ``None``: it is not there."""
        entry = self._gate.ledger.get(ref)
        return entry.observed if entry is not None else None

    def gone(self, place: Place, version: str) -> None:
        self._invalid.over(self._resource, place)
        self._taken(Seen(self._ref(place), None, version))


class Noted(NamedTuple, Generic[Value]):
    """An object that changes the cost of others."""

    place: Place
    value: Value | None
    """What counts of it; ``None``: it cannot be read."""
    version: str


class Notes(Generic[Value]):
    """Handles a kind with few objects that change the cost of others.

    Args:
        read: what matters of an object.
        took: called with each change of that; ``None``: the object is gone.
    """

    def __init__(
        self,
        resource: Resource,
        read: Callable[[Tree], Value],
        took: Callable[[Place, Value | None], None],
        invalid: InvalidObjects,
    ) -> None:
        self._resource = resource
        self._read = read
        self._took = took
        self._invalid = invalid
        self._known: dict[Place, tuple[str, Value | None]] = {}

    def convert(self, tree: Tree) -> Noted[Value]:
        place, version = named(tree)
        try:
            place_of(tree)
            value = self._read(tree)
        except Exception as error:  # noqa: BLE001 (see above)
            self._invalid.bad(self._resource, place, error)
            return Noted(place, self.unreadable(tree, version), version)
        self._invalid.over(self._resource, place)
        return Noted(place, value, version)

    def unreadable(self, tree: Tree, version: str) -> Value | None:
        """What counts of an object that cannot be read; ``None``: what counted before."""
        return None

    def held(self, place: Place) -> Value | None:
        """What counts of an object now."""
        return self._known.get(place, ("", None))[1]

    async def replaced(self, objects: Iterable[Noted[Value]], version: str) -> None:
        listed = {one.place: one for one in objects}
        for place in self._known.keys() - listed.keys():
            self.gone(place, version)
        for one in listed.values():
            self.changed("", one)

    def changed(self, event: str, obj: Noted[Value]) -> None:
        if event == DELETED:
            self.gone(obj.place, obj.version)
            return
        held_version, held = self._known.get(obj.place, ("", None))
        if is_newer(held_version, obj.version):  # a watch that a consistent read overtook
            return
        value = obj.value if obj.value is not None else held
        self._known[obj.place] = (obj.version, value)
        if value is not None and value != held:
            self._took(obj.place, value)

    def reached(self, version: str) -> None:
        """Bookmarks bring nothing to note."""

    def gone(self, place: Place, version: str) -> None:
        held_version, held = self._known.get(place, ("", None))
        if is_newer(held_version, version):
            return
        self._invalid.over(self._resource, place)
        self._known.pop(place, None)
        if held is not None:
            self._took(place, None)


class Context:
    """Objects that change the cost of workloads, as they are reported to the gate: all of a namespace together."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._limit_ranges: dict[str, dict[str, LimitRangeDefaults]] = {}
        self._claim_templates: dict[str, dict[str, Template]] = {}
        self._classes: dict[Place, object_readers.ClaimClass] = {}

    def limit_range(self, place: Place, value: LimitRangeDefaults | None) -> None:
        ranges = _kept(self._limit_ranges, place, value)
        self._gate.observe_limit_ranges(place[0], [ranges[name] for name in sorted(ranges)])

    def claim_template(self, place: Place, value: Template | None) -> None:
        self._gate.observe_claim_templates(place[0], _kept(self._claim_templates, place, value))

    def storage_class(self, place: Place, value: object_readers.ClaimClass | None) -> None:
        """It may be the default one."""
        self._classes.pop(place, None)
        if value is not None:
            self._classes[place] = value
        self._gate.observe_default_storage_class(object_readers.default_class(self._classes.values()))


def _kept(all_kept: dict[str, dict[str, Value]], place: Place, value: Value | None) -> dict[str, Value]:
    """All of the namespace of ``place``, with its new value; ``None``: it is gone."""
    namespace, name = place
    there = all_kept.setdefault(namespace, {})
    there.pop(name, None)
    if value is not None:
        there[name] = value
    if not there:
        del all_kept[namespace]
    return there
