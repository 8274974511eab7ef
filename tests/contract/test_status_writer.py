"""Writing the status of quotas: the same tests against the stand-in of the unit tests and against a real API server."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from extauthz.core.decision.gate import Gate
from extauthz.core.ledger.entry import Event
from extauthz.core.model import WorkloadRef
from extauthz.core.queries import Ceiling
from extauthz.core.quota.problems import Standing, standing
from extauthz.core.quota.spec import parse
from extauthz.core.quota.tree import QuotaTree
from extauthz.inputs.kube.connection import ApiError, connect
from extauthz.tell.observe.autoscalers import NeverFit, NeverFits, Subject
from extauthz.tell.observe.status import COLLECTION, StatusWriter
from extauthz.testing import Asker, gate, scale, snapshot, workload
from tests.support.kubecalls import ScriptedApi
from tests.waiting import eventually

Tree = Any
DEPLOY = Path(__file__).parents[2] / "deploy"
NOW = datetime(2026, 11, 21, 7, 0, tzinfo=UTC)
NAME = "written"
PATH = f"{COLLECTION}/{NAME}"


class Server:
    """An API server with one quota."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def create(self, obj: Tree) -> Tree:
        return await self.connection.call("POST", COLLECTION, body=obj)

    async def change(self, obj: Tree) -> Tree:
        hard = dict.fromkeys((await self.get())["spec"]["hard"]) | obj["spec"]["hard"]
        body = {"spec": {**obj["spec"], "hard": hard}}
        return await self.connection.call("PATCH", PATH, body=body, content_type="application/merge-patch+json")

    async def add_condition(self, condition: Tree) -> None:
        operation = {"op": "add", "path": "/status/conditions/-", "value": condition}
        await self.connection.call(
            "PATCH", f"{PATH}/status", body=[operation], content_type="application/json-patch+json"
        )

    async def get(self) -> Tree:
        return await self.connection.call("GET", PATH)

    async def delete(self) -> None:
        try:
            await self.connection.call("DELETE", PATH)
        except ApiError as error:
            assert error.status == 404  # noqa: PT017 (the test itself may have deleted it)


@asynccontextmanager
async def real(request: pytest.FixtureRequest) -> AsyncIterator[Server]:
    plane = request.getfixturevalue("plane")
    plane.kubectl("apply", "--server-side", f"--filename={DEPLOY / 'crd.yaml'}")
    eventually(lambda: plane.api.serves("WorkspaceQuota"))
    async with connect(plane.kubeconfig) as connection:
        yield Server(connection)


@pytest.fixture(params=["stand-in", pytest.param("real", marks=pytest.mark.controlplane)])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    if request.param == "stand-in":
        yield Server(ScriptedApi())
        return
    async with real(request) as found:
        yield found
        await found.delete()


class Cluster:
    """A gate over one quota and one workload, with a writer."""

    def __init__(self, server: Any) -> None:
        self.server = server
        self.gate: Gate = gate([], workload("web", 3))
        self.standings: list[Standing] = []
        self.told: list[str] = []
        self.now = NOW
        self.never_fit: NeverFit = {}
        self.writer = StatusWriter(
            server.connection,
            self.gate,
            lambda: self.standings,
            tell=self._tell,
            now=lambda: self.now,
            writes_per_s=1e6,
            never_fit=lambda: self.never_fit,
        )

    def _tell(self, level: str, event: str, **_: object) -> None:
        self.told.append(event)

    def see(self, obj: Tree) -> None:
        """What the source of quotas would do."""
        quota = parse(obj)
        self.gate.load_quotas(QuotaTree.build([quota]), 0.0)
        self.standings = [standing(obj, quota.generation)]


def quota(**hard: str) -> Tree:
    spec = {"namespaceSelector": {"matchLabels": {"workspace": "acme"}}, "hard": {**hard}}
    return {"apiVersion": "extauthz.dev/v1alpha1", "kind": "WorkspaceQuota", "metadata": {"name": NAME}, "spec": spec}


async def test_what_never_fits_is_written_and_taken_back(server: Any):
    """With names as autoscalers have them, which are keys of a map here."""
    scaler = Subject("autoscaling/v2", "HorizontalPodAutoscaler", "team-a", "web.v2", "u")
    ceiling = Ceiling(10, NAME, "requests.cpu", 24 * 10**9, 10 * 10**9)
    found = NeverFits(scaler, WorkloadRef("apps", "deployments", "team-a", "web"), 24, ceiling)
    cluster = Cluster(server)
    made = await server.create(quota(cpu="3"))
    cluster.see(made)
    never: NeverFit
    for never, shown in (({NAME: (found,)}, {"HorizontalPodAutoscaler team-a/web.v2": "10 of 24"}), ({}, {})):
        cluster.never_fit = never
        for _ in range(2):
            await cluster.writer.sweep()
            there = await server.get()
            assert there["status"].get("neverFits", {}) == shown
            cluster.see(there)
    assert cluster.writer.results == {"written": 2}


