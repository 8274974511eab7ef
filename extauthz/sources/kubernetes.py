"""WorkspaceQuotas from the Kubernetes API, where each is somebody else's object: a bad one takes down no other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from extauthz.core.model import Tree
from extauthz.core.quota import spec
from extauthz.core.quota.problems import Problem
from extauthz.core.quota.spec import QuotaSpecError, WorkspaceQuota
from extauthz.core.quota.standing import Fault, Standing, standing
from extauthz.core.quota.tree import QuotaTree, TreeProblem
from extauthz.kube.connection import Connection
from extauthz.kube.reflector import Reflector
from extauthz.kube.resource import Resource

WORKSPACE_QUOTAS = Resource(spec.GROUP, "v1alpha1", "workspacequotas", spec.KIND, namespaced=False)

GATHER_S = 0.1
"""How long a change waits for others: a tree is made anew of all of them, and people apply a directory of quotas."""


class Quotas(NamedTuple):
    """All quotas that there are, and how each stands."""

    tree: QuotaTree
    """The same object as before where no spec has changed."""
    standings: tuple[Standing, ...]
    """By name."""
    warnings: tuple[TreeProblem, ...]
    """What is allowed but hardly meant (``QuotaTree.warnings``)."""

    @property
    def faults(self) -> Iterator[Standing]:
        """Those whose limits are not in force as they are written."""
        return (one for one in self.standings if one.fault is not None)


class Read(NamedTuple):
    """One object, read."""

    standing: Standing
    quota: WorkspaceQuota
    """If its spec is not one, what ``spec.salvage`` makes of it."""


class LiveQuotas:
    """Follows the WorkspaceQuotas of a cluster; a reflector's sink.

    An object whose spec cannot be read keeps its last good one in force; if it never had one, what it covers cannot
    grow. One whose parent is missing, or that is its own ancestor, is enforced by itself.

    Args:
        accept: called with all quotas, at the start and after every change of one, its status included.
    """

    def __init__(
        self,
        connection: Connection,
        accept: Callable[[Quotas], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._accept = accept
        self._reads: dict[str, Read] = {}
        self._in_force: dict[str, WorkspaceQuota] = {}
        """The last good spec of each object that is there, or what could be read of one that never had any."""
        self._changed = asyncio.Event()
        self._taken = 0
        """The watch's version when what is in force was put together."""
        self._tree_since = 0
        """What a watch must have shown for the tree in force to be known."""
        self._missed = False
        """A deletion was learnt of from a list: when it was is not known."""
        self._planted: tuple[tuple[WorkspaceQuota, ...], QuotaTree, tuple[TreeProblem, ...]] | None = None
        self.reflector = Reflector(connection, WORKSPACE_QUOTAS, self, clock=clock)

    async def run(self) -> None:
        """Follow for ever. Ends by cancellation."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.reflector.run())
            while True:
                await self._changed.wait()
                await asyncio.sleep(GATHER_S)
                self._changed.clear()
                self._put_in_force()

    def _put_in_force(self) -> None:
        before = self._planted
        self._accept(self.quotas())
        self._taken = self.reflector.upto
        if self._planted is not before:
            # The version of a list, or of a bookmark, is none that another watch comes to before its next bookmark.
            self._tree_since = self._taken if self._missed else min(self.reflector.seen, self._taken)
        self._missed = False

    # How far it has come (DESIGN §6.8). Statuses are written often and change no tree: they do not count as seen.

    def seen(self) -> dict[str, int]:
        """Its kind, to the version that the tree in force rests on."""
        return {WORKSPACE_QUOTAS.group_resource: self._tree_since}

    def has_reached(self, kind: str, version: int) -> bool:
        """Whether every spec up to ``version`` is in force."""
        in_force = self._taken if self._changed.is_set() else self.reflector.upto
        return kind != WORKSPACE_QUOTAS.group_resource or in_force >= version

    # The sink.

    def convert(self, tree: Tree) -> Read:
        try:
            quota = spec.parse(tree)
        except QuotaSpecError as error:
            return Read(standing(tree, None, Fault.INVALID, error.problems), spec.salvage(tree))
        return Read(standing(tree, quota.generation), quota)

    def replaced(self, objects: Iterable[Read], version: str) -> None:
        listed = {one.standing.name: one for one in objects}
        for name in self._reads.keys() - listed.keys():
            self._drop(name)
            self._missed = True
        for one in listed.values():
            self._take(one)
        self._changed.set()

    def changed(self, event: str, obj: Read) -> None:
        if event == "DELETED":
            self._drop(obj.standing.name)
        else:
            self._take(obj)
        self._changed.set()

    def reached(self, version: str) -> None:
        """Bookmarks change no quota."""

    def _take(self, one: Read) -> None:
        name = one.standing.name
        before = self._reads.get(name)
        if before is not None and before.standing.uid != one.standing.uid:
            self._drop(name)  # another object of that name: what the old one said last is not its last good spec
        self._reads[name] = one
        last = self._in_force.get(name)
        if last is None or last.illegible or not one.quota.illegible:
            self._in_force[name] = one.quota

    def _drop(self, name: str) -> None:
        self._reads.pop(name, None)
        self._in_force.pop(name, None)

    # What is made of it.

    def quotas(self) -> Quotas:
        """All of them as they stand now."""
        quotas = tuple(self._in_force[name] for name in sorted(self._in_force))
        if self._planted is None or self._planted[0] != quotas:
            self._planted = (quotas, *QuotaTree.salvage(quotas))
        _, tree, problems = self._planted
        misplaced: dict[str, list[Problem]] = {}
        for problem in problems:
            misplaced.setdefault(problem.quota, []).append(problem.problem)
        standings = (self._standing(name, misplaced.get(name)) for name in sorted(self._reads))
        return Quotas(tree, tuple(standings), tree.warnings)

    def _standing(self, name: str, misplaced: list[Problem] | None) -> Standing:
        quota = self._in_force[name]
        held = self._reads[name].standing._replace(in_force=None if quota.illegible else quota.generation)
        if held.fault is not None or misplaced is None:
            return held
        fault = Fault.PARENT_CYCLE if quota.parent in self._in_force else Fault.PARENT_MISSING
        return held._replace(fault=fault, why="; ".join(map(str, misplaced)))
