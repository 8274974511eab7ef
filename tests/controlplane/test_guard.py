"""The guard lowers CPU limits through a real API server and restores them exactly, wherever it is killed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from extauthz.inputs.kube.connection import connect
from tests.controlplane.access import service_account
from tests.controlplane.living import namespace
from tests.controlplane.metricsdesk import bare_envoy
from tests.controlplane.plane import Plane, write_kubeconfig
from tests.examples import MEMORY_PRESSURE, importable
from tests.support.kubelet import Kubelet
from tests.support.metricsapi import MetricsApi
from tests.waiting import eventually

importable()
from memory_pressure.guard import rights  # noqa: E402 (it is beside the project)
from memory_pressure.guard.controller import Controller, Options  # noqa: E402
from memory_pressure.guard.limits import Limits  # noqa: E402
from memory_pressure.guard.pods import ANNOTATION  # noqa: E402
from memory_pressure.marks import Marks  # noqa: E402

pytestmark = [pytest.mark.envoy, pytest.mark.controlplane]

Tree = Any
SHOP, HOME, OTHER = "guarded", "guard-system", "not-guarded"


@pytest.fixture(scope="module")
def metrics(plane: Plane) -> Iterator[MetricsApi]:
    for name in (SHOP, HOME, OTHER):
        namespace(plane, name)
    plane.api.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    has = {"cpu": "64", "memory": "1000Mi"}
    plane.api.patch("Node", "n1", None, {"status": {"capacity": has, "allocatable": has}}, sub="status")
    for one in rights.objects([SHOP], HOME):
        plane.api.create(one)
    with MetricsApi(plane.url, plane.tls) as running, Kubelet(plane.url, plane.tls):
        yield running


@pytest.fixture(scope="module")
def token(plane: Plane, metrics: MetricsApi) -> str:
    """Of the guard's own account."""
    return service_account(plane, HOME, rights.NAME)


