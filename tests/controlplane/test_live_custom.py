"""Custom resources with a scale subresource in a live cluster, as they and their definitions come and go."""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from extauthz.core.model import WorkloadRef
from extauthz.settlement.reads import Result
from extauthz.testing.builders import pod
from tests.controlplane.api import RefusedError
from tests.controlplane.fixtures import DEFINITIONS, custom
from tests.controlplane.living import NANO, WITHIN_S, Live, living, namespace, owned
from tests.waiting import eventually, until

pytestmark = pytest.mark.controlplane

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


async def test_one_with_a_template_costs_what_that_says(plane, relayed, shop):
    tree = custom("Gadget", "gizmo", 3)
    tree["spec"]["template"] = pod({"cpu": "2"})
    plane.api.create(tree | {"metadata": {"name": "gizmo", "namespace": shop}})
    async with living(plane, relayed, shop) as live:
        assert live.used()[f"{shop} requests.cpu"] == 6 * NANO
        patch = {"spec": {"size": {"count": 5}}}
        plane.api.patch("Gadget.example.dev/v1", "gizmo", shop, patch)
        await until(lambda: live.used()[f"{shop} requests.cpu"] == 10 * NANO, live.used)


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
