"""``extauthz doctor`` with real API server, Envoy and gate: what is well is told so, what is broken is caught."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from extauthz.demo.envoy import Envoy
from tests.controlplane.plane import write_kubeconfig
from tests.controlplane.workspace import Workspace, workload
from tests.controlplane.world import World

from .doctoring import Rows, examined, given, options

pytestmark = [pytest.mark.controlplane, pytest.mark.envoy]

Tree = Any
Doctor = Callable[..., Rows]
CLUSTER = ("server version", "definitions", "rights", "namespace labels")
WEBHOOK = (
    "webhook",
    "webhook authority",
    "webhook canary",
    "webhook certificate",
    "webhook namespaces",
    "webhook clamp",
)


@pytest.fixture(scope="module")
def doctored(world: World) -> Iterator[Workspace]:
    with Workspace(world, "doctored", {"pods": "5"}) as made:
        made.create(workload("web", 2, {"cpu": "100m"}))
        yield made


@pytest.fixture(scope="module")
def envoy(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Envoy]:
    """As rendered: those of the world have a route of their own for metrics."""
    with Envoy(options(world), tmp_path_factory.mktemp("envoy")) as running:
        yield running


@pytest.fixture
def doctor(
    world: World, envoy: Envoy, doctored: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Doctor:
    """Given a way through the Envoy, and an administrator's kubeconfig."""
    flags = given(world, envoy, tmp_path, "doctored/web")

    def run(**changed: object) -> Rows:
        code, rows = examined(capsys, flags | changed)
        assert code == (1 if having(rows, "fail") else 0)
        return rows

    return run


def having(rows: Rows, verdict: str) -> list[str]:
    return [name for name, row in rows.items() if row["verdict"] == verdict]


def test_all_is_well_but_for_what_is_said_honestly(doctored: Workspace, doctor: Doctor):
    rows = doctor()
    assert having(rows, "fail") == []
    assert having(rows, "skipped") == [*WEBHOOK], "there is no webhook"
    assert set(having(rows, "warn")) <= {"certificate", "namespace labels"}
    assert "filtered-administrator" in rows["token"]["found"]
    assert "a dry run on doctored/web was decided" in rows["canary"]["found"]
    assert doctored.replicas("web") == 2


def test_where_no_quota_covers_the_canary_only_envoys_counters_tell_that_it_was_decided(world: World, doctor: Doctor):
    world.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "an-unlimited"}})
    rows = doctor(canary="an-unlimited/nothing")
    assert rows["canary"]["verdict"] == "warn"
    assert "Envoy counted 2 decisions" in rows["canary"]["found"]
    assert doctor(canary="an-unlimited/nothing", admin=None)["canary"]["verdict"] == "fail"


def test_left_to_itself_it_looks_for_a_deployment_that_a_quota_covers(world: World, doctor: Doctor):
    tree = workload("free", 1, {"cpu": "1m"})
    tree["metadata"]["namespace"] = "an-unlimited"
    world.api.create(tree)
    assert "dry run on doctored/web was decided" in doctor(canary=None)["canary"]["found"]


def test_a_deployment_in_a_namespace_that_never_asks_is_no_canary(
    world: World, doctored: Workspace, doctor: Doctor, tmp_path
):
    with Envoy(replace(options(world), exempt_namespaces=("doctored",)), tmp_path / "envoy") as envoy:
        admin = "http://" + (envoy.access_log.parent / "admin").read_text()
        way = {"url": f"https://127.0.0.1:{envoy.port}", "admin": admin}
        assert "doctored/web" not in doctor(**way, canary=None)["canary"]["found"]
        assert doctor(**way)["canary"]["verdict"] == "fail", "named all the same, it is not gated there"


def test_an_account_without_the_gates_rights_is_told_by_name(doctor: Doctor):
    rows = doctor(gate_account="default/nobody")
    assert having(rows, "fail") == ["rights"]
    assert "default/nobody may not list namespaces" in rows["rights"]["found"]


def test_an_api_server_that_does_not_answer_fails_what_it_was_asked(world: World, doctor: Doctor, tmp_path: Path):
    kubeconfig = tmp_path / "nowhere"
    write_kubeconfig(kubeconfig, "https://127.0.0.1:1", world.plane.ca, {"token": "t"})
    rows = doctor(kubeconfig=kubeconfig)
    assert having(rows, "fail") == [*CLUSTER, *WEBHOOK, "appliers", "serving pods"]
    assert rows["canary"]["verdict"] == "ok"