async def test_what_is_used_is_written_once_and_then_only_when_it_changes(server: Any):
    cluster = Cluster(server)
    cluster.see(await server.create(quota(cpu="10", memory="1Gi")))
    assert await cluster.writer.sweep()
    there = await server.get()
    assert there["status"]["used"] == {"requests.cpu": "3", "requests.memory": "0"}
    assert there["status"]["summary"] == {"cpu": "3/10", "memory": "0/1Gi"}
    assert {one["type"]: one["status"] for one in there["status"]["conditions"]}["Ready"] == "True"
    assert cluster.writer.results == Counter(written=1)
    cluster.see(there)
    assert await cluster.writer.sweep()
    assert cluster.writer.results == Counter(written=1)


async def test_a_source_that_lags_behind_our_own_write_causes_no_second_one(server: Any):
    cluster = Cluster(server)
    cluster.see(await server.create(quota(cpu="10")))
    for _ in range(3):
        assert await cluster.writer.sweep()
    assert cluster.writer.results == Counter(written=1)


async def test_what_has_changed_meanwhile_is_written_on_top_of_our_own_last_write(server: Any):
    cluster = Cluster(server)
    cluster.see(await server.create(quota(cpu="10")))
    await cluster.writer.sweep()
    cluster.gate.load_state(snapshot(workload("web", 4, version="2")), 0.0)
    cluster.now += timedelta(hours=1)
    await cluster.writer.sweep()
    status = (await server.get())["status"]
    assert status["used"] == {"requests.cpu": "4"}
    assert {one["lastTransitionTime"] for one in status["conditions"]} == {"2026-11-21T07:00:00Z"}


async def test_a_limit_that_is_taken_away_goes_from_the_status_too(server: Any):
    cluster = Cluster(server)
    cluster.see(await server.create(quota(cpu="10", memory="1Gi")))
    await cluster.writer.sweep()
    cluster.see(await server.change(quota(cpu="2")))
    await cluster.writer.sweep()
    status = (await server.get())["status"]
    assert (status["hard"], status["used"]) == ({"requests.cpu": "2"}, {"requests.cpu": "3"})
    assert status["observedGeneration"] == 2
    assert {one["type"]: one["reason"] for one in status["conditions"]}["WithinHard"] == "OverLimit"


async def test_what_is_reserved_no_more_goes_from_the_status(server: Any):
    cluster = Cluster(server)
    cluster.see(await server.create(quota(cpu="10")))
    grant = Asker(cluster.gate)(scale("web", 5))
    await cluster.writer.sweep()
    assert (await server.get())["status"]["reserved"] == {"requests.cpu": "2"}
    cluster.gate.ledger.pending.settle(grant.id, Event.REFUSED, 1.0)
    await cluster.writer.sweep()
    assert not (await server.get())["status"].get("reserved")
    assert cluster.told == []


async def test_conditions_of_others_stay(server: Any):
    cluster = Cluster(server)
    cluster.see(await server.create(quota(cpu="10")))
    await cluster.writer.sweep()
    theirs = {"type": "example.com/Billed", "status": "True", "reason": "Paid", "message": ""}
    await server.add_condition({**theirs, "lastTransitionTime": "2026-11-21T07:00:00Z"})
    cluster.see(await server.change(quota(cpu="20")))
    await cluster.writer.sweep()
    status = (await server.get())["status"]
    assert "example.com/Billed" in {one["type"] for one in status["conditions"]}
    assert status["hard"] == {"requests.cpu": "20"}


async def test_an_object_that_has_gone_is_no_failure(server: Any):
    cluster = Cluster(server)
    cluster.see(await server.create(quota(cpu="10")))
    await server.delete()
    assert await cluster.writer.sweep()
    assert (cluster.writer.results, cluster.told) == (Counter(lost=1), [])


async def test_another_object_of_the_same_name_gets_a_status_of_its_own(server: Any):
    cluster = Cluster(server)
    cluster.see(await server.create(quota(cpu="10")))
    await cluster.writer.sweep()
    await server.delete()
    cluster.see(await server.create(quota(cpu="20")))
    await cluster.writer.sweep()
    assert (await server.get())["status"]["hard"] == {"requests.cpu": "20"}
