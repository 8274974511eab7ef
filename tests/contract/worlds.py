"""API servers to follow: the stand-in and the real one, each behind a relay, with the same few things to do to them."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from extauthz.core.model import Tree
from extauthz.inputs.kube.connection import ApiError, Connection, Query, connect
from extauthz.inputs.kube.reflector import Reflector
from extauthz.inputs.kube.resource import Resource
from tests.controlplane.plane import write_kubeconfig
from tests.waiting import until

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
NAMESPACE = "default"
WITHIN_S = 30.0
FIRST = "1"
"""The first version of all."""


class Seen(NamedTuple):
    """What a reflector made of an object."""

    name: str
    value: str
    kind: str
    version: str
    has_managed_fields: bool


class Recorder:
    """An event handler that keeps the present state and everything that brought it."""

    def __init__(self) -> None:
        self.state: dict[str, str] = {}
        self.journal: list[tuple[str, object]] = []
        self.seen: list[Seen] = []

    def convert(self, tree: Tree) -> Seen:
        meta = tree["metadata"]
        value = tree.get("data", {}).get("value", "")
        kind = f"{tree['apiVersion']} {tree['kind']}"
        self.seen.append(Seen(meta["name"], value, kind, meta["resourceVersion"], "managedFields" in meta))
        return self.seen[-1]

    async def replaced(self, objects: Iterable[Seen], version: str) -> None:
        listed = list(objects)
        self.state = {each.name: each.value for each in listed}
        self.journal.append(("replaced", sorted(each.name for each in listed)))

    def changed(self, event: str, obj: Seen) -> None:
        if event == "DELETED":
            del self.state[obj.name]
        else:
            self.state[obj.name] = obj.value
        self.journal.append((event, obj.name))

    def reached(self, version: str) -> None:
        self.journal.append(("reached", version))

    @property
    def changes(self) -> list[tuple[str, object]]:
        return [each for each in self.journal if each[0] != "reached"]


class Labelled:
    """A connection by which a collection has objects of one label alone."""

    def __init__(self, connection: Connection, label: str) -> None:
        self._connection = connection
        self._label = ("labelSelector", label)
        self.server = connection.server

    def watch(self, path: str, *, query: Query, **more: Any) -> AbstractAsyncContextManager[AsyncIterator[Tree]]:
        return self._connection.watch(path, query=[*query, self._label], **more)

    async def items(self, path: str, take: Callable[[Tree], object], *, query: Query, timeout_s: float) -> Tree:
        return await self._connection.items(path, take, query=[*query, self._label], timeout_s=timeout_s)


class World:
    """One API server and ConfigMaps that no other test has. Only ``connection`` is relayed."""

    def __init__(
        self, connection: Connection, direct: Connection, relay: Relay, forget: Callable[[], None] | None
    ) -> None:
        self.connection = connection
        self._direct = direct
        self.relay = relay
        self.label = f"case={uuid.uuid4().hex}"
        self.recorder = Recorder()
        self.waits: list[float] = []
        """What reflectors wanted to sleep; they slept a moment."""
        self._forget = forget
        self._while_asleep: Callable[[], object] = lambda: None

    def reflector(self, **options: object) -> Reflector[Seen]:
        ours: Any = Labelled(self.connection, self.label)
        return Reflector(ours, CONFIG_MAPS, self.recorder, sleep=self._sleep, **options)

    async def forget(self, reflector: Reflector) -> None:
        """The server no longer knows the version that the reflector has, and its watch is cut."""
        await self.elsewhere()
        if self._forget:
            self._forget()
        else:
            await self._forgotten(FIRST)
            await self._go_back(reflector, FIRST)
        self.relay.cut()

    async def _go_back(self, reflector: Reflector, version: str) -> None:
        """Make it believe that it has come no further. While it sleeps: what it asked for before could tell it more."""
        gone_back = asyncio.Event()

        def go_back() -> None:
            reflector.version = version
            gone_back.set()

        self._while_asleep = go_back
        async with asyncio.timeout(WITHIN_S):
            while not gone_back.is_set():
                self.relay.cut()
                await asyncio.sleep(0.05)
        self._while_asleep = lambda: None

    async def create(self, *names: str, value: str = "1") -> None:
        await asyncio.gather(*(self._create(name, value) for name in names))

    async def change(self, name: str, value: str) -> None:
        patch = {"data": {"value": value}}
        path = CONFIG_MAPS.object(NAMESPACE, name)
        await self._direct.call("PATCH", path, body=patch, content_type="application/merge-patch+json")

    async def delete(self, name: str) -> None:
        await self._direct.call("DELETE", CONFIG_MAPS.object(NAMESPACE, name))

    async def elsewhere(self) -> None:
        """Something happens that the reflector does not follow."""
        body = {"metadata": {"generateName": "elsewhere-", "namespace": NAMESPACE}}
        await self._direct.call("POST", CONFIG_MAPS.collection(NAMESPACE), body=body)

    async def _create(self, name: str, value: str) -> None:
        labels = dict([self.label.split("=")])
        metadata = {"name": name, "namespace": NAMESPACE, "labels": labels}
        tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": value}}
        await self._direct.call("POST", CONFIG_MAPS.collection(NAMESPACE), body=tree, timeout_s=WITHIN_S)

    async def _forgotten(self, version: str) -> None:
        """Returns when the server itself has forgotten it."""
        async with asyncio.timeout(WITHIN_S):
            while await self._remembers(version):  # noqa: ASYNC110 (etcd tells nobody)
                await asyncio.sleep(0.1)

    async def _remembers(self, version: str) -> bool:
        query = [("resourceVersion", version), ("timeoutSeconds", "1")]
        try:
            async with self._direct.watch(CONFIG_MAPS.collection(), query=query, silence_s=WITHIN_S) as events:
                async for _ in events:
                    return True
                return True
        except ApiError as error:
            return error.status != 410

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self._while_asleep()
        await asyncio.sleep(min(seconds, 0.01))


@asynccontextmanager
async def world_of(
    port: int, ca: Path, user: Mapping[str, str], folder: Path, forget: Callable[[], None] | None = None
) -> AsyncIterator[World]:
    async with relaying(port) as relay:
        straight, relayed = folder / "straight.kubeconfig", folder / "relayed.kubeconfig"
        write_kubeconfig(straight, f"https://127.0.0.1:{port}", ca, user)
        write_kubeconfig(relayed, f"https://127.0.0.1:{relay.port}", ca, user)
        async with connect(relayed) as connection, connect(straight) as direct:
            yield World(connection, direct, relay, forget)


@asynccontextmanager
async def following(reflector: Reflector) -> AsyncIterator[None]:
    """Runs it, from its first list on, and ends it."""
    task = asyncio.create_task(reflector.run())
    try:
        await until(lambda: reflector.synced or task.done())
        yield
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        await asyncio.wait([task])


names = (f"m{count}-{uuid.uuid4().hex[:8]}" for count in itertools.count())
"""Names of objects that are not there yet."""


class Relay:
    """Passes bytes on, both ways."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._open: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._speaks = asyncio.Event()
        self._speaks.set()
        self.port = 0
        self.opened = 0
        """Connections taken so far."""

    def cut(self) -> None:
        """End all connections without a goodbye."""
        for writer in self._open:
            writer.transport.abort()

    def mute(self) -> None:
        """From now on nothing comes from the server, on whatever connection."""
        self._speaks.clear()

    def unmute(self) -> None:
        self._speaks.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        self._open.add(writer)
        try:
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        except ConnectionError:  # the server is away: so is the relay
            writer.transport.abort()
            self._open.discard(writer)
            self._serving.discard(task)
            return
        writers = {writer, there_writer}
        self._open |= writers
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass(reader, there_writer, muted=False))
                both.create_task(self._pass(there_reader, writer, muted=True))
        except* ConnectionError:
            pass
        finally:
            self._open -= writers
            for each in writers:
                each.transport.abort()
            await asyncio.gather(*(each.wait_closed() for each in writers), return_exceptions=True)
            self._serving.discard(task)

    async def end(self) -> None:
        self.unmute()
        self.cut()
        await asyncio.gather(*self._serving)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, muted: bool) -> None:
        while chunk := await reader.read(65536):
            if muted:
                await self._speaks.wait()
            writer.write(chunk)
            await writer.drain()
        raise ConnectionResetError("the other side has gone")


@asynccontextmanager
async def relaying(target_port: int) -> AsyncIterator[Relay]:
    relay = Relay(target_port)
    server = await asyncio.start_server(relay.serve, "127.0.0.1", 0)
    relay.port = server.sockets[0].getsockname()[1]
    try:
        yield relay
    finally:
        server.close()
        await relay.end()
