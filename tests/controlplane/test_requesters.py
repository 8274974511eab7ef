"""``spec.requesters`` by the webhook of a real API server: a person passes, the HPA's account is refused."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from extauthz.tools.render import webhook
from extauthz.tools.render.webhook import WebhookOptions
from tests.controlplane.access import service_account
from tests.controlplane.api import MERGE, Api, RefusedError, path_of
from tests.controlplane.plane import Plane, running_plane
from tests.controlplane.test_webhook_rules import workload
from tests.servers.running import Running
from tests.support import objects
from tests.support.certs import Authority
from tests.waiting import eventually

pytestmark = pytest.mark.controlplane

ROOT = Path(__file__).parents[2]
HPA = "horizontal-pod-autoscaler"
BOUND = {"include": {"serviceAccounts": [f"kube-system/{HPA}"]}}


class World:
    """A control plane with the gate behind its webhook."""

    def __init__(self, plane: Plane, gate: Running) -> None:
        self.plane, self.gate = plane, gate
        token = service_account(plane, "kube-system", HPA, "cluster-admin")
        self.hpa = Api(plane.url, ssl.create_default_context(cafile=str(plane.ca)), token)

    def scale(self, client: Api, replicas: int) -> str:
        """What becomes of it; empty: it is done."""
        try:
            client.call("PATCH", path_of("Deployment", "shop", "web", "scale"), {"spec": {"replicas": replicas}}, MERGE)
        except RefusedError as error:
            return str(error)
        return ""

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.plane.api.get("WorkspaceQuota", "acme").get("status", {})
        return found


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("requesters")
    authority = Authority(folder)
    pair = authority.issue("gate")
    with running_plane(folder=tmp_path_factory.mktemp("plane")) as plane:
        plane.kubectl("apply", "-f", str(ROOT / "deploy" / "crd.yaml"))
        plane.kubectl("wait", "--for=condition=Established", "crd/workspacequotas.extauthz.dev")
        plane.api.create(objects.namespace("shop"))
        plane.api.create(workload("Deployment"))
        plane.api.create(objects.quota("acme", {"pods": "4"}, labels={}, requesters=BOUND))
        live = ("--quotas", "kubernetes", "--state", "kubernetes", "--kubeconfig", str(plane.kubeconfig))
        flags = ("--webhook", "127.0.0.1:0", "--webhook-cert", str(pair.cert))
        with Running(folder, *live, *flags, "--ledger=memory", "--allow-unknown=unclean-start") as gate:
            address = gate.events("serving")[-1]["webhook"]
            options = WebhookOptions(url=f"https://{address}", ca=authority.ca.read_bytes())
            plane.api.create(webhook.configuration(options))
            made = World(plane, gate)
            yield made
            made.hpa.close()


def told(world: World, user: str) -> set[tuple[str, str]]:
    """Verdicts and reasons of a user's writes."""
    found = [one for one in world.gate.events("decision") if one["user"] == user]
    return {(one["verdict"], one["reason"]) for one in found}


def test_who_is_not_bound_passes_is_charged_and_binds_others(world: World):
    beyond = "exceeded workspace quota: acme"
    eventually(lambda: beyond in world.scale(world.hpa, 9), "the HPA's account is bound")
    assert world.scale(world.plane.api, 6) == "", "the administrator is not"
    eventually(lambda: ("allow", "not-bound") in told(world, "admin"), "the log says why it passed")
    assert beyond in world.scale(world.hpa, 7)
    assert world.scale(world.hpa, 3) == "", "less always passes"
    eventually(lambda: world.status().get("used", {}).get("pods") == "3", "what was observed")
