"""``extauthz doctor`` where the real API server asks the gate by its webhook."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.controlplane.api import RefusedError
from tests.controlplane.plane import running_plane
from tests.controlplane.workspace import Workspace, workload
from tests.e2e.doctoring import Rows, examined
from tests.e2e.webhooked import WebhookWorld
from tests.support.certs import Authority
from tests.waiting import eventually

pytestmark = [pytest.mark.controlplane, pytest.mark.envoy]

PATH = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/extauthz"
NAME = "workspacequotas.extauthz.dev"
Doctor = Callable[..., Rows]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookWorld]:
    with (
        running_plane(folder=tmp_path_factory.mktemp("plane")) as plane,
        WebhookWorld(plane, tmp_path_factory.mktemp("world")) as running,
        Workspace(running, "doctored", {"pods": "5"}) as made,
    ):
        made.create(workload("web", 2, {"cpu": "100m"}))
        eventually(lambda: made.used("pods") == 2)
        yield running


@pytest.fixture
def doctor(world: WebhookWorld, capsys: pytest.CaptureFixture[str]) -> Doctor:
    """Given an administrator's kubeconfig alone."""
    return lambda **more: examined(capsys, {"kubeconfig": world.plane.kubeconfig, **more})[1]


def patched(world: WebhookWorld, **fields: object) -> None:
    tree = {"webhooks": [{"name": NAME, **fields}]}
    world.api.call("PATCH", PATH, tree, "application/strategic-merge-patch+json")


def test_a_webhook_that_works_is_well(world: WebhookWorld, doctor: Doctor):
    rows = doctor()
    assert rows["webhook"]["verdict"] == "ok"
    assert rows["webhook authority"]["found"].startswith("caBundle vouches for 127.0.0.1; ")
    assert rows["webhook canary"]["found"] == "a dry run on doctored/web was decided (403)"


def test_an_authority_of_somebody_else_is_caught_from_both_sides(world: WebhookWorld, doctor: Doctor, tmp_path: Path):
    other = base64.b64encode(Authority(tmp_path, "other").ca.read_bytes()).decode()
    url = world.api.call("GET", PATH)["webhooks"][0]["clientConfig"]["url"]
    patched(world, clientConfig={"url": url, "caBundle": other})
    try:
        eventually(lambda: doctor()["webhook canary"]["verdict"] == "fail")
        rows = doctor()
        assert "x509: certificate signed by unknown authority" in rows["webhook canary"]["found"]
        assert rows["webhook authority"]["verdict"] == "fail"
        assert rows["webhook authority"]["found"].startswith("caBundle does not vouch for 127.0.0.1 at 127.0.0.1:")
    finally:
        ours = base64.b64encode(world.plane.ca.read_bytes()).decode()
        patched(world, clientConfig={"url": url, "caBundle": ours})
    eventually(lambda: doctor()["webhook canary"]["verdict"] == "ok")


def test_rules_that_are_not_ours_and_a_gate_that_is_gone_are_caught(world: WebhookWorld, doctor: Doctor):
    patched(world, failurePolicy="Ignore")
    assert "growth passes while no gate answers" in doctor()["webhook"]["found"]
    patched(world, failurePolicy="Fail")
    world.gate.terminate()
    try:
        row = doctor()["webhook canary"]
        assert (row["verdict"], "connection refused" in row["found"]) == ("fail", True)
        assert doctor()["webhook authority"]["verdict"] == "warn"
    finally:
        world.gate.start()
    eventually(lambda: doctor()["webhook canary"]["verdict"] == "ok")


def test_a_deployment_that_no_quota_covers_tells_nothing(world: WebhookWorld, doctor: Doctor):
    tree = workload("free", 1, {"cpu": "100m"})
    tree["metadata"]["namespace"] = "default"
    eventually(lambda: taken(world, tree))
    row = doctor(canary="default/free")["webhook canary"]
    assert (row["verdict"], "--canary" in row["cure"]) == ("warn", True)


def taken(world: WebhookWorld, tree: dict) -> bool:
    try:
        world.api.create(tree)
    except RefusedError:
        return False
    return True
