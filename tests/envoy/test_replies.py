"""What a client sees when a write is refused: by the gate, by a gate that fails, by Envoy itself."""

from __future__ import annotations

import json
import socket
import threading

import pytest
from envoy.service.auth.v3.external_auth_pb2 import CheckResponse

from extauthz.tools.render.envoy import OUTAGE
from extauthz.tools.render.options import Endpoint, Outage
from tests.support import authz
from tests.support.stack import PATCH, SCALE, TOKEN, Stack, scale_body, status_of, unused_port
from tests.waiting import eventually

H1_AND_H2 = pytest.mark.parametrize("h2", [False, True], ids=["http/1.1", "h2"])


def grow(stack: Stack, **options):
    return stack.send("PATCH", SCALE, content=scale_body(3), headers=PATCH, **options)


def allowed(stack: Stack) -> bool:
    return grow(stack).status_code == 200


def assert_outage(answer) -> None:
    status = status_of(answer)
    assert (status["code"], status["reason"]) == (503, "ServiceUnavailable")
    assert status["message"] == OUTAGE
    assert "exceeded" not in status["message"]


@H1_AND_H2
@pytest.mark.parametrize("code", [403, 503], ids=["denied-for-quota", "refused-as-unavailable"])
def test_the_gates_own_refusal_arrives_byte_for_byte(stack: Stack, code: int, h2: bool):
    stack.gate.answer = authz.deny(code, 'a "sentence" of its own: 4 × 2', decision_id="d-42")
    answer = grow(stack, h2=h2)
    refusal = stack.gate.answer(None).denied_response
    assert (answer.status_code, answer.text) == (code, refusal.body)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-extauthz-decision-id"] == "d-42"
    assert not stack.api.writes()


def test_envoy_says_how_long_it_waits_for_the_gate(stack: Stack):
    assert allowed(stack)
    assert stack.gate.patience_s is not None
    assert 0 < stack.gate.patience_s < 21, "gate_timeout_s of conftest.py"


def garbage_denial() -> bytes:
    """A denial from something that is no gate: no decision id."""
    response = CheckResponse()
    response.status.code = 7
    response.denied_response.body = "go away"
    return response.SerializeToString()


@H1_AND_H2
@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"\xff\xff\xff\xff", id="no-protobuf"),
        pytest.param(b"", id="empty-message-which-means-OK-to-envoy"),
        pytest.param(b"\x0a\x02\x08\x00", id="OK-without-a-decision-id"),
        pytest.param(garbage_denial(), id="denial-without-a-decision-id"),
    ],
)
def test_an_answer_that_is_no_decision_is_an_outage(stack: Stack, raw: bytes, h2: bool):
    stack.gate.answer = authz.garbage(raw)
    assert_outage(grow(stack, h2=h2))
    assert not stack.api.writes()


def test_the_gate_cannot_change_the_request(stack: Stack):
    response = CheckResponse()
    response.dynamic_metadata["decision_id"] = "d-1"
    for name, value in ((":path", "/apis/apps/v1/namespaces/other/deployments/web"), ("impersonate-user", "admin")):
        option = response.ok_response.headers.add()
        option.header.key, option.header.value = name, value
    stack.gate.answer = authz.garbage(response.SerializeToString())
    assert grow(stack).status_code == 200
    [write] = stack.api.writes()
    assert write.target == SCALE
    assert "impersonate-user" not in write.headers


def test_a_gate_that_raises_is_an_outage(stack: Stack):
    def broken(request):
        raise RuntimeError("a bug in the gate")

    stack.gate.answer = broken
    assert_outage(grow(stack))


@pytest.fixture(scope="module")
def impatient(launch):
    yield from launch(gate_timeout_s=0.3)


@H1_AND_H2
def test_a_gate_that_does_not_answer_in_time_is_an_outage(impatient: Stack, h2: bool):
    release = threading.Event()
    impatient.forget()
    impatient.gate.answer = authz.held(release, authz.allow())
    try:
        assert_outage(grow(impatient, h2=h2))
        assert not impatient.api.writes()
    finally:
        release.set()


# A gate that is gone, and what goes on without it (design.md rule 7).


@pytest.fixture(scope="module")
def orphan(launch):
    yield from launch(gate=Endpoint("127.0.0.1", unused_port()), gate_timeout_s=2.0)


def test_it_is_logged_as_an_outage(orphan: Stack):
    grow(orphan)
    [line, *_] = eventually(lambda: [one for one in orphan.envoy.access_lines() if one["route"] == "scale"])
    assert (line["status"], line["status_details"], line["decision_id"]) == (503, "ext_authz_error", None)


def test_a_gate_that_speaks_no_grpc_is_an_outage(launch):
    """Something else listens on the gate's port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=babble, args=(listener,), daemon=True)
        thread.start()
        for stack in launch(gate=Endpoint("127.0.0.1", listener.getsockname()[1])):
            assert_outage(grow(stack))
            assert not stack.api.writes()


def babble(listener: socket.socket) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            connection.sendall(b"220 mail.example.org ESMTP\r\n")
            connection.recv(1024)


def test_with_allow_on_outage_writes_pass_without_a_gate_and_refusals_still_hold(launch):
    for stack in launch(on_outage=Outage.ALLOW):
        stack.gate.answer = authz.deny(403, "no room")
        assert grow(stack).status_code == 403
        stack.gate.__exit__(None, None, None)
        assert grow(stack).status_code == 200
        assert [one.target for one in stack.api.writes()] == [SCALE]
        stack.gate.__enter__()


def test_an_api_server_that_is_gone_is_told_apart_from_a_gate_that_is_gone(launch):
    for stack in launch(apiserver=Endpoint("127.0.0.1", unused_port())):
        status = status_of(grow(stack))
        assert status["code"] == 503
        assert "API server" in status["message"]
        assert status["message"] != OUTAGE


@pytest.mark.parametrize(
    ("answer", "code"),
    [(authz.allow("d-logged-allow"), 200), (authz.deny(403, "no room", "d-logged-deny"), 403)],
    ids=["allowed", "denied"],
)
def test_each_decision_is_logged_with_its_id(stack: Stack, answer: authz.Answer, code: int):
    stack.gate.answer = answer
    stack.send("PATCH", f"{SCALE}?secret=1", content=scale_body(3), headers=PATCH)
    wanted = answer(None).dynamic_metadata["decision_id"]
    [line] = eventually(lambda: [one for one in stack.envoy.access_lines() if one["decision_id"] == wanted])
    assert (line["status"], line["path"], line["route"]) == (code, SCALE, "scale")
    said = json.dumps(line)
    assert "secret" not in said
    assert TOKEN["authorization"].removeprefix("Bearer ") not in said
