"""Three real gates raced on one real API server: clients ask over gRPC, as thick as they can, and send what is allowed.

No Envoy is in between, so that many checks are under way at each gate at once; ``tests/chaos`` has the Envoys. Two
judges look on: one adds up what is allowed as the clients are told, one what has become of it, by etcd's own history.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

import grpc
import httpx
import pytest
from envoy.service.accesslog.v3.als_pb2 import StreamAccessLogsMessage
from envoy.service.auth.v3.external_auth_pb2 import CheckRequest, CheckResponse

from tests.chaos.history import Judge, Watcher
from tests.controlplane.api import MERGE
from tests.controlplane.plane import running_plane
from tests.controlplane.sites import EXT_AUTHZ, LEDGER, LOCAL_POOL, Sites
from tests.controlplane.workspace import workload
from tests.waiting import eventually

pytestmark = pytest.mark.controlplane

GATES, CLIENTS, ASKS, MOST = 3, 24, 60, 6
W_S = 30.0
ASK_WITHIN_S = 20.0
TEAM = "crowd"
HARD = {"pods": 40, "requests.cpu": 8000}
"""CPU in thousandths."""
CPU = ("100m", "400m")
NAMES = [f"web-{number}" for number in range(16)]
JSON_AND_ALL_HISTORY = ("--storage-media-type=application/json", "--etcd-compaction-interval=0", "--request-timeout=5s")


class Raced(NamedTuple):
    """A plane with gates, and who looks on."""

    sites: Sites
    judge: Judge
    watcher: Watcher


@pytest.fixture(scope="module")
def raced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Raced]:
    judge = Judge(W_S)
    with (
        running_plane(JSON_AND_ALL_HISTORY, tmp_path_factory.mktemp("plane")) as plane,
        Watcher(plane.etcd_url, judge) as watcher,
        Sites(plane, tmp_path_factory.mktemp("sites"), GATES, W_S, options=["--allow-unknown=unclean-start"]) as sites,
    ):
        spec = {
            "namespaceSelector": {"matchLabels": {"team": TEAM}},
            "hard": {"pods": str(HARD["pods"]), "requests.cpu": f"{HARD['requests.cpu']}m"},
            "mode": "Enforce",
        }
        quota = {"apiVersion": "extauthz.dev/v1alpha1", "kind": "WorkspaceQuota", "metadata": {"name": TEAM}}
        plane.api.create(quota | {"spec": spec})
        plane.api.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM, "labels": {"team": TEAM}}}
        )
        for number, name in enumerate(NAMES):
            tree = workload(name, 0, {"cpu": CPU[number % len(CPU)]})
            tree["metadata"]["namespace"] = TEAM
            plane.api.create(tree)
        eventually(lambda: plane.api.list(LEDGER))
        sites.await_no_hold()
        await_known(sites)
        yield Raced(sites, judge, watcher)


def await_known(sites: Sites) -> None:
    """Until every gate knows that the quota covers each of the workloads. A new quota is like a cut."""
    body = json.dumps({"spec": {"replicas": 1000}}).encode()

    def refuses(check: Any, name: str) -> bool:
        path = f"/apis/apps/v1/namespaces/{TEAM}/deployments/{name}/scale?dryRun=All"
        answer = check(_request(path, body), timeout=ASK_WITHIN_S)
        return bool(answer.dynamic_metadata["reason"] == "exceeded-quota")

    for number in range(GATES):
        with grpc.insecure_channel(socket_of(sites, number), LOCAL_POOL) as channel:
            check = _check(channel)
            for name in NAMES:
                eventually(lambda name=name, check=check: refuses(check, name))


def socket_of(sites: Sites, number: int) -> str:
    return f"unix:{sites.folder / f'site-{number}' / 'gate.sock'}"


class Told:
    """What the clients know: which writes are allowed and not answered yet, and what was answered last."""

    def __init__(self) -> None:
        self.highest = Counter[str]()
        self.over: list[str] = []
        self._under_way: dict[str, list[int]] = {name: [] for name in NAMES}
        self._state = dict.fromkeys(NAMES, (0, 0))
        """resourceVersion and replicas."""

    def allowed(self, name: str, replicas: int) -> None:
        self._under_way[name].append(replicas)
        for resource, amount in self._sum().items():
            self.highest[resource] = max(self.highest[resource], amount)
            if amount > HARD[resource]:
                self.over.append(f"{name} may have {replicas}: {amount} {resource} of {HARD[resource]}")

    def answered(self, name: str, replicas: int, version: int) -> None:
        self._under_way[name].remove(replicas)
        self._state[name] = max(self._state[name], (version, replicas))

    def _sum(self) -> Counter[str]:
        """The least that gates must take to be in use: a write under way may have landed, and been seen, already."""
        total = Counter[str]()
        for number, name in enumerate(NAMES):
            replicas = max(self._under_way[name], default=self._state[name][1])
            total["pods"] += replicas
            total["requests.cpu"] += replicas * int(CPU[number % len(CPU)].removesuffix("m"))
        return total


class Clients:
    """All clients of a race."""

    def __init__(self, api: httpx.AsyncClient, channels: list[grpc.aio.Channel], seed: int) -> None:
        self.told = Told()
        self.said: Counter[str] = Counter()
        self._api, self._seed = api, seed
        self._gates = [(_check(channel), _access_log(channel)) for channel in channels]

    async def run(self, number: int) -> None:
        """One client, which asks again as soon as it has its answer."""
        choose = random.Random(f"{self._seed}-{number}")
        check, log = self._gates[number % len(self._gates)]
        for _ in range(ASKS):
            name, replicas = choose.choice(NAMES), choose.randint(0, MOST)
            path = f"/apis/apps/v1/namespaces/{TEAM}/deployments/{name}/scale"
            body = json.dumps({"spec": {"replicas": replicas}}).encode()
            answer = await check(_request(path, body), timeout=ASK_WITHIN_S)
            self.said[answer.dynamic_metadata["reason"]] += 1
            if answer.HasField("ok_response"):
                self.told.allowed(name, replicas)
                sent = await self._api.patch(path, content=body, headers={"content-type": MERGE})
                assert sent.status_code == 200, sent.text
                self.told.answered(name, replicas, int(sent.json()["metadata"]["resourceVersion"]))
                await log(iter([_answered(answer.dynamic_metadata["decision_id"])]), timeout=ASK_WITHIN_S)


def _request(path: str, body: bytes) -> CheckRequest:
    request = CheckRequest()
    http = request.attributes.request.http
    http.method, http.path, http.raw_body = "PATCH", path, body
    http.headers["content-type"] = MERGE
    return request


def _answered(decision_id: str) -> StreamAccessLogsMessage:
    """What Envoy's access log says of a write that the API server took."""
    message = StreamAccessLogsMessage()
    entry = message.http_logs.log_entry.add()
    entry.common_properties.upstream_request_attempt_count = 1
    entry.common_properties.metadata.filter_metadata[EXT_AUTHZ]["decision_id"] = decision_id
    entry.response.response_code.value = 200
    entry.response.response_code_details = "via_upstream"
    return message


