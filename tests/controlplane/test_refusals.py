"""Which refusals of a real API server mean that nothing was stored: what the access-log door takes its codes from."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from itertools import product

import httpx
import pytest

from extauthz.core.ledger.entry import Event
from extauthz.inputs.settlement import answers
from extauthz.inputs.settlement.answers import Fate
from tests.controlplane import fixtures
from tests.controlplane.plane import Plane

pytestmark = pytest.mark.controlplane

NAMESPACE = "refusals"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
WEB = f"{DEPLOYMENTS}/web"
MERGE = {"content-type": "application/merge-patch+json"}
TABLE = "as=Table;v=v1;g=meta.k8s.io"


@pytest.fixture(scope="module")
def server(plane: Plane) -> Iterator[httpx.Client]:
    """An administrator's client, and a Deployment ``web``."""
    plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    with httpx.Client(base_url=plane.url, verify=plane.tls, timeout=60) as client:
        made = client.post(DEPLOYMENTS, json=fixtures.deployment("web"))
        assert made.status_code == 201
        yield client


def replicas(server: httpx.Client) -> int:
    return server.get(WEB).json()["spec"]["replicas"]


def event_of(answer: httpx.Response) -> Event:
    """What the door makes of it, as Envoy would tell it."""
    return answers.event(Fate(answer.status_code, "via_upstream", frozenset(), attempts=1, sent=True))


def grow(server: httpx.Client, path: str = WEB, **options) -> tuple[httpx.Response, bool]:
    """A patch to one replica more: the answer, and whether it has landed."""
    before = replicas(server)
    body = json.dumps({"spec": {"replicas": before + 1}})
    options = {"content": body, "headers": MERGE} | options
    answer = server.patch(path, **options)
    return answer, replicas(server) == before + 1


@pytest.mark.parametrize("path", [WEB, f"{WEB}/scale"], ids=["object", "scale"])
def test_a_write_can_land_and_be_answered_with_400(server, path: str):
    """Then the room must stay taken until a read shows the growth: whoever may write can ask for such an answer."""
    headers = MERGE | {"accept": f"application/json;{TABLE}"}
    answer, landed = grow(server, f"{path}?includeObject=bogus", headers=headers)
    assert (answer.status_code, landed) == (400, True)
    assert event_of(answer) is Event.ANSWERED_OK


ACCEPTS = (
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/cbor",
    "a/b",
    "*/*",
)
SHAPES = (
    "",
    f";{TABLE}",
    ";as=Table;v=v9;g=meta.k8s.io",
    ";as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    ";as=X;v=v1;g=y",
)
QUERIES = (
    "",
    "?includeObject=bogus",
    "?pretty=true",
    "?fieldManager=" + "x" * 129,
    "?fieldValidation=Bogus",
    "?timeout=-1s",
)


@pytest.mark.parametrize("path", [WEB, f"{WEB}/scale"], ids=["object", "scale"])
def test_no_answer_that_is_taken_for_a_refusal_comes_after_the_write_has_landed(server, path: str):
    codes = set()
    for accept, shape, query in product(ACCEPTS, SHAPES, QUERIES):
        answer, landed = grow(server, path + query, headers=MERGE | {"accept": accept + shape})
        codes.add((answer.status_code, landed))
        if landed:
            assert event_of(answer) is not Event.REFUSED, (accept, shape, query, answer.status_code)
            assert event_of(answer) is not Event.NOT_FORWARDED
    assert (200, True) in codes
    assert {code for code, landed in codes if not landed} & {400, 406, 422}, "nothing was refused: what is tried here?"


@pytest.mark.parametrize(
    ("code", "options"),
    [
        pytest.param(403, {"headers": MERGE | {"impersonate-user": "nobody-in-particular"}}, id="rbac"),
        pytest.param(404, {"path": f"{DEPLOYMENTS}/gone"}, id="not-there"),
        pytest.param(405, {"path": DEPLOYMENTS}, id="method"),
        pytest.param(
            409, {"content": b'{"metadata": {"resourceVersion": "1"}, "spec": {"replicas": 99}}'}, id="conflict"
        ),
        pytest.param(413, {"content": b" " * (3 * 1024 * 1024 + 1)}, id="too-large"),
        pytest.param(415, {"headers": {"content-type": "text/plain"}}, id="content-type"),
        pytest.param(422, {"content": b'{"spec": {"replicas": -1}}'}, id="validation"),
    ],
)
def test_what_is_taken_for_a_refusal_has_stored_nothing(server, code: int, options: dict):
    answer, landed = grow(server, **options)
    assert (answer.status_code, landed) == (code, False)
    assert event_of(answer) is Event.REFUSED


def test_a_caller_without_a_valid_token_has_stored_nothing(server, plane: Plane):
    before = replicas(server)
    with httpx.Client(base_url=plane.url, verify=ssl.create_default_context(cafile=str(plane.ca))) as stranger:
        headers = MERGE | {"authorization": "Bearer nonsense"}
        answer = stranger.patch(WEB, content=b'{"spec": {"replicas": 99}}', headers=headers)
    assert (answer.status_code, replicas(server)) == (401, before)
    assert event_of(answer) is Event.REFUSED
