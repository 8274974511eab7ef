"""The snapshot of a live cluster, held against what kubectl prints of the same cluster, through all that can happen."""

from __future__ import annotations

import asyncio
import copy
import itertools
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from extauthz.core.model import WorkloadRef
from extauthz.inputs.cluster.reader import Reader
from extauthz.inputs.kube.connection import connect
from extauthz.inputs.settlement.reads import ConsistentReads, Result
from extauthz.testing import pod
from tests.controlplane.access import service_account
from tests.controlplane.api import RefusedError
from tests.controlplane.churn import Churn
from tests.controlplane.fixtures import DEFINITIONS, custom
from tests.controlplane.living import NANO, WITHIN_S, Live, agrees, deployment, living, namespace, owned
from tests.controlplane.plane import Plane, running_plane, write_kubeconfig
from tests.waiting import eventually, until

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
        plane.api.patch("Deployment", "web", shop, {"metadata": {"annotations": {"which": "the watch has not shown"}}})
        assert live.used()[f"{shop} requests.cpu"] == 2 * NANO
        await reads.read(WorkloadRef("apps", "deployments", shop, "web"))
        assert live.used()[f"{shop} requests.cpu"] == 6 * NANO


async def test_a_watch_is_waited_for_that_brings_a_change_after_all_that_was_written(plane, relay, relayed):
    shop = namespace(plane, "caught-up")
    refs = [WorkloadRef("apps", "deployments", shop, name) for name in ("web", "api")]
    for ref in refs:
        plane.api.create(deployment(ref.name, 1, shop))
    elsewhere = WorkloadRef("apps", "deployments", "never-seen", "web")
    async with living(plane, relayed, shop) as live, connect(plane.kubeconfig) as straight:
        reader = Reader(straight, live.gate, live.cluster)
        assert await reader.catch_up([elsewhere]) == set()
        relay.mute()
        plane.api.patch("Deployment", "web", shop, {"spec": {"replicas": 3}})
        plane.api.patch("Deployment", "api", shop, {"spec": {"replicas": 2}})
        assert await reader.catch_up(refs) == set()
        relay.unmute()
        for number in range(100):
            catching_up = asyncio.create_task(reader.catch_up([*refs, elsewhere]))
            await asyncio.sleep(0.02)
            change = {"metadata": {"annotations": {"number": str(number)}}}
            await asyncio.to_thread(plane.api.patch, "Deployment", "api", shop, change)
            if found := await catching_up:
                break
        assert found == set(refs)
        assert live.used()[f"{shop} pods"] == 5 * NANO


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


Tree = Any
NUMBERS = itertools.count()


def unpriced(live: Live) -> dict[str, int]:
    ref = WorkloadRef("example.dev", "widgets", live.workspace, "knob")
    entry = live.gate.ledger.get(ref)
    return (
        {live.workspace: 1}
        if entry is not None and entry.observed is not None and entry.observed.template is None
        else {}
    )


def pod_of(owner: Tree, name: str, where: str, requests: dict[str, str]) -> Tree:
    metadata = {"name": name, "namespace": where, "labels": {"app": "knob"}, "ownerReferences": owned(owner)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod(requests)["spec"]}


@pytest.fixture
def shop(plane) -> Iterator[str]:
    definitions = []
    for tree in DEFINITIONS:
        made = copy.deepcopy(tree)
        made["spec"]["versions"][0]["subresources"]["scale"]["labelSelectorPath"] = ".status.selector"
        definitions.append(plane.api.create(made))
    for kind in ("Gadget", "Widget"):
        eventually(lambda kind=kind: plane.api.serves(f"{kind}.example.dev/v1"))
    yield namespace(plane, f"customs-{next(NUMBERS)}")
    for one in definitions:
        with suppress(RefusedError):
            plane.api.delete("CustomResourceDefinition", one["metadata"]["name"])
    for kind in ("Gadget", "Widget"):
        eventually(lambda kind=kind: not plane.api.serves(f"{kind}.example.dev/v1"))


