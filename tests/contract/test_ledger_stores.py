"""What gates rely on in a ledger store: the same tests in memory and on a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest

from extauthz.kube.connection import ApiError, Connection, connect
from extauthz.shared.kubernetes import WORKSPACE_LEDGERS, KubernetesStore
from extauthz.shared.memory import MemoryStore
from extauthz.shared.store import Conflict, LedgerStore, Refused, Stored, Unclear
from tests.controlplane.plane import Plane, write_kubeconfig

DEPLOY = Path(__file__).parents[2] / "deploy"
WITHIN_S = 20.0
_names = (f"ledger-{number}" for number in count())


@pytest.fixture(params=["memory", pytest.param("kubernetes", marks=pytest.mark.controlplane)])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LedgerStore]:
    if request.param == "memory":
        yield MemoryStore()
        return
    plane: Plane = request.getfixturevalue("plane")
    plane.kubectl("apply", "-f", str(DEPLOY / "ledger-crd.yaml"))
    async with connect(kubeconfig(plane, tmp_path)) as connection:
        await served(connection)
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


@pytest.fixture
def root() -> str:
    return next(_names)


class Heard:
    """A follower that remembers."""

    def __init__(self) -> None:
        self.states: dict[str, list[Stored | None]] = {}
        self.is_listed = asyncio.Event()

    def changed(self, stored: Stored) -> None:
        self.states.setdefault(stored.root, []).append(stored)

    def gone(self, root: str) -> None:
        self.states.setdefault(root, []).append(None)

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


async def delete(store: LedgerStore, root: str) -> None:
    if isinstance(store, MemoryStore):
        store.delete(root)
    else:
        await store._connection.call("DELETE", WORKSPACE_LEDGERS.object(None, root))


async def eventually(what) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not what():  # noqa: ASYNC110 (what is waited for has no event)
            await asyncio.sleep(0.01)


async def test_what_was_written_is_there(store: LedgerStore, root: str):
    assert await store.get(root) is None
    made = await store.put(root, "one", 1, None)
    assert (made.root, made.payload) == (root, "one")
    assert await store.get(root) == made
    changed = await store.put(root, "two", 2, made)
    assert changed.uid == made.uid
    assert int(changed.version) > int(made.version)
    assert await store.get(root) == changed


async def test_only_the_first_writer_of_a_state_writes(store: LedgerStore, root: str):
    made = await store.put(root, "", 0, None)
    answers = await asyncio.gather(*(store.put(root, f"p{n}", n, made) for n in range(8)), return_exceptions=True)
    (won,) = [answer for answer in answers if isinstance(answer, Stored)]
    assert [type(answer) for answer in answers if answer is not won] == [Conflict] * 7
    assert await store.get(root) == won


async def test_one_that_is_there_is_not_made_again(store: LedgerStore, root: str):
    made = await store.put(root, "mine", 0, None)
    with pytest.raises(Conflict):
        await store.put(root, "yours", 0, None)
    assert await store.get(root) == made


async def test_one_that_is_gone_is_not_written(store: LedgerStore, root: str):
    made = await store.put(root, "old", 0, None)
    await delete(store, root)
    with pytest.raises(Conflict):
        await store.put(root, "late", 0, made)
    again = await store.put(root, "new", 0, None)
    assert again.uid != made.uid
    with pytest.raises(Conflict):
        await store.put(root, "later", 0, made)


async def test_followers_are_told_of_what_is_there_and_of_each_change(store: LedgerStore, root: str):
    made = await store.put(root, "one", 0, None)
    async with following(store) as heard:
        assert heard.states[root] == [made]
        changed = await store.put(root, "two", 0, made)
        await eventually(lambda: heard.states[root] == [made, changed])
        await delete(store, root)
        await eventually(lambda: heard.states[root][-1] is None)
        again = await store.put(root, "three", 0, None)
        await eventually(lambda: heard.states[root][-1] == again)


@pytest.mark.controlplane
async def test_what_the_api_server_will_not_store_is_refused(plane: Plane, tmp_path: Path, root: str):
    plane.kubectl("apply", "-f", str(DEPLOY / "ledger-crd.yaml"))
    async with connect(kubeconfig(plane, tmp_path)) as connection:
        await served(connection)
        with pytest.raises(Refused, match="Too long"):
            await KubernetesStore(connection).put(root, "x" * 524_289, 0, None)


@pytest.mark.controlplane
async def test_without_a_server_nothing_is_clear(plane: Plane, tmp_path: Path, root: str):
    async with connect(kubeconfig(plane, tmp_path, server="https://127.0.0.1:1")) as connection:
        store = KubernetesStore(connection)
        with pytest.raises(Unclear):
            await store.put(root, "", 0, None)
        with pytest.raises(Refused):
            await store.get(root)
