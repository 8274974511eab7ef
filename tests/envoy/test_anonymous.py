"""Growth from somebody without a token: answered by Envoy, at no cost to the gate."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from extauthz.tools.render.options import Anonymous, Outage
from tests.support import authz
from tests.support.stack import PATCH, SCALE, Stack, read_response, scale_body, status_of
from tests.waiting import eventually

DEPLOYMENT = "/apis/apps/v1/namespaces/team-a/deployments/web"
GROWTH = {
    "scale": SCALE,
    "workload": DEPLOYMENT,
    "replica": "/apis/apps/v1/namespaces/team-a/replicasets/web",
    "odd-path": f"{DEPLOYMENT}//scale",
}


def send(stack: Stack, method: str, path: str, *, h2: bool = False, **headers: str) -> httpx.Response:
    with stack.client(h2=h2) as client:
        del client.headers["authorization"]
        return client.request(method, path, content=scale_body(3), headers=PATCH | headers)


@pytest.mark.parametrize("h2", [False, True], ids=["http1", "h2"])
@pytest.mark.parametrize("path", GROWTH.values(), ids=GROWTH)
def test_growth_without_a_token_is_refused_as_the_api_server_would_and_asks_nobody(stack: Stack, path: str, h2: bool):
    status = status_of(send(stack, "PATCH", path, h2=h2))
    assert (status["code"], status["reason"]) == (401, "Unauthorized")
    assert "authorization header" in status["message"]
    assert not stack.gate.checks
    assert not stack.gate.entries
    assert not stack.api.seen


def test_no_body_is_waited_for(stack: Stack):
    with stack.connect() as connection:
        connection.sendall(f"PATCH {SCALE} HTTP/1.1\r\nhost: x\r\ncontent-length: 3000000\r\n\r\n".encode())
        assert read_response(connection).startswith(b"HTTP/1.1 401 ")


def test_a_401_of_envoys_own_is_not_logged(stack: Stack):
    send(stack, "PATCH", SCALE)
    stack.gate.answer = authz.allow("d-later")
    send(stack, "PATCH", SCALE, authorization="Bearer somebody")
    eventually(lambda: [line for line in stack.envoy.access_lines() if line["decision_id"] == "d-later"])
    assert not [line for line in stack.envoy.access_lines() if line["status"] == 401]


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", SCALE), ("DELETE", DEPLOYMENT), ("PATCH", f"{DEPLOYMENT}/status"), ("PATCH", "/api/v1/namespaces/team-a")],
)
def test_what_cannot_grow_anything_passes_without_a_token(stack: Stack, method: str, path: str):
    """The API server says who may do what."""
    send(stack, method, path)
    assert [seen.method for seen in stack.api.seen] == [method]


def test_an_outage_that_allows_lets_nobody_pass_without_a_token(launch):
    for stack in launch(on_outage=Outage.ALLOW):
        assert send(stack, "PATCH", SCALE).status_code == 401


@pytest.fixture(scope="module")
def asking(launch) -> Iterator[Stack]:
    yield from launch(anonymous=Anonymous.ASK)


@pytest.mark.parametrize("path", GROWTH.values(), ids=GROWTH)
def test_by_option_the_gate_is_asked_about_nobodys_writes_too(asking: Stack, path: str):
    asking.forget()
    asking.gate.answer = authz.deny(403, "no room")
    assert send(asking, "PATCH", path).status_code == 403
    assert len(asking.gate.checks) == 1
