"""What custom resources, their members and their pods cost, at the gate as it serves: its watches and its webhook."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from extauthz import testing as builders
from extauthz.core.model import Tree, Verdict
from tests.worlds import objects, reviews
from tests.worlds.judge import Promise
from tests.worlds.member import Member
from tests.worlds.objects import container, definition
from tests.worlds.plan import draw
from tests.worlds.reference import DEFINITIONS, NAMESPACES, QUOTAS
from tests.worlds.wire import Question
from tests.worlds.world import World

TIN, WEB, OTHER = ("shop", "web-tin-0"), ("shop", "web-deploy-0"), ("shop", "job-deploy-1")
PODS = "/api/v1/pods"
PODS_RESOURCE = {"group": "", "version": "v1", "resource": "pods"}
POD_PATH = "/api/v1/namespaces/shop/pods"


class House:
    """A namespace under one quota, a kind of custom resource, and a gate that serves."""

    def __init__(self, world: World, cpus: int) -> None:
        self.world = world
        world.server.wrote.clear()  # nobody judges this world
        post = world.server.request
        post("POST", NAMESPACES, {}, objects.namespace("shop"))
        limits = {"requests.cpu": str(cpus)}
        post("POST", QUOTAS, {}, objects.quota("acme", limits, {"namespaces": {"workspace": "acme"}}))
        selects = {"labelSelectorPath": ".status.selector"}
        post("POST", DEFINITIONS, {}, definition("ops.example.com/v1", "tins", "Tin", **selects))

    async def begins(self) -> None:
        self.member: Member = self.world.start(0)
        assert await self.world.until(lambda: self.member.serves and self.member.gate.synced, 90.0)
        await asyncio.sleep(90.0)

    def make(self, tree: Tree) -> Tree:
        """The object, as it is stored."""
        group, place = tree["apiVersion"], tree["metadata"]
        plural = f"{tree['kind'].lower()}s"
        base = "/api/v1" if group == "v1" else f"/apis/{group}"
        path = f"{base}/namespaces/shop/{plural}"
        self.world.server.request("POST", path, {}, tree)
        made: Tree = self.world.server.objects(f"{base}/{plural}")["shop", place["name"]]
        return made

    def change(self, tree: Tree, **spec: Any) -> Tree:
        group, name = tree["apiVersion"], tree["metadata"]["name"]
        path = f"/apis/{group}/namespaces/shop/{tree['kind'].lower()}s/{name}"
        self.world.server.request("PATCH", path, {}, {"spec": spec})
        changed: Tree = self.world.server.objects(f"/apis/{group}/{tree['kind'].lower()}s")["shop", name]
        return changed

    async def ask(self, tree: Tree) -> Verdict:
        """What the webhook says of an object that is about to be made."""
        path = f"/apis/apps/v1/namespaces/shop/{tree['kind'].lower()}s"
        prepared = self.world.server.prepare("POST", path, tree)
        question = Question(reviews.review(prepared, "u1", dry=False), Promise(OTHER, 0, None), 0, False, "u1")
        answer, _ = await self.member.begin(self.member.answer(question))
        return answer.verdict

    async def resize(self, pod: Tree, cpu: str) -> Verdict:
        """What the webhook says of a pod that is resized in place."""
        after = {**pod, "spec": {"containers": [container(cpu)]}}
        return await self.of_pod(builders.admission(after, pod, resource=PODS_RESOURCE, subResource="resize"))

    async def comes(self, pod: Tree) -> Verdict:
        """What it says of a pod that is about to be made."""
        return await self.of_pod(
            builders.admission(pod, pod, resource=PODS_RESOURCE, operation="CREATE", oldObject=None)
        )

    async def of_pod(self, review: Tree) -> Verdict:
        question = Question(json.dumps(review).encode(), Promise(OTHER, 0, None), 0, False, review["request"]["uid"])
        answer, _ = await self.member.begin(self.member.answer(question))
        return answer.verdict

    @property
    def charged(self) -> int:
        """CPUs."""
        (row,) = self.member.gate.usage()
        return (row.used + row.reserved) // 10**9


def run(cpus: int, story: Callable[[House], Awaitable[None]], *before: Callable[[House], Tree]) -> None:
    """Let a gate start on what is there, and then tell the rest."""
    world = World(replace(draw(1, 0, frozenset(), "memory", entrances="webhook"), quotas=(), workloads=()))
    house, told = House(world, cpus), []

    async def main() -> None:
        for make in before:
            make(house)
        await house.begins()
        await story(house)
        told.append(True)

    world.loop.run(main())
    assert told, world.trace[-3:]


def tin(replicas: int, cpu: str = "1") -> Callable[[House], Tree]:
    """A custom resource whose pods are its own; with no CPUs one that says nothing of its pods."""

    def make(house: House) -> Tree:
        tree = objects.workload(TIN, replicas, cpu or "1")
        tree["status"] = {"selector": f"app={TIN[1]}", "replicas": 0}
        if not cpu:
            del tree["spec"]["template"]
        return house.make(tree)

    return make


def there(house: House) -> Tree:
    found: Tree = house.world.server.objects("/apis/ops.example.com/v1/tins")[TIN]
    return found


def below(owner: Tree, tree: Tree) -> Tree:
    """An object that names the custom resource as its controller, and is what that selects."""
    own = tree["metadata"] | {"ownerReferences": [objects.reference(owner)], "labels": {"app": TIN[1], "tier": "web"}}
    return {**tree, "metadata": own}


def pod(name: str, cpu: str) -> Tree:
    metadata = {"name": name, "namespace": "shop", "labels": {"app": TIN[1]}}
    status = {"phase": "Running"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container(cpu)]}} | {
        "status": status
    }


def test_a_deployment_that_names_a_custom_resource_as_its_owner_needs_room_beside_it():
    """Whoever may write Deployments may write that."""

    async def story(house: House) -> None:
        assert house.charged == 8
        assert await house.ask(below(there(house), objects.workload(WEB, 8, "1"))) is Verdict.DENY

    run(8, story, tin(8))


def test_a_deployment_that_an_operator_makes_beside_the_pods_of_its_custom_resource_counts():
    """It is there before the four pods are."""

    async def story(house: House) -> None:
        house.make(below(there(house), objects.workload(WEB, 1, "1")))
        await asyncio.sleep(5.0)
        assert house.charged == 5
        assert await house.ask(objects.workload(OTHER, 1, "1")) is Verdict.DENY

    run(5, story, tin(4))


def test_a_custom_resource_whose_template_becomes_cheaper_costs_what_its_pods_may_until_their_watch_has_come_as_far():
    async def story(house: House) -> None:
        now_s = house.world.loop.time()
        house.world.links[0].held_until_s[PODS] = now_s + 5.0
        for number in range(4):
            house.make(below(there(house), pod(f"tin-{number}", "2")))
        cheaper = objects.workload(TIN, 4, "1")["spec"]["template"]
        house.change(there(house), template=cheaper)
        await asyncio.sleep(3.0)
        assert house.charged == 8
        assert await house.ask(objects.workload(OTHER, 1, "1")) is Verdict.DENY
        await asyncio.sleep(90.0)
        assert house.charged == 8, "its pods are there"
        for number in range(4):
            house.world.server.request("DELETE", f"{POD_PATH}/tin-{number}", {}, None)
        await asyncio.sleep(5.0)
        assert house.charged == 4

    run(8, story, tin(4, "2"))


def test_a_pod_of_somebody_else_prices_no_custom_resource():
    """It has the label that the scale of the custom resource selects, and nothing else."""

    async def story(house: House) -> None:
        for number in range(2):
            house.make(below(there(house), pod(f"tin-{number}", "1")))
        await asyncio.sleep(5.0)
        assert house.charged == 2
        house.make(pod("stranger", "3"))
        await asyncio.sleep(5.0)
        assert house.charged == 2 + 3

    run(6, story, tin(2, ""))


@pytest.mark.parametrize("how", ["resized", "made"])
def test_a_pod_of_its_own_that_is_dearer_is_weighed_as_the_price_of_all_replicas(how: str):
    """One prices the next ones, and so all."""

    async def story(house: House) -> None:
        made = [house.make(below(there(house), pod(f"tin-{number}", "1"))) for number in range(2)]
        await asyncio.sleep(5.0)
        assert house.charged == 3

        async def dearer(number: int, cpu: str) -> Verdict:
            if how == "resized":
                return await house.resize(made[number], cpu)
            another = below(there(house), pod(f"tin-{cpu}", cpu))
            another["metadata"]["uid"] = f"uid-{cpu}"
            return await house.comes(another)

        assert await dearer(0, "2") is Verdict.ALLOW
        assert house.charged == 6
        assert await dearer(1, "3") is Verdict.DENY

    run(6, story, tin(3, ""))
