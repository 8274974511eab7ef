"""Three workspaces under load on a real cluster: never over their limits, at no look.

HPAs scale two of them. Knative's autoscaler scales the third, by what its queue-proxies count; beside these two nobody
is there of Knative, and what its controller makes of a Service is made here.

``LOAD_CHART=docs/pictures/demo-cluster.svg`` draws the picture of docs/internals/demo-cluster.md anew.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from extauthz.core.quantities import parse
from tests.cluster import drawing, mesh
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import APP
from tests.cluster.drawing import Sample
from tests.cluster.typed import Person
from tests.cluster.writers import administrator
from tests.controlplane import knative
from tests.controlplane.api import Api
from tests.controlplane.parts import find

pytestmark = [pytest.mark.cluster, pytest.mark.controlplane(f"autoscaler-{mesh.KNATIVE}", "queue-proxy", "hey")]

SECONDS, RAISED_AFTER = 180, 90
EVERY_S = 1.5
CPU = "requests.cpu"
EACH = "50m"
"""Asked for by a pod, and the most it gets."""
WEB = """
import http.server
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        sum(range(200_000))
        self.send_response(200)
        self.end_headers()
http.server.ThreadingHTTPServer(("", 8080), Page).serve_forever()
"""
"""Each request burns CPU."""
STRESS = "while True: pass"


class Workspace(NamedTuple):
    """A namespace, and its quota of the same name."""

    name: str
    mode: str
    limits: tuple[str, str]
    """Before and after it is raised."""
    script: str
    is_served: bool = False
    """By Knative."""


WORKSPACES = (
    Workspace("web", "Clamp", ("300m", "400m"), WEB),
    Workspace("stress", "Enforce", ("200m", "400m"), STRESS),
    # Not raised: whom Knative was refused for some while, it tries again after minutes (its queue's rate limit).
    Workspace("served", "Clamp", ("200m", "200m"), WEB, is_served=True),
)


def objects(of: Workspace) -> list[Any]:
    """All of a workspace. Its autoscaler may ask for eight pods or more, and its limit has no more."""
    name = of.name
    scaled = revision(of) if of.is_served else by_hpa(of)
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"workspace": name}}},
        {
            "apiVersion": "extauthz.dev/v1alpha1",
            "kind": "WorkspaceQuota",
            "metadata": {"name": name},
            "spec": {"hard": {CPU: of.limits[0]}, "mode": of.mode},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "namespace": name},
            "spec": {
                "selector": scaled[0]["spec"]["selector"]["matchLabels"],
                "ports": [{"port": 8080, "targetPort": 8012 if of.is_served else 8080}],
            },
        },
        *scaled,
    ]


def container(of: Workspace, cpu: str) -> Any:
    return {
        "name": "app",
        "image": f"{APP}:1",
        "command": ["python3", "-c", of.script],
        "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}},
    }


def revision(of: Workspace) -> list[Any]:
    """Of it Knative wants a pod for each request that is under way: its queue-proxies count them."""
    deployment, autoscaler = knative.revision(of.name, of.name, {})
    without_activator = {"min-scale": "1", "target-burst-capacity": "0"}
    autoscaler["metadata"]["annotations"] |= {
        f"autoscaling.knative.dev/{key}": value for key, value in without_activator.items()
    }
    spec = deployment["spec"]["template"]["spec"]
    spec |= {"containers": [container(of, "40m"), queue(of.name)], "terminationGracePeriodSeconds": 1}
    return [deployment, autoscaler]


def queue(name: str) -> Any:
    """As ``makeQueueContainer`` in ``pkg/reconciler/revision/resources/queue.go`` makes it, where nothing is set."""
    given = {
        "CONTAINER_CONCURRENCY": "0",
        "QUEUE_SERVING_PORT": "8012",
        "QUEUE_SERVING_TLS_PORT": "8112",
        "USER_PORT": "8080",
        "REVISION_TIMEOUT_SECONDS": "300",
        "SERVING_READINESS_PROBE": '{"tcpSocket": {"port": 8080, "host": "127.0.0.1"}}',
        "SERVING_LOGGING_CONFIG": "",
        "SERVING_LOGGING_LEVEL": "",
        **{f"SERVING_{each}": name for each in ("NAMESPACE", "CONFIGURATION", "REVISION")},
    }
    told = {"SERVING_POD": "metadata.name", "SERVING_POD_IP": "status.podIP"}
    return {
        "name": "queue-proxy",
        "image": mesh.ours("queue-proxy"),
        "env": [
            *({"name": key, "value": value} for key, value in given.items()),
            *({"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}} for key, path in told.items()),
        ],
        "readinessProbe": {"httpGet": {"port": 8012, "httpHeaders": [{"name": "K-Network-Probe", "value": "queue"}]}},
        "resources": {"requests": {"cpu": "10m"}},
    }


def by_hpa(of: Workspace) -> list[Any]:
    name, labels = of.name, {"app": of.name}
    placed = {"name": name, "namespace": name}
    pod = {
        "metadata": {"labels": labels},
        "spec": {"containers": [container(of, EACH)], "terminationGracePeriodSeconds": 1},
    }
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    metric = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 30}},
    }
    scales = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 10, "metrics": [metric]}
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": placed,
            "spec": {"selector": {"matchLabels": labels}, "template": pod},
        },
        {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": placed, "spec": scales},
    ]


@pytest.fixture
def loaded(installed: Person, cluster: Cluster, tmp_path: Path) -> Iterator[Person]:
    """All workspaces, with a pod that is ready in each."""
    mesh.give_images(cluster, tmp_path, mesh.SCALING)
    mesh.install_knative(installed, cluster, tmp_path)
    everything = [each for one in WORKSPACES for each in objects(one)]
    (tmp_path / "all.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": everything}))
    names = " ".join(one.name for one in WORKSPACES)
    try:
        installed.sees(f"kubectl apply -f {tmp_path / 'all.json'} && echo applied", "applied")
        for one in WORKSPACES:
            installed.types(
                f"kubectl -n {one.name} wait --for=condition=Available deployment/{one.name} --timeout=200s"
            )
        yield installed
    finally:
        installed.run(f"kubectl delete namespace {names} {knative.NAMESPACE}; kubectl delete wsq {names}")


def look(api: Api, of: Workspace, second: float) -> Sample:
    """What is there now. The limit is read first: it is only raised here."""
    hard = parse(api.get("WorkspaceQuota", of.name)["spec"]["hard"][CPU])
    pods = [each for each in api.list("Pod", of.name) if "deletionTimestamp" not in each["metadata"]]
    requests = [one["resources"]["requests"]["cpu"] for each in pods for one in each["spec"]["containers"]]
    return Sample(second, len(pods), sum(map(parse, requests)) / 1e9, hard / 1e9)


@contextlib.contextmanager
def requests(cluster: Cluster, person: Person) -> Iterator[None]:
    """``hey`` asks for both pages, from the node, eight times at once."""
    hey = [*cluster.way_in(), str(find("hey")), "-z", f"{SECONDS}s", "-c", "8"]
    with contextlib.ExitStack() as stack:
        for name in ("web", "served"):
            address = person.types(f"kubectl -n {name} get service {name} -o jsonpath={{.spec.clusterIP}}")
            stack.enter_context(subprocess.Popen([*hey, f"http://{address}:8080/"], stdout=subprocess.DEVNULL))
        yield


def samples(api: Api) -> dict[str, list[Sample]]:
    """Of each workspace, for as long as the load lasts. In the middle of it the limits are raised."""
    found: dict[str, list[Sample]] = {one.name: [] for one in WORKSPACES}
    began, raised = time.monotonic(), False
    while (second := time.monotonic() - began) < SECONDS:
        if second > RAISED_AFTER and not raised:
            raised = True
            for one in WORKSPACES:
                api.patch("WorkspaceQuota", one.name, None, {"spec": {"hard": {CPU: one.limits[1]}}})
        for one in WORKSPACES:
            found[one.name].append(look(api, one, second))
        time.sleep(EVERY_S)
    return found


def reached(found: Sequence[Sample]) -> list[float]:
    """The limits that were used up, in order."""
    return list(dict.fromkeys(each.hard for each in found if each.used == each.hard))


def test_workspaces_under_load_use_up_their_limits_and_are_never_over(
    loaded: Person, cluster: Cluster, tmp_path: Path, tell
):
    api = administrator(cluster.kubeconfig, tmp_path / "admin")
    knative.await_service(api, "served", "served")
    with requests(cluster, loaded):
        found = samples(api)
        described = loaded.run("kubectl -n stress describe hpa stress; kubectl -n served describe kpa served").stdout
    api.close()
    titles = {f"{one.name}: {one.mode}": found[one.name] for one in WORKSPACES}
    picture = drawing.svg(titles, "CPUs requested by pods; dashed: the limit")
    Path(os.environ.get("LOAD_CHART") or tmp_path / "chart.svg").write_text(picture)
    for one in WORKSPACES:
        over = [each for each in found[one.name] if each.used > each.hard]
        tell(f"{one.name}: {len(found[one.name])} looks, most pods {max(each.pods for each in found[one.name])}")
        assert over == []
        assert reached(found[one.name]) == [parse(limit) / 1e9 for limit in dict.fromkeys(one.limits)]
    for name in ("stress", "served"):
        assert f"exceeded workspace quota: {name}" in described
