"""What once went over a quota, by what a real controller makes of it: the gate stands before it as a webhook.

More of these have a kubelet too: tests/cluster/test_ways_over.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.controlplane.api import RefusedError
from tests.controlplane.plane import running_plane
from tests.controlplane.workspace import Workspace, workload
from tests.e2e.webhooked import WebhookWorld
from tests.waiting import eventually

Tree = Any

pytestmark = [pytest.mark.controlplane, pytest.mark.envoy]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookWorld]:
    with (
        running_plane(folder=tmp_path_factory.mktemp("plane")) as plane,
        WebhookWorld(plane, tmp_path_factory.mktemp("world")) as running,
    ):
        assert running.manager.running
        yield running


@pytest.fixture
def under(workspace: Callable[..., Workspace]) -> Callable[[str, str], Workspace]:
    """Makes a workspace with one limit, once the gate goes by it."""

    def make(key: str, limit: str) -> Workspace:
        acme = workspace({key: limit})
        eventually(lambda: acme.hard(key) > 0)
        return acme

    return make


def exist(acme: Workspace, kind: str) -> set[str]:
    return {one["metadata"]["name"] for one in acme.api.list(kind, acme.namespace)}


def test_a_paused_deployment_without_pods_takes_up_the_dear_replica_set_that_it_has(under):
    """Its template became cheaper while it was paused, so that it has no ReplicaSet of its own."""
    acme = under("requests.cpu", "8")
    acme.create(workload("web", 0, {"cpu": "4"}))
    eventually(lambda: exist(acme, "ReplicaSet"))
    cheaper = workload("web", 0, {"cpu": "1"})["spec"]["template"]
    acme.api.patch("Deployment", "web", acme.namespace, {"spec": {"paused": True, "template": cheaper}})
    with pytest.raises(RefusedError, match="largest allowed replicas: 2"):
        acme.api.patch("Deployment", "web", acme.namespace, {"spec": {"replicas": 8}}, sub="scale")
    acme.api.patch("Deployment", "web", acme.namespace, {"spec": {"replicas": 2}}, sub="scale")
    eventually(lambda: acme.charged() == 8 and len(exist(acme, "Pod")) == 2, lambda: (acme.used(), acme.charged()))
    asked = [one["spec"]["containers"][0]["resources"]["requests"] for one in acme.api.list("Pod", acme.namespace)]
    assert asked == [{"cpu": "4"}] * 2
