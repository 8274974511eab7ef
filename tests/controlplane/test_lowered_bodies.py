"""A body that was written anew with fewer replicas lands on the version that it names, and on no other.

The real API server judges: were it to take such a body on another version, it could take replicas away.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from extauthz.core.intake.rewritten import rewritten
from extauthz.core.model import Request
from extauthz.core.wire import goproto
from extauthz.testing import PATCH_TYPES
from tests.controlplane import fixtures
from tests.controlplane.plane import Plane, running_plane
from tests.waiting import eventually

pytestmark = pytest.mark.controlplane

Tree = Any
PROTOBUF = "application/vnd.kubernetes.protobuf"
APPS = "/apis/apps/v1/namespaces/default"
WIDGETS = "/apis/example.dev/v1/namespaces/default/widgets"
PLACES = {
    "deployments": f"{APPS}/deployments/web",
    "statefulsets": f"{APPS}/statefulsets/db",
    "replicasets": f"{APPS}/replicasets/crew",
    "replicationcontrollers": "/api/v1/namespaces/default/replicationcontrollers/old",
    "widgets": f"{WIDGETS}/knob",
}


class Sender:
    """Sends bodies to one object, and says where it stands."""

    def __init__(self, client: httpx.Client, resource: str, *, scale: bool) -> None:
        self.path = PLACES[resource] + ("/scale" if scale else "")
        self._client = client

    def send(self, request: Request) -> httpx.Response:
        return self._client.request(request.method, request.target, content=request.body, headers=dict(request.headers))

    def now(self) -> Tree:
        return self._client.get(self.path).json()

    def protobuf(self) -> bytes:
        return self._client.get(self.path, headers={"accept": PROTOBUF}).content

    def asking(self, form: str, replicas: int) -> Request:
        """What somebody sends who names no version."""
        if form in ("merge", "strategic"):
            body: Tree = {"spec": {"replicas": replicas}}
        elif form == "json":
            body = [{"op": "replace", "path": "/spec/replicas", "value": replicas}]
        else:
            return self._put(form, replicas)
        headers = {"content-type": PATCH_TYPES[form]}
        return Request("PATCH", self.path, headers, json.dumps(body).encode())

    def _put(self, form: str, replicas: int) -> Request:
        if form == "put":
            body = self.now()
            body["spec"]["replicas"] = replicas
            del body["metadata"]["resourceVersion"]
            return Request("PUT", self.path, {"content-type": "application/json"}, json.dumps(body).encode())
        return Request("PUT", self.path, {"content-type": PROTOBUF}, goproto.lowered(self.protobuf(), replicas, ""))


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with running_plane(folder=tmp_path_factory.mktemp("lowered")) as plane:
        plane.api.create(fixtures.DEFINITIONS[1])
        eventually(lambda: httpx.get(f"{plane.url}{WIDGETS}", verify=plane.tls).is_success)
        for ref in (
            "deployments.apps default/web",
            "statefulsets.apps default/db",
            "replicasets.apps default/crew",
            "replicationcontrollers default/old",
            "widgets.example.dev default/knob",
        ):
            plane.api.call("POST", fixtures.collection(ref), fixtures.FIXTURES[ref])
        yield plane


@pytest.fixture(scope="module")
def client(own: Plane) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=own.url, verify=own.tls) as made:
        yield made


CASES = [
    pytest.param(resource, sub, form, id=f"{resource} {sub} {form}")
    for resource in PLACES
    for sub in ("", "scale")
    for form in ("merge", "strategic", "json", "put", "protobuf")
    # A PUT is a count only of a scale.
    if sub == "scale" or form in ("merge", "strategic", "json")
    # Of a custom resource only the scale is asked about, and an API server takes fewer forms of it.
    if resource != "widgets" or (sub == "scale" and form in ("merge", "json", "put"))
]


@pytest.mark.parametrize(("resource", "sub", "form"), CASES)
def test_it_lands_on_its_version_and_on_no_other(own: Plane, client: httpx.Client, resource: str, sub: str, form: str):
    sender = Sender(client, resource, scale=bool(sub))
    stale = sender.now()["metadata"]["resourceVersion"]
    own.api.call("PATCH", PLACES[resource], {"metadata": {"annotations": {"at": stale}}}, PATCH_TYPES["merge"])
    before = sender.now()
    made = lowered(sender.asking(form, 9), 5, stale)
    refused = sender.send(made)
    assert refused.status_code == (422 if form == "json" else 409), refused.text
    assert sender.now() == before, "nothing of it landed"
    landed = sender.send(lowered(sender.asking(form, 9), 5, before["metadata"]["resourceVersion"]))
    assert landed.is_success, landed.text
    after = sender.now()
    assert after["spec"] == before["spec"] | {"replicas": 5}
    own.api.call("PATCH", PLACES[resource], {"spec": {"replicas": 2}}, PATCH_TYPES["merge"])


def lowered(request: Request, replicas: int, version: str) -> Request:
    body = rewritten(request, replicas, version)
    assert body is not None
    return request._replace(body=body)
