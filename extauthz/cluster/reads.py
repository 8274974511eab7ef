"""Reads one workload from the API server: to settle a pending write, or to answer a check about a workload not seen
yet.

A LIST by name without a resourceVersion is served from the newest state (KEP-2340), and says as of which version, also
where the object is gone. What it brings goes the way of what the watches bring.

That an object has gone counts once the watch shows it too. Gates tell each other how far they have come by the versions
that they were shown (design.md L8), and a list that shows nothing has none of the deletion.
"""

from __future__ import annotations

import asyncio

from extauthz.cluster.live import LIMIT_RANGES, NAMESPACES, LiveCluster
from extauthz.core.decision.gate import Gate
from extauthz.core.kinds import PODS, RESIZES
from extauthz.core.ledger.entry import is_newer
from extauthz.core.model import Tree, WorkloadRef
from extauthz.core.objects.metadata import version_of
from extauthz.kube.connection import ApiError, Connection, Query, Unreachable
from extauthz.kube.reflector import CURES
from extauthz.kube.resource import Resource
from extauthz.settlement.reads import Brought, Result

READ_WITHIN_S = 10.0

SHOWN_WITHIN_S = 1.0
"""How long a read waits for the watch to show that the object has gone. Usually less than 0.1 s."""

AGAIN_S = 0.01


class Reader:
    """Reads workloads of a live cluster.

    Args:
        cluster: what can be read, and where what is read goes.
    """

    def __init__(self, connection: Connection, gate: Gate, cluster: LiveCluster) -> None:
        self._connection = connection
        self._gate = gate
        self._cluster = cluster

    async def bring(self, ref: WorkloadRef) -> Brought:
        """Read the present state of a workload, and show it to the gate. Never raises."""
        if ref[:2] == RESIZES:
            ref = ref._replace(resource=PODS[1])
        resource = self._cluster.resources.get((ref.group, ref.resource))
        if resource is None:
            return self._of_no_kind(ref)
        try:
            await self._observe(ref, resource)
        except ApiError as error:
            cure = f" ({CURES[error.status]})" if error.status in CURES else ""
            return Brought(Result.FORBIDDEN if error.status == 403 else Result.REFUSED, False, f"{error}{cure}")
        except Unreachable as error:
            return Brought(Result.UNREACHABLE, False, str(error))
        except TimeoutError:
            return Brought(Result.BEHIND, False, "its watch has not shown yet that it has gone")
        return Brought(Result.OK, True)

    def _of_no_kind(self, ref: WorkloadRef) -> Brought:
        """If a definition is deleted, its objects are gone, and pending writes of them can have no effect any more."""
        if self._cluster.serves((ref.group, ref.resource)):
            return Brought(Result.UNKNOWN_KIND, False, "custom resources have not been listed yet")
        self._gate.observe(ref, None)
        return Brought(Result.UNKNOWN_KIND, True, "there is no such custom resource that can be scaled")

    async def _observe(self, ref: WorkloadRef, resource: Resource) -> None:
        if ref.namespace not in self._gate.ledger.coverage.namespaces:
            await self._list(NAMESPACES, "", ref.namespace)
            await self._list(LIMIT_RANGES, ref.namespace)
        name = "" if ref.name.startswith("#") else ref.name  # the name of a create that left it to the server
        for tree in await self._list(resource, ref.namespace, name):
            belonging = self._cluster.belonging(ref, tree)
            if belonging is not None:
                await self._list(belonging[0], ref.namespace, labels=belonging[1])

    async def _list(self, resource: Resource, namespace: str, name: str = "", *, labels: str = "") -> list[Tree]:
        """Pass on what a collection has. If one name was asked for and is not there: that it is gone."""
        query: Query = [
            *([("fieldSelector", f"metadata.name={name}")] if name else []),
            *([("labelSelector", labels)] if labels else []),
        ]
        path = resource.collection(namespace or None)
        answer = await self._connection.call("GET", path, query=query, timeout_s=READ_WITHIN_S)
        items: list[Tree] = answer.get("items") or []
        for tree in items:
            self._cluster.read(resource, tree)
        if name and not items:
            await self._shown(WorkloadRef(resource.group, resource.plural, namespace, name), version_of(answer))
            self._cluster.feeds[resource.group, resource.plural].gone((namespace, name), version_of(answer))
        return items

    async def _shown(self, ref: WorkloadRef, version: str) -> None:
        """Wait until the watch has shown that it is gone, as of ``version``. Raises TimeoutError."""
        async with asyncio.timeout(SHOWN_WITHIN_S):
            while self._is_held(ref, version):  # noqa: ASYNC110 (seldom, and not for long)
                await asyncio.sleep(AGAIN_S)

    def _is_held(self, ref: WorkloadRef, version: str) -> bool:
        """Whether the gate holds an object that is older than ``version``."""
        entry = self._gate.ledger.get(ref)
        return entry is not None and entry.observed is not None and is_newer(version, entry.observed.resource_version)
