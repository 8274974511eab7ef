"""Whatever a source says, it is told that it is wrong, and what was in force stays: no text ends the gate."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from extauthz.demo.apiserver import Key
from extauthz.inputs.files.content import FilesError
from extauthz.inputs.kube.connection import connect
from extauthz.inputs.sources import file as quota_file
from extauthz.inputs.sources.http import Endpoint, HttpQuotas
from extauthz.inputs.sources.kubernetes import LiveQuotas, Quotas
from tests.controlplane.plane import write_kubeconfig
from tests.support.apireading import Fault
from tests.support.apiserver import ApiServer
from tests.support.certs import Authority
from tests.support.platform import Platform
from tests.waiting import until

ACME = {
    "apiVersion": "extauthz.dev/v1alpha1",
    "kind": "WorkspaceQuota",
    "metadata": {"name": "acme", "uid": "u1"},
    "spec": {"hard": {"pods": "3"}},
}

HOSTILE = {
    "brackets without end": "[" * 100_000,
    "lists in lists": "[" * 5_000 + "]" * 5_000,
    "objects in objects": '{"a":' * 5_000 + "1" + "}" * 5_000,
    "as deep as Python can": "[" * 960 + "]" * 960,
    "a little too deep": "[" * 105 + "]" * 105,
    "an integer of 5,000 digits": "9" * 5_000,
    "a fraction beyond all bounds": "1e999",
    "no number": "NaN",
    "half a character": '"\\ud800"',
    "a key of half a character": '{"\\ud800": 1}',
    "a key twice": '{"pods": "1", "pods": "3"}',
    "many values": "[" + "[]," * 50_000 + "0]",
}


def within(text: str) -> str:
    """As the limits of the one quota that was good."""
    return json.dumps(ACME).replace('{"pods": "3"}', text)


async def of_a_file(name: str, folder: Path, text: str) -> dict[str, int]:
    path = folder / name
    path.write_text(json.dumps(ACME))
    good = quota_file.load(path)
    path.write_text(text)
    with pytest.raises(FilesError):
        quota_file.load(path)
    return hard(good)


async def of_a_json_file(folder: Path, text: str) -> dict[str, int]:
    return await of_a_file("quotas.json", folder, text)


async def of_a_yaml_file(folder: Path, text: str) -> dict[str, int]:
    return await of_a_file("quotas.yaml", folder, text)


async def of_a_config_map(folder: Path, text: str) -> dict[str, int]:
    """As the kubelet mounts it: a directory whose file is a link into another."""
    (folder / "..data").mkdir()
    (folder / "quotas.yaml").symlink_to(folder / "..data" / "quotas.yaml")
    good = await of_a_file("..data/quotas.yaml", folder, text)
    with pytest.raises(FilesError):
        quota_file.load(folder)
    return good


async def of_a_service(folder: Path, text: str) -> dict[str, int]:
    accepted: list[Quotas] = []
    told: list[str] = []
    of_list = '{"apiVersion": "extauthz.dev/v1alpha1", "kind": "WorkspaceQuotaList", "items": [%s]}'
    async with Platform(body=(of_list % json.dumps(ACME)).encode()) as platform:
        endpoint = Endpoint(f"{platform.url}/quotas", 5.0)
        source = HttpQuotas(endpoint, 10.0, accepted.append, lambda result, _: told.append(result))
        async with source.client.session() as session:
            await source.ask(session)
            platform.body = (of_list % text).encode()
            await source.ask(session)
            await source.ask(session)
    assert told[1] == "malformed" or accepted[-1].standings[0].fault is not None
    return hard(accepted[-1])


@asynccontextmanager
async def followed(folder: Path, *faults: Fault) -> AsyncIterator[tuple[ApiServer, LiveQuotas, list[Quotas]]]:
    """The quotas of a cluster whose API server answers so in turn."""
    authority = Authority(folder)
    with ApiServer(authority.issue("apiserver")) as api:
        api.objects.put(Key("extauthz.dev", "workspacequotas", "", "acme"), copy.deepcopy(ACME), "ADDED")
        api.reading.faults.extend(faults)
        write_kubeconfig(folder / "kubeconfig", f"https://127.0.0.1:{api.port}", authority.ca, {"token": "t"})
        accepted: list[Quotas] = []
        async with connect(folder / "kubeconfig") as connection:
            live = LiveQuotas(connection, accepted.append)
            task = asyncio.create_task(live.run())
            try:
                await until(lambda: accepted or task.done())
                yield api, live, accepted
                assert not task.done(), task.exception()
            finally:
                task.cancel()
                await asyncio.wait([task])


async def of_a_watch(folder: Path, text: str) -> dict[str, int]:
    later = f'{{"type": "MODIFIED", "object": {versioned(text, 1000)}}}\n'.encode()
    faults = Fault(500, b"{}", only="sendInitialEvents"), Fault(body=later, only="resourceVersion=", then="cut")
    async with followed(folder, *faults) as (api, live, accepted):
        await until(lambda: len(accepted) > 1 or live.reflector.failures)
        assert not api.reading.faults
        return hard(accepted[-1])


async def of_a_list(folder: Path, text: str) -> dict[str, int]:
    """What is bad before anything good was there: the quota is known, or the list is taken again."""
    listed = f'{{"metadata": {{"resourceVersion": "7"}}, "items": [{versioned(text, 7)}]}}'.encode()
    faults = Fault(500, b"{}", only="sendInitialEvents"), Fault(body=listed)
    async with followed(folder, *faults) as (api, _, accepted):
        assert not api.reading.faults
        assert [one.name for one in accepted[-1].standings] == ["acme"]
        return {"pods": 3}


def versioned(text: str, version: int) -> str:
    return text.replace('"name": "acme"', f'"name": "acme", "resourceVersion": "{version}"')


def hard(quotas: quota_file.Quotas | Quotas) -> dict[str, int]:
    (node,) = quotas.tree.nodes
    return {key: amount // 10**9 for key, amount in node.quota.hard.items()}


SOURCES: list[Callable[[Path, str], Awaitable[dict[str, int]]]] = [
    of_a_json_file,
    of_a_yaml_file,
    of_a_config_map,
    of_a_service,
    of_a_watch,
    of_a_list,
]


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("source", SOURCES)
async def test_what_a_source_says_ends_nothing_and_what_was_in_force_stays(source, text: str, tmp_path: Path):
    assert await source(tmp_path, within(text)) == {"pods": 3}
