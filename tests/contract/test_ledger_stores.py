"""What gates rely on in a ledger store: the same tests in memory and on a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from extauthz.inputs.kube.connection import ApiError, Connection, connect
from extauthz.serve.ledger_store.kubernetes import NAME, WORKSPACE_LEDGERS, KubernetesStore
from extauthz.serve.ledger_store.store import Conflict, LedgerStore, Stored, Unclear, WriteRefusedError
from tests.controlplane.plane import Plane, running_plane, write_kubeconfig
from tests.support.memory_store import MemoryStore
from tests.waiting import until

DEPLOY = Path(__file__).parents[2] / "deploy"
WITHIN_S = 20.0


@pytest.fixture(params=["memory", pytest.param("kubernetes", marks=pytest.mark.controlplane)])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LedgerStore]:
    if request.param == "memory":
        yield MemoryStore()
        return
    plane: Plane = request.getfixturevalue("plane")
    plane.kubectl("apply", "-f", str(DEPLOY / "ledger-crd.yaml"))
    async with connect(kubeconfig(plane, tmp_path)) as connection:
        await served(connection)
        with suppress(ApiError):
            await connection.call("DELETE", WORKSPACE_LEDGERS.object(None, NAME))
        yield KubernetesStore(connection)


def kubeconfig(plane: Plane, folder: Path, server: str = "") -> Path:
    user = {"client-certificate": str(plane.folder / "admin.crt"), "client-key": str(plane.folder / "admin.key")}
    write_kubeconfig(folder / "kubeconfig", server or plane.url, plane.folder / "ca.crt", user)
    return folder / "kubeconfig"


async def served(connection: Connection) -> None:
    """Until objects of the new kind are taken; the first one takes the server long."""
    warm = {"apiVersion": WORKSPACE_LEDGERS.api_version, "kind": "WorkspaceLedger", "metadata": {"name": "warm"}}
    async with asyncio.timeout(WITHIN_S):
        while True:
            try:
                body = {**warm, "spec": {"payload": ""}}
                await connection.call("POST", WORKSPACE_LEDGERS.collection(), query=[("dryRun", "All")], body=body)
            except ApiError:
                await asyncio.sleep(0.1)
            else:
                return


class Heard:
    """A follower that remembers."""

    def __init__(self) -> None:
        self.states: list[Stored | None] = []
        self.is_listed = asyncio.Event()

    def changed(self, stored: Stored) -> None:
        self.states.append(stored)

    def gone(self) -> None:
        self.states.append(None)

    def listed(self) -> None:
        self.is_listed.set()


@asynccontextmanager
async def following(store: LedgerStore) -> AsyncIterator[Heard]:
    heard = Heard()
    task = asyncio.create_task(store.run(heard))
    try:
        async with asyncio.timeout(WITHIN_S):
            await heard.is_listed.wait()
        yield heard
    finally:
        task.cancel()


async def delete(store: LedgerStore) -> None:
    if isinstance(store, MemoryStore):
        store.delete()
    else:
        await store._connection.call("DELETE", WORKSPACE_LEDGERS.object(None, NAME))


async def test_what_was_written_is_there(store: LedgerStore):
    assert await store.get() is None
    made = await store.put("one", 1, None)
    assert made.payload == "one"
    assert await store.get() == made
    changed = await store.put("two", 2, made)
    assert changed.uid == made.uid
    assert int(changed.version) > int(made.version)
    assert await store.get() == changed


async def test_only_the_first_writer_of_a_state_writes(store: LedgerStore):
    made = await store.put("", 0, None)
    answers = await asyncio.gather(*(store.put(f"p{n}", n, made) for n in range(8)), return_exceptions=True)
    (won,) = [answer for answer in answers if isinstance(answer, Stored)]
    assert [type(answer) for answer in answers if answer is not won] == [Conflict] * 7
    assert await store.get() == won


async def test_one_that_is_there_is_not_made_again(store: LedgerStore):
    made = await store.put("mine", 0, None)
    with pytest.raises(Conflict):
        await store.put("yours", 0, None)
    assert await store.get() == made


async def test_one_that_is_gone_is_not_written(store: LedgerStore):
    made = await store.put("old", 0, None)
    await delete(store)
    with pytest.raises(Conflict):
        await store.put("late", 0, made)
    again = await store.put("new", 0, None)
    assert again.uid != made.uid
    with pytest.raises(Conflict):
        await store.put("later", 0, made)


async def test_followers_are_told_of_what_is_there_and_of_each_change(store: LedgerStore):
    made = await store.put("one", 0, None)
    async with following(store) as heard:
        assert heard.states == [made]
        changed = await store.put("two", 0, made)
        await until(lambda: heard.states == [made, changed])
        await delete(store)
        await until(lambda: heard.states[-1] is None)
        again = await store.put("three", 0, None)
        await until(lambda: heard.states[-1] == again)


@pytest.mark.controlplane
async def test_what_the_api_server_will_not_store_is_refused(plane: Plane, tmp_path: Path):
    plane.kubectl("apply", "-f", str(DEPLOY / "ledger-crd.yaml"))
    async with connect(kubeconfig(plane, tmp_path)) as connection:
        await served(connection)
        with pytest.raises(WriteRefusedError, match="Too long"):
            await KubernetesStore(connection).put("x" * 524_289, 0, None)


@pytest.mark.controlplane
async def test_without_a_server_nothing_is_clear(plane: Plane, tmp_path: Path):
    async with connect(kubeconfig(plane, tmp_path, server="https://127.0.0.1:1")) as connection:
        store = KubernetesStore(connection)
        with pytest.raises(Unclear):
            await store.put("", 0, None)
        with pytest.raises(WriteRefusedError):
            await store.get()


@pytest.mark.controlplane
async def test_without_its_definition_a_write_is_refused_and_not_taken_for_another_writers(tmp_path: Path):
    async with running(tmp_path) as connection:
        with pytest.raises(WriteRefusedError):
            await KubernetesStore(connection).put("", 0, None)


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Connection]:
    """A connection to an API server that knows no WorkspaceLedger."""
    (folder / "plane").mkdir()
    with running_plane(folder=folder / "plane") as plane:
        async with connect(kubeconfig(plane, folder)) as connection:
            yield connection
