"""``explain`` of an HPA by KEDA's external metrics: the real operator, its real adapter, whose items carry no labels,
and the real HPA controller."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from extauthz.cli import main
from tests.controlplane import keda
from tests.controlplane.access import service_account
from tests.controlplane.keda import Queue
from tests.controlplane.manager import ControllerManager
from tests.controlplane.metricsdesk import MetricsDesk, bare_envoy
from tests.controlplane.plane import Plane, free_ports, running_plane, write_kubeconfig
from tests.controlplane.workspace import workload
from tests.e2e.clamping import Watched
from tests.support.kubelet import Kubelet
from tests.waiting import eventually

Tree = Any

pytestmark = [
    pytest.mark.controlplane("keda-operator", "keda-adapter", "kube-controller-manager"),
    pytest.mark.envoy,
]

SHOP, MOST, LENGTHS = "shop", 12, 6


class World:
    """The plane, and what reads it as an owner does."""

    def __init__(self, plane: Plane, kubeconfig: Path, url: str) -> None:
        self.plane, self.kubeconfig, self.url = plane, kubeconfig, url

    @property
    def hpa(self) -> Tree:
        found: list[Tree] = self.plane.api.list("HorizontalPodAutoscaler", SHOP)
        return found[0] if found else None

    def explained(self, capsys: pytest.CaptureFixture[str]) -> Tree:
        capsys.readouterr()
        main(["explain", "hpa/keda-hpa-web", "-n", SHOP, "--kubeconfig", str(self.kubeconfig), "-o", "json"])
        return json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder, (metrics,) = tmp_path_factory.mktemp("keda"), free_ports(1)
    with ExitStack() as stack:
        plane = stack.enter_context(running_plane(folder=tmp_path_factory.mktemp("plane")))
        desk = stack.enter_context(MetricsDesk(plane.url, plane.tls))
        url = f"https://127.0.0.1:{stack.enter_context(bare_envoy(plane, desk, folder / 'envoy')).port}"
        stack.enter_context(ControllerManager(plane, url, folder))
        stack.enter_context(Kubelet(plane.url, plane.tls))
        stack.enter_context(keda.running_operator(plane, plane.url, folder, metrics))
        adapter = stack.enter_context(keda.running_adapter(plane, folder, metrics))
        token = service_account(plane, keda.NAMESPACE, "asker", "cluster-admin")
        desk.adapter = (adapter, token)
        write_kubeconfig(folder / "owner", url, plane.ca, {"token": token})
        plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SHOP}})
        yield World(plane, folder / "owner", url)


def test_an_hpa_of_an_adapter_without_labels_is_explained_as_it_acts(world: World, capsys, tell):
    """Once it has come to rest, and, where that is called certain, while it is on its way."""
    seed = random.SystemRandom().randrange(1 << 32)
    lengths = random.Random(seed).sample(range(1, 2 * MOST), LENGTHS)
    watched, sure = Watched(world.plane, "HorizontalPodAutoscaler", SHOP), list[int]()
    with Queue() as queue:
        queue.length = 1
        for tree in (workload("web", 1, {"cpu": "1m"}), keda.scaled_object("web", queue.trigger, least=1, most=MOST)):
            world.plane.api.create(tree | {"metadata": tree["metadata"] | {"namespace": SHOP}})
        eventually(lambda: (world.hpa or {}).get("status", {}).get("currentMetrics"), lambda: world.hpa)
        for length in lengths:
            queue.length, wanted, before = length, min(length, MOST), len(watched.until(time.time()))
            early = world.explained(capsys)
            eventually(lambda: counts(world.hpa["status"]) == (wanted, wanted), lambda: world.hpa["status"])  # noqa: B023
            found = world.explained(capsys)
            assert (found["outcome"] == "failed", found["desiredReplicas"]) == (False, wanted), found
            assert any("s0-metric-api" in step["text"] for step in found["steps"]), found
            if early["confidence"] == "certain" and early["desiredReplicas"] != early["currentReplicas"]:
                sure.append(early["desiredReplicas"])
                assert sure[-1] in {counts(one["status"])[0] for one in watched.until(time.time())[before:]}, early
    tell(f"lengths {lengths} by {seed}; certain at once: {sure}")


def counts(status: Tree) -> tuple[int, int]:
    return status.get("desiredReplicas", 0), status.get("currentReplicas", 0)
