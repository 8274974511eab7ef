"""Reads one workload from the API server: to settle a pending write, or to answer a check about one that is not known.

A LIST by name without a resourceVersion is served from the newest state (KEP-2340), and says as of which version, also
where the object is gone. What it brings goes the way of what the watches bring.

That an object has gone counts once the watch shows it too. Gates tell each other how far they have come by the versions
that they were shown (design.md L8), and a list that shows nothing has none of the deletion.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from extauthz.core import kinds
from extauthz.core.decision.gate import Gate
from extauthz.core.ledger.entry import is_newer
from extauthz.core.model import Tree, WorkloadRef
from extauthz.core.objects.fields import place_of, version_of
from extauthz.core.quota.selector_text import labelled, spelled
from extauthz.inputs.cluster.live import DEPLOYMENTS, LIMIT_RANGES, NAMESPACES, PODS, REPLICA_SETS, LiveCluster
from extauthz.inputs.cluster.scaled import ScaledObjects
from extauthz.inputs.kube.connection import ApiError, Connection, Query, Unreachable
from extauthz.inputs.kube.reflector import with_cure
from extauthz.inputs.kube.resource import Resource
from extauthz.inputs.settlement.reads import Brought, Result

READ_WITHIN_S = 10.0

SHOWN_WITHIN_S = 1.0
"""How long a read waits for the watch to show that the object has gone. Usually less than 0.1 s."""

CAUGHT_UP_WITHIN_S = 2.0
"""How long a watch may take to bring a change that is as late as what was read. No check waits for it."""

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
        if ref[:2] == kinds.RESIZES:
            ref = ref._replace(resource=kinds.PODS[1])
        resource = self._cluster.resources.get((ref.group, ref.resource))
        if resource is None:
            return self._of_no_kind(ref)
        try:
            await self._observe(ref, resource)
        except ApiError as error:
            return Brought(Result.FORBIDDEN if error.status == 403 else Result.REFUSED, False, with_cure(error))
        except Unreachable as error:
            return Brought(Result.UNREACHABLE, False, str(error))
        except TimeoutError:
            return Brought(Result.BEHIND, False, "its watch has not shown yet that it has gone")
        except Exception as error:  # noqa: BLE001 (one object ends no gate)
            return Brought(Result.REFUSED, False, f"what was read cannot be taken: {error!r}")
        return Brought(Result.OK, True)

    async def catch_up(self, refs: Sequence[WorkloadRef]) -> set[WorkloadRef]:
        """Wait until the watch of workloads of one kind has shown all that was written before this call.

        A list says as of which version it is, however little of it is asked for, and a watch brings changes in order.
        So it has shown all of them once it brings one that is as late. Where nothing more changes, none comes soon.

        Returns those of which all is known then: not those in a namespace that was not seen yet, and no custom
        resource, whose cost may be that of its pods. Never raises.
        """
        kind, namespaces = refs[0][:2], self._gate.ledger.coverage.namespaces
        resource = self._cluster.resources.get(kind)
        known = {ref for ref in refs if ref.namespace in namespaces}
        if resource is None or not known or isinstance(self._cluster.feeds[kind], ScaledObjects):
            return set()
        try:
            query = [("limit", "1")]
            answer = await self._connection.call("GET", resource.collection(), query=query, timeout_s=READ_WITHIN_S)
            async with asyncio.timeout(CAUGHT_UP_WITHIN_S):
                while not self._cluster.has_shown(resource, version_of(answer)):  # noqa: ASYNC110 (not for long)
                    await asyncio.sleep(AGAIN_S)
        except (ApiError, Unreachable, TimeoutError):
            return set()
        return known

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
            pods = self._cluster.pods_of(ref, tree)
            if pods:
                await self._list(PODS, ref.namespace, labels=pods)

    def _is_news(self, resource: Resource, tree: Tree) -> bool:
        """Whether a read has overtaken the watch of Deployments. Then templates that it had in between are known by its
        ReplicaSets alone. What the watch shows, it shows in order: ``Rollouts`` sees what is left."""
        entry = self._gate.ledger.get(WorkloadRef(resource.group, resource.plural, *place_of(tree)))
        held = entry.observed if entry is not None else None
        return resource == DEPLOYMENTS and (held is None or held.resource_version != version_of(tree))

    async def _replica_sets(self, deployment: Tree) -> list[Tree]:
        namespace, _ = place_of(deployment)
        found, _ = await self._fetch(REPLICA_SETS, namespace, labels=spelled(labelled(deployment["spec"]["selector"])))
        return found

    async def _list(self, resource: Resource, namespace: str, name: str = "", *, labels: str = "") -> list[Tree]:
        """Pass on what a collection has, and return it. If one name was asked for and is not there: that it is gone."""
        found, version = await self._fetch(resource, namespace, name, labels=labels)
        made = [each for tree in found if self._is_news(resource, tree) for each in await self._replica_sets(tree)]
        self._pass_on(resource, found)  # at once with what they have made, or not at all
        self._pass_on(REPLICA_SETS, made)
        if name and not found:
            await self._shown(WorkloadRef(resource.group, resource.plural, namespace, name), version)
            self._cluster.feeds[resource.group, resource.plural].gone((namespace, name), version)
        return found

    async def _fetch(
        self, resource: Resource, namespace: str, name: str = "", *, labels: str = ""
    ) -> tuple[list[Tree], str]:
        """What a collection has, and as of which version."""
        query: Query = [
            *([("fieldSelector", f"metadata.name={name}")] if name else []),
            *([("labelSelector", labels)] if labels else []),
        ]
        path = resource.collection(namespace or None)
        answer = await self._connection.call("GET", path, query=query, timeout_s=READ_WITHIN_S)
        return answer.get("items") or [], version_of(answer)

    def _pass_on(self, resource: Resource, trees: Iterable[Tree]) -> None:
        for tree in trees:
            self._cluster.read(resource, tree)

    async def _shown(self, ref: WorkloadRef, version: str) -> None:
        """Wait until the watch has shown that it is gone, as of ``version``. Raises TimeoutError."""
        async with asyncio.timeout(SHOWN_WITHIN_S):
            while self._is_held(ref, version):  # noqa: ASYNC110 (seldom, and not for long)
                await asyncio.sleep(AGAIN_S)

    def _is_held(self, ref: WorkloadRef, version: str) -> bool:
        """Whether the gate holds an object that is older than ``version``."""
        entry = self._gate.ledger.get(ref)
        return entry is not None and entry.observed is not None and is_newer(version, entry.observed.resource_version)