async def test_one_without_costs_what_the_dearest_of_its_pods_does(plane, relayed, shop):
    knob = plane.api.create(custom("Widget", "knob", 3) | {"metadata": {"name": "knob", "namespace": shop}})
    plane.api.patch(
        "Widget.example.dev/v1", "knob", shop, {"status": {"selector": "app=knob", "replicas": 0}}, sub="status"
    )
    cpu, memory = f"{shop} requests.cpu", f"{shop} requests.memory"
    async with living(plane, relayed, shop) as live:
        assert unpriced(live) == {shop: 1}
        for name, requests in (("a", {"cpu": "1", "memory": "3Gi"}), ("b", {"cpu": "2", "memory": "1Gi"})):
            plane.api.create(pod_of(knob, name, shop, requests))
        await until(lambda: live.used()[memory] == 9 * 2**30 * NANO, live.used)
        await until(lambda: live.used()[cpu] == 6 * NANO, live.used)
        assert unpriced(live) == {}
        plane.api.call("DELETE", f"/api/v1/namespaces/{shop}/pods/b?gracePeriodSeconds=0")
        await until(lambda: live.used()[cpu] == 3 * NANO, live.used)


async def test_pods_that_were_there_before_price_it(plane, relayed, shop):
    knob = plane.api.create(custom("Widget", "knob", 3) | {"metadata": {"name": "knob", "namespace": shop}})
    plane.api.create(pod_of(knob, "a", shop, {"cpu": "2"}))
    async with living(plane, relayed, shop) as live:
        plane.api.patch("Widget.example.dev/v1", "knob", shop, {"status": {"selector": "app=knob"}}, sub="status")
        await until(lambda: live.used()[f"{shop} requests.cpu"] == 6 * NANO, live.used)


async def test_what_is_there_stays_counted_while_its_definition_is_changed(plane, relayed, shop):
    tree = custom("Gadget", "gizmo", 3) | {"metadata": {"name": "gizmo", "namespace": shop}}
    tree["spec"] |= {"template": pod({"cpu": "2"}), "replicas": 4}
    plane.api.create(tree)
    cpu = f"{shop} requests.cpu"
    async with living(plane, relayed, shop) as live:
        assert live.used()[cpu] == 6 * NANO
        name = "gadgets.example.dev"
        versions = plane.api.get("CustomResourceDefinition", name)["spec"]["versions"]
        versions[0]["subresources"]["scale"]["specReplicasPath"] = ".spec.replicas"
        plane.api.patch("CustomResourceDefinition", name, None, {"spec": {"versions": versions}})

        async with asyncio.timeout(WITHIN_S):
            while (now := live.used()[cpu]) != 8 * NANO:
                assert now == 6 * NANO
                await asyncio.sleep(0)  # at every turn, so that no moment is missed
        await live.cluster.list_anew()
        assert live.used()[cpu] == 8 * NANO


async def test_a_kind_goes_with_its_definition_and_comes_with_it(plane, relayed, shop):
    tree = custom("Gadget", "gizmo", 3)
    tree["spec"]["template"] = pod({"cpu": "2"})
    tree["metadata"] = {"name": "gizmo", "namespace": shop}
    plane.api.create(tree)
    cpu = f"{shop} requests.cpu"
    async with living(plane, relayed, shop) as live:
        assert live.used()[cpu] == 6 * NANO
        plane.api.delete("CustomResourceDefinition", "gadgets.example.dev")
        await until(lambda: live.used()[cpu] == 0, live.used)
        gizmo = WorkloadRef("example.dev", "gadgets", shop, "gizmo")
        await until(lambda: ("example.dev", "gadgets") not in live.cluster.resources, lambda: "")
        assert not await live.reads.read(gizmo)
        assert live.results[-1] is Result.UNKNOWN_KIND
        await until(lambda: not plane.api.serves("Gadget.example.dev/v1"), lambda: "")
        (again,) = (one for one in DEFINITIONS if one["spec"]["names"]["kind"] == "Gadget")
        plane.api.create(again)
        await until(lambda: plane.api.serves("Gadget.example.dev/v1"), lambda: "")
        plane.api.create(tree)
        await until(lambda: live.used()[cpu] == 6 * NANO, live.used)
