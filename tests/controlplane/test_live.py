"""The snapshot of a live cluster, held against what kubectl prints of the same cluster, through all that can happen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from extauthz.cluster.reads import Reader
from extauthz.core.model import WorkloadRef
from extauthz.kube.connection import connect
from extauthz.settlement.reads import ConsistentReads, Result
from extauthz.testing.builders import pod
from tests.controlplane.access import service_account
from tests.controlplane.churn import Churn
from tests.controlplane.living import NANO, agrees, deployment, living, namespace, owned
from tests.controlplane.plane import Plane, running_plane, write_kubeconfig

pytestmark = pytest.mark.controlplane


@pytest.mark.parametrize("seed", [1, 2])
async def test_usage_from_watches_equals_usage_counted_from_what_kubectl_prints(plane, relay, relayed, seed):
    churn = Churn(plane, f"churn{seed}", seed)
    for _ in range(40):
        await asyncio.to_thread(churn.step)
    async with living(plane, relayed, f"churn{seed}") as live:
        await agrees(live)
        for _ in range(3):
            for _ in range(60):
                await asyncio.to_thread(churn.step)
            relay.cut()
            await asyncio.to_thread(churn.rolled_out)
            await agrees(live)
    assert live.invalid == []


@pytest.fixture(scope="module")
def own_plane() -> Iterator[Plane]:
    """One that may be restarted: nobody else is on it."""
    with running_plane() as plane:
        yield plane


async def test_a_restart_of_the_api_server_loses_nothing(own_plane):
    churn = Churn(own_plane, "restarted", 3)
    for _ in range(20):
        await asyncio.to_thread(churn.step)
    async with connect(own_plane.kubeconfig) as connection, living(own_plane, connection, "restarted") as live:
        await agrees(live)
        await asyncio.to_thread(own_plane.restart)
        for _ in range(20):
            await asyncio.to_thread(churn.step)
        await asyncio.to_thread(churn.rolled_out)
        await agrees(live)
    assert live.invalid == []


async def test_a_read_overtakes_a_watch_that_lags(plane, relay, relayed):
    """The relay keeps back what the watches say; the reads go straight."""
    shop = namespace(plane, "overtaken")
    plane.api.create(deployment("old", 1, shop))
    async with living(plane, relayed, shop) as live, connect(plane.kubeconfig) as straight:
        reads = live.reads_by(straight)
        relay.mute()
        new = namespace(plane, "overtaken-2")
        plane.api.patch("Namespace", new, None, {"metadata": {"labels": {"workspace": shop}}})
        plane.api.create(deployment("new", 4, new))
        plane.api.delete("Deployment", "old", shop)
        pods = f"{shop} pods"
        assert live.used()[pods] == 1 * NANO
        for name in ("new", "never"):
            assert await reads.read(WorkloadRef("apps", "deployments", new, name))
        assert live.results == [Result.OK] * 2
        assert live.used()[pods] == 5 * NANO
        assert not await reads.read(WorkloadRef("apps", "deployments", shop, "old")), "its own watch must show that"
        assert live.results[2:] == [Result.BEHIND]
        assert live.used()[pods] == 5 * NANO
        relay.unmute()
        await agrees(live)
        assert live.used()[pods] == 4 * NANO


async def test_a_deployment_is_read_with_its_replica_sets(plane, relay, relayed):
    shop = namespace(plane, "with-its-own")
    web = plane.api.create(deployment("web", 2, shop))
    async with living(plane, relayed, shop) as live, connect(plane.kubeconfig) as straight:
        reads = live.reads_by(straight)
        relay.mute()
        old = deployment("web-1", 2, shop) | {"kind": "ReplicaSet"}
        old["metadata"] |= {"labels": {"app": "web"}, "ownerReferences": owned(web)}
        old["spec"] |= {"selector": {"matchLabels": {"app": "web"}}}
        old["spec"]["template"] = pod({"cpu": "3"}) | {"metadata": {"labels": {"app": "web"}}}
        plane.api.create(old)
        assert live.used()[f"{shop} requests.cpu"] == 2 * NANO
        await reads.read(WorkloadRef("apps", "deployments", shop, "web"))
        assert live.used()[f"{shop} requests.cpu"] == 6 * NANO


async def test_a_read_of_what_may_not_be_listed_says_what_would_help(plane, relayed, tmp_path):
    token = service_account(plane, "default", "nobody")
    write_kubeconfig(tmp_path / "nobody", plane.url, plane.ca, {"token": token})
    told: list[tuple[Result, str]] = []
    async with living(plane, relayed, "nobodys") as live, connect(tmp_path / "nobody") as nobody:
        reads = ConsistentReads(
            Reader(nobody, live.gate, live.cluster).bring,
            live.gate.ledger.pending,
            lambda result, ref, ended, why: told.append((result, why)),
            time.monotonic,
        )
        assert not await reads.read(WorkloadRef("apps", "deployments", "default", "web"))
    ((result, why),) = told
    assert result is Result.FORBIDDEN
    assert "cannot list resource" in why
    assert "deploy/rbac.yaml" in why
