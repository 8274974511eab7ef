"""Collections that a server does not have, and need not have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from extauthz.core.decision.gate import Gate
from extauthz.inputs.cluster.event_handlers import InvalidObjects
from extauthz.inputs.cluster.live import CLAIM_TEMPLATES, OPTIONAL, Listed, LiveCluster
from extauthz.inputs.kube.connection import ApiError, Connection
from extauthz.inputs.kube.reflector import INITIAL_EVENTS_END, Reflector
from tests.waiting import until

GROUP = "/apis/resource.k8s.io/"
NONE = {
    "type": "BOOKMARK",
    "object": {"metadata": {"resourceVersion": "1", "annotations": {INITIAL_EVENTS_END: "true"}}},
}


class Server:
    """A connection to a cluster without objects, whose server has no devices yet."""

    server = "none"

    def __init__(self) -> None:
        self.has_devices = False

    @asynccontextmanager
    async def watch(self, path: str, **_: object) -> AsyncIterator[AsyncIterator[Any]]:
        if path.startswith(GROUP) and not self.has_devices:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        yield self._events()

    async def items(self, path: str, *_: object, **__: object) -> Any:
        if path.startswith(GROUP) and not self.has_devices:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        return {"resourceVersion": "1"}

    async def _events(self) -> AsyncIterator[Any]:
        yield NONE
        await asyncio.sleep(3600)


async def test_a_cluster_without_devices_is_known_and_none_of_its_watches_is_missed():
    cluster = LiveCluster(cast("Connection", Server()), Gate(), InvalidObjects(print))
    running = asyncio.create_task(cluster.run())
    await asyncio.wait_for(cluster.synced.wait(), 30)
    watched = {one.resource.group_resource for one in cluster.watches()}
    assert "pods" in watched
    assert watched.isdisjoint(one.group_resource for one in OPTIONAL)
    await cluster.list_anew()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


class Noted:
    """A handler that notes what it is told."""

    def __init__(self) -> None:
        self.lists = 0

    def convert(self, tree: Any) -> Any:
        return tree

    async def replaced(self, objects: Any, version: str) -> None:
        self.lists += 1

    def changed(self, event: str, obj: Any) -> None: ...
    def reached(self, version: str) -> None: ...


async def test_what_comes_to_be_served_is_followed_and_missed_from_then_on():
    server, noted, waits = Server(), Noted(), asyncio.Event()
    listed = Listed(cast("Any", noted))

    async def sleep(_: float) -> None:
        waits.set()
        await asyncio.sleep(0)

    reflector = Reflector(cast("Connection", server), CLAIM_TEMPLATES, listed, sleep=sleep, on_absent=listed.first.set)
    running = asyncio.create_task(reflector.run())
    await asyncio.wait_for(waits.wait(), 30)
    assert (reflector.absent, listed.first.is_set(), noted.lists) == (True, True, 0)
    server.has_devices = True
    await until(lambda: reflector.synced)
    assert (reflector.absent, noted.lists) == (False, 1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