@pytest.fixture(scope="module")
def kubeconfig(
    plane: Plane, metrics: MetricsApi, token: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """The guard's, by way of an Envoy that knows where metrics are."""
    folder = tmp_path_factory.mktemp("guard")
    with ExitStack() as stack:
        envoy = stack.enter_context(bare_envoy(plane, metrics, folder))
        write_kubeconfig(folder / "config", f"https://127.0.0.1:{envoy.port}", plane.ca, {"token": token})
        yield folder / "config"


class Killed(BaseException):
    """What SIGKILL is to a process: nothing is cleaned up."""


class Fatal:
    """A connection. With its nth write, before or after the write arrives, whoever writes is killed."""

    def __init__(self, connection: Any, at: int | None = None, *, arrives: bool = True) -> None:
        self.writes = 0
        self._connection, self._at, self._arrives = connection, at, arrives

    async def call(self, method: str, path: str, **how: Any) -> Tree:
        if method == "GET":
            return await self._connection.call(method, path, **how)
        self.writes += 1
        if self.writes == self._at and not self._arrives:
            raise Killed
        answer = await self._connection.call(method, path, **how)
        if self.writes == self._at:
            raise Killed
        return answer

    async def items(self, path: str, take: Any, **how: Any) -> Tree:
        return await self._connection.items(path, take, **how)


@pytest.fixture
async def connection(kubeconfig: Path) -> AsyncIterator[Any]:
    async with connect(kubeconfig) as connected:
        yield connected


@pytest.fixture
def events() -> list[tuple[str, dict[str, str]]]:
    return []


def guard(calls: Any, events: list, *, dry_run: bool = False) -> Controller:
    options = Options(Marks(90, 80, 2, 1), 0.05, dry_run)
    return Controller(
        Limits(calls, (SHOP,)), options, lambda event, **fields: events.append((event, fields)), time.time
    )


def pod(
    name: str, *, guarded: bool = True, cpu: tuple[str, str] = ("5m", "0.5"), memory: tuple[str, str] = ("64Mi", "1Gi")
) -> Tree:
    """One container on the node, and one whose limit cannot be lowered."""
    resources = {"requests": {"cpu": cpu[0], "memory": memory[0]}, "limits": {"cpu": cpu[1], "memory": memory[1]}}
    helper = {"requests": {"cpu": "10m", "memory": "1Mi"}, "limits": {"cpu": "10m", "memory": "1Mi"}}
    labels = {"extauthz.dev/guard": "pause"} if guarded else {}
    containers = [
        {"name": "app", "image": "x", "resources": resources},
        {"name": "log", "image": "x", "resources": helper},
    ]
    spec = {"nodeName": "n1", "terminationGracePeriodSeconds": 0, "containers": containers}
    metadata = {"name": name, "namespace": SHOP, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.fixture
def shop(plane: Plane, metrics: MetricsApi) -> Iterator[dict[str, Tree]]:
    """Pods that run, by name; afterwards they are gone."""
    trees = [
        pod("small"),
        pod("large"),
        pod("unlabelled", guarded=False),
        pod("guaranteed", cpu=("500m", "500m"), memory=("64Mi", "64Mi")),
        pod("tight", cpu=("500m", "500m")),
    ]
    for one in trees:
        plane.api.create(one)
    metrics.memory = {
        f"{SHOP}/small": "100Mi",
        f"{SHOP}/large": "400Mi",
        f"{SHOP}/unlabelled": "1Mi",
        f"{SHOP}/guaranteed": "2Mi",
    }
    metrics.nodes = {"n1": ("500Mi", None)}
    names = [one["metadata"]["name"] for one in trees]
    eventually(lambda: all(get(plane, name).get("status", {}).get("containerStatuses") for name in names))
    yield {name: get(plane, name)["spec"]["containers"] for name in names}
    for name in names:
        plane.api.call("DELETE", f"/api/v1/namespaces/{SHOP}/pods/{name}")
    eventually(lambda: not plane.api.list("Pod", SHOP))


def get(plane: Plane, name: str) -> Tree:
    return plane.api.get("Pod", name, SHOP)


def limits(plane: Plane) -> dict[str, str]:
    return {
        one["metadata"]["name"]: one["spec"]["containers"][0]["resources"]["limits"]["cpu"]
        for one in plane.api.list("Pod", SHOP)
    }


def notes(plane: Plane) -> dict[str, str]:
    pods = {one["metadata"]["name"]: one["metadata"].get("annotations", {}) for one in plane.api.list("Pod", SHOP)}
    return {name: has[ANNOTATION] for name, has in pods.items() if ANNOTATION in has}


def untouched(plane: Plane, shop: dict[str, Tree]) -> None:
    """Every container is as it was created, and nothing is written on any pod."""
    assert {name: get(plane, name)["spec"]["containers"] for name in shop} == shop
    assert notes(plane) == {}


async def test_the_least_are_lowered_first_and_all_are_restored_exactly(plane, metrics, connection, shop, events):
    controller = guard(connection, events)
    await controller.round()
    untouched(plane, shop)
    metrics.nodes = {"n1": ("950Mi", None)}
    await controller.round()
    assert limits(plane) == {
        "small": "10m",
        "large": "500m",
        "unlabelled": "500m",
        "guaranteed": "500m",
        "tight": "500m",
    }
    assert notes(plane) == {"small": '{"app": {"limit": "500m", "lowered": "10m"}}'}
    for small, large in (("10m", "500m"), ("10m", "10m"), ("10m", "10m")):
        await controller.round()
        assert (limits(plane)["small"], limits(plane)["large"]) == (small, large)
    metrics.nodes = {"n1": ("850Mi", None)}
    await controller.round()
    assert limits(plane)["small"] == "10m", "not before the lower mark"
    metrics.nodes = {"n1": ("800Mi", None)}
    await settled(plane)
    await controller.round()
    untouched(plane, shop)
    assert [event for event, _ in events] == ["lowered", "lowered", "restored", "restored"]
    assert events[0][1] == {
        "pod": "guarded/small",
        "limits": "app 500m → 10m",
        "why": "node n1 uses 95 % of its memory, the upper mark is 90 %",
    }


async def scenario(plane: Plane, metrics: MetricsApi, controller: Controller) -> None:
    """Both are lowered, one after the other, and both are restored."""
    metrics.nodes = {"n1": ("950Mi", None)}
    for _ in range(3):
        await controller.round()
    await settled(plane)
    metrics.nodes = {"n1": ("500Mi", None)}
    await controller.round()


async def settled(plane: Plane) -> None:
    """The kubelet has told of every resize. Until then it may write at any moment, and a restore be tried again."""

    def is_told() -> bool:
        return all(
            [one["resources"] for one in pod["status"]["containerStatuses"]]
            == [one["resources"] for one in pod["spec"]["containers"]]
            for pod in plane.api.list("Pod", SHOP)
        )

    await asyncio.to_thread(eventually, is_told)


async def test_wherever_it_is_killed_no_pod_stays_lowered(plane, metrics, connection, shop, events):
    """With two pods there are eight writes: it is killed before and after each of them."""
    calls = Fatal(connection)
    await scenario(plane, metrics, guard(calls, events))
    assert calls.writes == 8
    untouched(plane, shop)
    lost = 0
    for at in range(1, 9):
        for arrives in (False, True):
            with pytest.raises(Killed):
                await scenario(plane, metrics, guard(Fatal(connection, at, arrives=arrives), events))
            lowered = {name for name, limit in limits(plane).items() if limit == "10m"}
            assert lowered <= notes(plane).keys(), "what is lowered says so"
            lost += bool(lowered)
            assert await guard(connection, events).end()
            untouched(plane, shop)
            await settled(plane)
    assert lost >= 8


async def test_killed_again_while_it_restores_it_still_restores(plane, metrics, connection, shop, events):
    metrics.nodes = {"n1": ("950Mi", None)}
    for at in range(1, 5):
        controller = guard(connection, events)
        for _ in range(3):
            await controller.round()
        assert len(notes(plane)) == 2
        await settled(plane)
        with pytest.raises(Killed):
            await guard(Fatal(connection, at), events).restore_all()
        assert await guard(connection, events).end()
        untouched(plane, shop)
        await settled(plane)


async def test_a_dry_run_says_what_it_would_do_and_writes_nothing(plane, metrics, connection, shop, events):
    calls = Fatal(connection)
    await scenario(plane, metrics, guard(calls, events, dry_run=True))
    assert calls.writes == 0
    assert [(event, fields["pod"]) for event, fields in events] == [
        ("would lower", "guarded/small"),
        ("would lower", "guarded/large"),
        ("would restore", "guarded/large"),
        ("would restore", "guarded/small"),
    ]


@pytest.mark.parametrize(
    ("verb", "group", "resource", "where", "may"),
    [
        ("list", "", "pods", SHOP, True),
        ("patch", "", "pods/resize", SHOP, True),
        ("list", "", "pods", OTHER, False),
        ("patch", "", "pods", OTHER, False),
        ("patch", "", "pods/resize", OTHER, False),
        ("patch", "", "pods/status", SHOP, False),
        ("create", "", "pods", SHOP, False),
        ("delete", "", "pods", SHOP, False),
        ("create", "", "pods/exec", SHOP, False),
        ("get", "", "secrets", SHOP, False),
        ("list", "metrics.k8s.io", "nodes", "", True),
        ("patch", "", "nodes", "", False),
        ("get", "", "nodes/proxy", "", False),
    ],
)
def test_its_rights_end_at_the_namespaces_that_have_opted_in(plane, token, verb, group, resource, where, may):
    name, _, sub = resource.partition("/")
    asked = {"verb": verb, "group": group, "resource": name, "subresource": sub, "namespace": where}
    spec = {"user": f"system:serviceaccount:{HOME}:{rights.NAME}", "resourceAttributes": asked}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {}, "spec": spec}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    assert plane.api.call("POST", path, review)["status"].get("allowed", False) is may


def are_lowered(plane: Plane) -> bool:
    return limits(plane)["small"] == limits(plane)["large"] == "10m"


def command(kubeconfig: Path, *flags: str) -> list[str]:
    marks = ["--upper", "90", "--lower", "80", "--patience", "2", "--round-s", "0.2"]
    return [
        sys.executable,
        "-m",
        "memory_pressure.guard",
        "--namespace",
        SHOP,
        "--kubeconfig",
        str(kubeconfig),
        *marks,
        *flags,
    ]


@contextmanager
def process(kubeconfig: Path, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """It is killed at the end, if it still runs."""
    found = os.environ | {"PYTHONPATH": str(MEMORY_PRESSURE)}
    with subprocess.Popen(command(kubeconfig, *flags), stdout=subprocess.DEVNULL, env=found) as running:
        try:
            yield running
        finally:
            running.kill()


def test_what_a_killed_process_has_lowered_the_next_one_restores(plane, metrics, kubeconfig, shop):
    metrics.nodes = {"n1": ("950Mi", None)}
    with process(kubeconfig, "--apply"):
        eventually(lambda: are_lowered(plane))
    assert are_lowered(plane)
    metrics.nodes = {"n1": ("850Mi", None)}  # between the marks: only its start restores
    with process(kubeconfig, "--apply"):
        eventually(lambda: not notes(plane))
        untouched(plane, shop)


def test_a_process_that_is_stopped_restores_what_it_has_lowered(plane, metrics, kubeconfig, shop):
    metrics.nodes = {"n1": ("950Mi", None)}
    with process(kubeconfig, "--apply") as running:
        eventually(lambda: are_lowered(plane))
        running.terminate()
        assert running.wait(60) == 0
    untouched(plane, shop)


def test_a_guard_that_is_gone_for_good_is_cleaned_up_by_one_command(plane, metrics, kubeconfig, shop):
    metrics.nodes = {"n1": ("950Mi", None)}
    with process(kubeconfig, "--apply"):
        eventually(lambda: "small" in notes(plane))
    with process(kubeconfig, "--restore") as running:
        assert running.wait(60) == 0
    untouched(plane, shop)
