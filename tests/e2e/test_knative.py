"""A real Knative autoscaler stops at the quota's edge and says why: one that writes to the scale, and an older one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from extauthz.tools.render.options import Profile
from tests.controlplane import knative
from tests.controlplane.activator import Activator
from tests.controlplane.workspace import autoscaler
from tests.waiting import eventually

pytestmark = pytest.mark.controlplane("kube-controller-manager")

GPU = "requests.nvidia.com/gpu"
SENDS = {"v0.50.0": "/scale", "v0.42.2": "/hello"}
"""How the path of what each version sends ends."""


ROUNDS = 3
BUSY, IDLE = {"cpu": "900m", "memory": "1Mi"}, {"cpu": "1m", "memory": "1Mi"}


class Serving(NamedTuple):
    version: str
    activator: Activator


@pytest.fixture(scope="module", params=knative.versions("autoscaler"))
def serving(world, request) -> Iterator[Serving]:
    """One version at a time, behind the Envoy of its profile; pods are made by kube-controller-manager."""
    assert world.manager.running
    server = world.url(Profile.AUTOSCALER)
    with (
        knative.running_autoscaler(world.plane, request.param, server, world.folder) as child,
        Activator() as activator,
    ):
        yield Serving(request.param, activator)
        assert child.running, child.tail()


def test_a_kpa_grows_by_traffic_to_the_edge_and_goes_to_zero_and_back_by_the_same_rules(world, workspace, serving):
    acme = workspace({GPU: "2"})
    for tree in knative.revision(acme.namespace, "hello", {"nvidia.com/gpu": "1"}):
        acme.create(tree)
    knative.await_service(world.plane.api, acme.namespace, "hello")

    def traffic(requests: int) -> None:
        serving.activator.concurrent[acme.namespace, "hello"] = requests

    def reaches(replicas: int) -> None:
        eventually(lambda: acme.replicas("hello") == replicas, lambda: (acme.replicas("hello"), refusals()))

    def refusals() -> list[str]:
        return [event["message"] for event in acme.events("InternalError", "hello")]

    traffic(2)
    reaches(2)
    traffic(4)
    eventually(lambda: any("largest allowed replicas: 2" in message for message in refusals()), refusals)
    assert f"exceeded workspace quota: {acme.name}, requested: {GPU}=" in refusals()[-1]
    assert acme.replicas("hello") == 2

    acme.set_hard({GPU: "4"})
    reaches(4)

    acme.set_hard({GPU: "0"})
    traffic(0)
    reaches(0)
    eventually(lambda: acme.charged(GPU) == 0, lambda: acme.charged(GPU))

    before = len(refusals())
    traffic(1)
    eventually(lambda: len(refusals()) > before, refusals)
    assert acme.replicas("hello") == 0
    acme.set_hard({GPU: "1"})
    reaches(1)

    paths = {line["path"] for line in world.envoy(Profile.AUTOSCALER).access_lines() if acme.namespace in line["path"]}
    assert all(path.endswith(SENDS[serving.version]) for path in paths), paths


@pytest.mark.parametrize("serving", ["v0.50.0"], indirect=True)
def test_of_two_hpas_and_a_kpa_in_three_namespaces_exactly_one_gets_the_last_gpu(world, workspace, serving):
    acme = workspace({GPU: "4"})
    namespaces = [acme.namespace, acme.add_namespace(f"{acme.name}-b"), acme.add_namespace(f"{acme.name}-c")]
    for namespace in namespaces:
        deployment, kpa = knative.revision(namespace, "app", {"cpu": "1", "nvidia.com/gpu": "1"})
        acme.create(deployment)
        kpa["metadata"]["annotations"]["autoscaling.knative.dev/min-scale"] = "1"
        hpa = autoscaler("app", most=2)
        hpa["metadata"]["namespace"] = namespace
        acme.create(kpa if namespace == namespaces[0] else hpa)
    knative.await_service(world.plane.api, namespaces[0], "app")

    def replicas() -> list[int]:
        return [world.api.get("Deployment", "app", namespace)["spec"]["replicas"] for namespace in namespaces]

    def load(*, heavy: bool) -> None:
        serving.activator.concurrent[namespaces[0], "app"] = 2 if heavy else 0.5
        for namespace in namespaces[1:]:
            world.metrics.usage[namespace] = BUSY if heavy else IDLE

    def refused() -> set[str]:
        lines = list(world.gate.events("decision"))[decided:]
        return {line["workload"].split("/")[1] for line in lines if line["verdict"] == "deny"} & set(namespaces)

    def seen() -> object:
        return replicas(), acme.charged(GPU), refused()

    decided = 0
    for _ in range(ROUNDS):
        load(heavy=False)
        eventually(lambda: replicas() == [1, 1, 1] and acme.charged(GPU) == 3, seen)
        decided = len(list(world.gate.events("decision")))
        load(heavy=True)
        eventually(lambda: len(refused()) == 2 and acme.used(GPU) == 4, seen)
        assert sorted(replicas()) == [1, 1, 2]
        assert acme.charged(GPU) == 4