def _check(channel: grpc.aio.Channel) -> Any:
    return channel.unary_unary(
        "/envoy.service.auth.v3.Authorization/Check",
        request_serializer=CheckRequest.SerializeToString,
        response_deserializer=CheckResponse.FromString,
    )


def _access_log(channel: grpc.aio.Channel) -> Any:
    return channel.stream_unary(
        "/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs",
        request_serializer=StreamAccessLogsMessage.SerializeToString,
    )


async def race(sites: Sites, seed: int) -> Clients:
    """Let all clients ask, and send what is allowed, until each has asked ``ASKS`` times."""
    plane = sites.plane
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(httpx.AsyncClient(base_url=plane.url, verify=plane.tls, timeout=30.0))
        channels = [
            await stack.enter_async_context(grpc.aio.insecure_channel(socket_of(sites, number), LOCAL_POOL))
            for number in range(GATES)
        ]
        clients = Clients(api, channels, seed)
        async with asyncio.TaskGroup() as group:
            for number in range(CLIENTS):
                group.create_task(clients.run(number))
    return clients


async def test_of_all_that_three_gates_allow_at_once_nothing_ever_goes_over(raced: Raced, tell):
    seed = int(os.environ.get("EXTAUTHZ_SEED") or random.SystemRandom().getrandbits(32))
    clients = await race(raced.sites, seed)
    await asyncio.to_thread(await_history, raced)
    account = raced.judge.accounts[TEAM, "pods"]
    tell(
        f"seed {seed}: {dict(clients.said)}, told {dict(clients.told.highest)}, landed {account.highest / 1000:g} pods"
    )
    assert not (clients.told.over + raced.judge.in_excess), f"seed {seed}"
    assert clients.said["exceeded-quota"], f"seed {seed}: there was room for all"
    assert clients.told.highest["pods"] > HARD["pods"] // 2, f"seed {seed}: hardly anything was allowed"
    await asyncio.to_thread(await_rest, raced)


def await_history(raced: Raced) -> None:
    """Until the judge knows all that has happened so far."""
    newest = int(raced.sites.plane.api.call("GET", "/api/v1/namespaces")["metadata"]["resourceVersion"])
    eventually(lambda: raced.watcher.revision >= newest or raced.watcher.failure, lambda: raced.watcher.revision)


def await_rest(raced: Raced) -> None:
    """Until every gate counts what is there and nothing else."""
    wanted = {"used": raced.judge.accounts[TEAM, "pods"].now / 1000, "reserved": 0.0}

    def counted(what: str) -> list[float]:
        series = f'extauthz_quota_{what}{{quota="{TEAM}",resource="pods"}}'
        return [site.gate.metric(series) for site in raced.sites]

    eventually(
        lambda: all(counted(what) == [amount] * GATES for what, amount in wanted.items()),
        lambda: f"{wanted} wanted, {counted('used')} used and {counted('reserved')} reserved",
    )
