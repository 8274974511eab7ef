"""A real Knative autoscaler stops at the quota's edge and says why: one that writes to the scale, and an older one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from extauthz.render.options import Profile
from tests.controlplane import knative
from tests.controlplane.activator import Activator
from tests.controlplane.api import eventually

pytestmark = pytest.mark.controlplane("kube-controller-manager", *(f"autoscaler-{each}" for each in knative.VERSIONS))

GPU = "requests.nvidia.com/gpu"
SENDS = {"v0.50.0": "/scale", "v0.42.2": "/hello"}
"""How the path of what each version sends ends."""


class Serving(NamedTuple):
    version: str
    activator: Activator


@pytest.fixture(scope="module", params=knative.VERSIONS)
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
    knative.await_service(world.plane, acme.namespace, "hello")

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
