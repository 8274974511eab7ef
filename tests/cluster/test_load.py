"""Two workspaces under load on a real cluster: never over their limits, at no look.

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
from tests.cluster import drawing
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import APP
from tests.cluster.drawing import Sample
from tests.cluster.typed import Person
from tests.cluster.writers import administrator
from tests.controlplane.api import Api
from tests.controlplane.parts import find

pytestmark = pytest.mark.cluster

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


WORKSPACES = (
    Workspace("web", "Clamp", ("300m", "400m"), WEB),
    Workspace("stress", "Enforce", ("200m", "400m"), STRESS),
)


def objects(of: Workspace) -> list[Any]:
    """All of a workspace. Its HPA may ask for ten pods, more than its limit ever has."""
    name, labels = of.name, {"app": of.name}
    placed = {"name": name, "namespace": name}
    container = {
        "name": "app",
        "image": f"{APP}:1",
        "command": ["python3", "-c", of.script],
        "resources": {"requests": {"cpu": EACH}, "limits": {"cpu": EACH}},
    }
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [container], "terminationGracePeriodSeconds": 1}}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    metric = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 30}},
    }
    scales = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 10, "metrics": [metric]}
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
            "metadata": placed,
            "spec": {"selector": labels, "ports": [{"port": 8080}]},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": placed,
            "spec": {"selector": {"matchLabels": labels}, "template": pod},
        },
        {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": placed, "spec": scales},
    ]


@pytest.fixture
def loaded(installed: Person, tmp_path: Path) -> Iterator[Person]:
    """Both workspaces, with a pod that is ready in each."""
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
        installed.run(f"kubectl delete namespace {names}; kubectl delete wsq {names}")


def look(api: Api, of: Workspace, second: float) -> Sample:
    """What is there now. The limit is read first: it is only raised here."""
    hard = parse(api.get("WorkspaceQuota", of.name)["spec"]["hard"][CPU])
    pods = [each for each in api.list("Pod", of.name) if "deletionTimestamp" not in each["metadata"]]
    requests = [one["resources"]["requests"]["cpu"] for each in pods for one in each["spec"]["containers"]]
    return Sample(second, len(pods), sum(map(parse, requests)) / 1e9, hard / 1e9)


@contextlib.contextmanager
def requests(cluster: Cluster, person: Person) -> Iterator[None]:
    """``hey`` asks for the page, from the node."""
    address = person.types("kubectl -n web get service web -o jsonpath={.spec.clusterIP}")
    hey = [str(find("hey")), "-z", f"{SECONDS}s", "-c", "8", f"http://{address}:8080/"]
    with subprocess.Popen([*cluster.way_in(), *hey], stdout=subprocess.DEVNULL):
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


def test_two_workspaces_under_load_use_up_their_limits_and_are_never_over(
    loaded: Person, cluster: Cluster, tmp_path: Path, tell
):
    api = administrator(cluster.kubeconfig, tmp_path / "admin")
    with requests(cluster, loaded):
        found = samples(api)
        described = loaded.run("kubectl -n stress describe hpa stress").stdout
    api.close()
    titles = {f"{one.name}: {one.mode}": found[one.name] for one in WORKSPACES}
    picture = drawing.svg(titles, "CPUs requested by pods; dashed: the limit")
    Path(os.environ.get("LOAD_CHART") or tmp_path / "chart.svg").write_text(picture)
    for one in WORKSPACES:
        over = [each for each in found[one.name] if each.used > each.hard]
        tell(f"{one.name}: {len(found[one.name])} looks, most pods {max(each.pods for each in found[one.name])}")
        assert over == []
        assert reached(found[one.name]) == [parse(limit) / 1e9 for limit in one.limits]
    assert "exceeded workspace quota: stress" in described
