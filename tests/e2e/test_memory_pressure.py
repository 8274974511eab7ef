"""A real HPA is held while nodes of its pool are short of memory, says why, and goes on when there is memory again.

The plug-in ``examples/memory-pressure`` does it. What the gate asks of nodes goes by an Envoy that knows the stand-in
for metrics-server; all else is as in ``world``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from extauthz.demo.envoy import Envoy
from extauthz.tools.render.options import Endpoint
from tests.controlplane.access import service_account
from tests.controlplane.metricsdesk import only_route
from tests.controlplane.plane import Plane, running_plane, write_kubeconfig
from tests.controlplane.workspace import Workspace, autoscaler, condition, workload
from tests.controlplane.world import GATES_OWN, World
from tests.examples import MEMORY_PRESSURE, as_installed
from tests.support.metricsapi import MetricsApi, route
from tests.waiting import eventually

pytestmark = pytest.mark.controlplane("kube-controller-manager")

Tree = Any
PAGE = (MEMORY_PRESSURE / "README.md").read_text()
OPTIONS = {
    "everySeconds": 1,
    "pools": [
        {"name": name, "nodeSelector": {"matchLabels": {"pool": name}}, "upper": 90, "lower": 80, "patience": 1}
        for name in ("batch", "web")
    ],
}


class Pressed(World):
    """A gate with the plug-in, and with the rights that its README gives it."""

    def __init__(self, plane: Plane, folder: Path, server: str) -> None:
        super().__init__(plane, folder, ["--policies=memory-pressure"])
        self._server = server

    def _install(self) -> None:
        super()._install()
        (rights,) = re.findall(r"```yaml\n(apiVersion: rbac.*?)```", PAGE, re.DOTALL)
        for tree in yaml.safe_load_all(rights):
            self.api.create(tree)
        token = service_account(self.plane, GATES_OWN, "extauthz")
        write_kubeconfig(self._kubeconfig, self._server, self.plane.ca, {"token": token})

    def pool(self, what: str, name: str) -> float:
        """A metric of a pool."""
        return self.gate.metric(f'extauthz_policy_level{{level="{what}",of="{name}",policy="memory-pressure"}}')


@pytest.fixture(scope="module")
def pressed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Pressed, MetricsApi]]:
    folder = tmp_path_factory.mktemp("pressed")
    with running_plane(folder=tmp_path_factory.mktemp("plane")) as plane, MetricsApi(plane.url, plane.tls) as nodes:
        for name in ("batch", "web"):
            plane.api.create(
                {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"of-{name}", "labels": {"pool": name}}}
            )
            plane.api.patch("Node", f"of-{name}", None, {"status": {"capacity": {"memory": "1000Mi"}}}, sub="status")
            nodes.nodes[f"of-{name}"] = ("500Mi", None)

        def alter(tree: Tree) -> None:
            route(nodes.port, tree)
            only_route(tree)

        file = folder / "pressure.yaml"
        file.write_text(yaml.safe_dump(OPTIONS))
        with pytest.MonkeyPatch.context() as environment, ExitStack() as stack:
            environment.setenv("MEMORY_PRESSURE_FILE", str(file))
            environment.setenv("PYTHONPATH", as_installed(folder))
            envoy = stack.enter_context(Envoy(plane.sidecar(Endpoint("127.0.0.1", 1)), folder / "to-nodes", alter))
            world = stack.enter_context(Pressed(plane, folder, f"https://127.0.0.1:{envoy.port}"))
            yield world, nodes


def scaled(acme: Workspace, name: str) -> None:
    """A Deployment on the nodes of the pool of that name, and its HPA."""
    tree = workload(name, 1, {"cpu": "1", "memory": "64Mi"})
    tree["spec"]["template"]["spec"]["nodeSelector"] = {"pool": name}
    acme.create(tree)
    acme.await_ready(name, 1)
    acme.create(autoscaler(name, most=4))


def test_an_hpa_is_held_while_its_nodes_are_short_of_memory_and_goes_on_when_they_are_not(pressed):
    world, nodes = pressed
    assert world.manager.running
    with Workspace(world, "pressed", {"requests.memory": "10Gi"}) as acme:
        nodes.nodes["of-batch"] = ("950Mi", None)
        eventually(lambda: world.pool("held", "batch") == 1)
        acme.busy("900m")
        for name in ("batch", "web"):
            scaled(acme, name)

        def able() -> Tree:
            return condition(world.api.get("HorizontalPodAutoscaler", "batch", acme.namespace), "AbleToScale")

        eventually(lambda: able().get("reason") == "FailedUpdateScale", lambda: (able(), acme.replicas("batch")))
        sentence = (
            "policy memory-pressure: nodes of pool batch use 95 % of their memory, growth waits from 90 % on until"
        )
        assert sentence in able()["message"]
        assert "ask again in about" in able()["message"]
        assert any(sentence in event["message"] for event in acme.events("FailedRescale", "batch"))
        acme.await_ready("web", 4)  # its nodes have room
        assert (acme.replicas("batch"), world.pool("waiting", "batch")) == (1, 1)

        nodes.nodes["of-batch"] = ("850Mi", None)
        eventually(lambda: world.pool("used", "batch") == 0.85)
        held = 'extauthz_policy_answers_total{policy="memory-pressure",result="refused",step="permit"}'
        before = world.gate.metric(held)
        eventually(lambda: world.gate.metric(held) >= before + 2)
        assert acme.replicas("batch") == 1, "between the marks it goes on waiting"

        nodes.nodes["of-batch"] = ("790Mi", None)
        acme.await_ready("batch", 4)
        eventually(lambda: able().get("status") == "True", able)
        eventually(lambda: (world.pool("held", "batch"), world.pool("waiting", "batch")) == (0, 0))
        assert {one["event"] for one in world.gate.events("pool-held")} == {"pool-held"}
        eventually(lambda: any(True for _ in world.gate.events("pool-open")))
