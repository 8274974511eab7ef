"""StatefulSets, and the revisions that they still run. An old revision may cost more than the present template."""

from __future__ import annotations

from collections.abc import Iterable

from extauthz.cluster import object_readers
from extauthz.cluster.event_handlers import DELETED, InvalidObjects, Place, Seen, Workloads
from extauthz.core.decision.gate import Gate
from extauthz.core.errors import ObjectError
from extauthz.core.model import Observed, Tree, WorkloadRef
from extauthz.core.objects.metadata import place_of
from extauthz.kube.resource import Resource


class StatefulSets(Workloads):
    """Handles StatefulSets, and knows which revisions they still run."""

    def __init__(self, resource: Resource, gate: Gate, invalid: InvalidObjects, revisions: Revisions) -> None:
        super().__init__(resource, object_readers.COUNTED["apps", "StatefulSet"], gate, invalid)
        self._revisions = revisions

    def convert(self, tree: Tree) -> Seen:
        seen = super().convert(tree)
        try:
            return seen._replace(old_revision=object_readers.old_revision(tree))
        except ObjectError as error:
            self._invalid.bad(self._resource, place_of(tree), error)
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


class Revisions:
    """Handles the ControllerRevisions that StatefulSets still run.

    These are shown to the gate without their versions: when one counts is told by the StatefulSet's.
    """

    def __init__(self, resource: Resource, gate: Gate, invalid: InvalidObjects) -> None:
        self._resource = resource
        self._gate = gate
        self._invalid = invalid
        self._all: dict[Place, Observed] = {}
        self._run: dict[Place, str] = {}
        """StatefulSets to the names of their old revisions."""

    def convert(self, tree: Tree) -> tuple[Place, Observed | None]:
        place = place_of(tree)
        try:
            observed = object_readers.revision(tree)[1] if object_readers.is_of_a_stateful_set(tree) else None
        except ObjectError as error:
            self._invalid.bad(self._resource, place, error)
            observed = object_readers.unreadable(tree)
        else:
            self._invalid.over(self._resource, place)
        if observed is not None:
            observed.resource_version = ""
        return place, observed

    async def replaced(self, objects: Iterable[tuple[Place, Observed | None]], version: str) -> None:
        listed = dict(objects)
        for place in self._all.keys() - listed.keys():
            self.gone(place, version)
        for item in listed.items():
            self.changed("", item)

    def changed(self, event: str, obj: tuple[Place, Observed | None]) -> None:
        place, observed = obj
        if event == DELETED or observed is None:
            self.gone(place, "")
        elif self._all.get(place) != observed:
            self._all[place] = observed
            if any(self._run.get(one) == place[1] for one in self._owners(place, observed)):
                self._show(place)

    def reached(self, version: str) -> None:
        self._gate.reached((self._resource.group, self._resource.plural), version)

    def gone(self, place: Place, version: str) -> None:
        self._invalid.over(self._resource, place)
        if self._all.pop(place, None) is not None:
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

    def _owners(self, place: Place, observed: Observed) -> Iterable[Place]:
        return ((place[0], observed.owner.name),) if observed.owner is not None else ()

    def _show(self, place: Place) -> None:
        observed = self._all.get(place)
        if observed is not None and not any(one in self._run for one in self._owners(place, observed)):
            observed = None
        self._gate.observe(self._ref(place), observed)

    def _ref(self, place: Place) -> WorkloadRef:
        return WorkloadRef(self._resource.group, self._resource.plural, *place)
