"""WorkspaceQuotas from the Kubernetes API. Each may have another author: a bad one affects no other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

from extauthz.core.model import Tree
from extauthz.core.quota import spec
from extauthz.core.quota.tree import QuotaTree
from extauthz.inputs.kube.connection import Connection
from extauthz.inputs.kube.reflector import Reflector
from extauthz.inputs.kube.resource import Resource
from extauthz.inputs.sources.gathering import Gathered, Read, read
from extauthz.inputs.sources.gathering import Quotas as Quotas

WORKSPACE_QUOTAS = Resource(spec.GROUP, "v1alpha1", "workspacequotas", spec.KIND, namespaced=False)

GATHER_S = 0.1
"""How long a change waits for others. Each change makes a new tree, and people apply a directory of quotas at once."""


class LiveQuotas:
    """Follows the WorkspaceQuotas of a cluster; a reflector's event handler. What it makes of them: ``Gathered``.

    Args:
        accept: called with all quotas, at the start and after every change of one, its status included.
        prepare: what ``accept`` needs of their tree, in steps, between which others have their turn.
    """

    def __init__(
        self,
        connection: Connection,
        accept: Callable[[Quotas], None],
        clock: Callable[[], float] = time.monotonic,
        prepare: Callable[[QuotaTree], Iterable[None]] = lambda _: (),
    ) -> None:
        self._accept = accept
        self._prepare = prepare
        self._gathered = Gathered()
        self._changed = asyncio.Event()
        self._is_preparing = False
        self._taken = 0
        """The watch's version when what is in force was put together."""
        self._tree_since = 0
        """The version that a watch must have shown before the tree in force is known."""
        self._missed = False
        """A list showed a deletion: its time is not known."""
        self._tree: QuotaTree | None = None
        """What is in force."""
        self.reflector = Reflector(connection, WORKSPACE_QUOTAS, self, clock=clock)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.reflector.run())
            while True:
                await self._changed.wait()
                await asyncio.sleep(GATHER_S)
                self._changed.clear()
                await self._put_in_force()

    async def _put_in_force(self) -> None:
        upto, seen, missed = self.reflector.upto, self.reflector.seen, self._missed
        self._is_preparing, self._missed = True, False
        quotas = await self._gather()
        before, self._tree = self._tree, quotas.tree
        if self._tree is not before:
            for _ in self._prepare(self._tree):
                await asyncio.sleep(0)
            # Another watch reaches the version of a list or of a bookmark only with its own next bookmark.
            self._tree_since = upto if missed else min(seen, upto)
        self._accept(quotas)
        self._taken, self._is_preparing = upto, False

    async def _gather(self) -> Quotas:
        steps = self._gathered.gathering()
        while True:
            try:
                next(steps)
            except StopIteration as ended:
                quotas: Quotas = ended.value
                return quotas
            await asyncio.sleep(0)

    # How far it has come (design.md L8). Statuses are written often and change no tree: they do not count as seen.

    def seen(self) -> dict[str, int]:
        """Its kind, to the version that the tree in force rests on."""
        return {WORKSPACE_QUOTAS.group_resource: self._tree_since}

    def has_reached(self, kind: str, version: int) -> bool:
        """Whether every spec up to ``version`` is in force."""
        in_force = self._taken if self._changed.is_set() or self._is_preparing else self.reflector.upto
        return kind != WORKSPACE_QUOTAS.group_resource or in_force >= version

    # The event handler.

    def convert(self, tree: Tree) -> Read:
        return read(tree)

    async def replaced(self, objects: Iterable[Read], version: str) -> None:
        self._missed = self._gathered.replace(objects) or self._missed
        self._changed.set()

    def changed(self, event: str, obj: Read) -> None:
        if event == "DELETED":
            self._gathered.drop(obj.standing.name)
        else:
            self._gathered.take(obj)
        self._changed.set()

    def reached(self, version: str) -> None:
        """Bookmarks change no quota."""

    def quotas(self) -> Quotas:
        return self._gathered.quotas()
