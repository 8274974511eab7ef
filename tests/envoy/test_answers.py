"""What the real Envoy tells the gate about each decided request, and what the gate's door makes of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import httpx
import pytest
from envoy.service.accesslog.v3.als_pb2 import StreamAccessLogsMessage

from extauthz.core.ledger.entry import Event
from extauthz.tools.render.options import Endpoint, Outage
from tests.servers.listening import Heard
from tests.support import authz
from tests.support.apiserver import Break
from tests.support.stack import PATCH, SCALE, Stack, scale_body
from tests.waiting import eventually

H1_AND_H2 = pytest.mark.parametrize("h2", [False, True], ids=["http/1.1", "h2"])


def take(entry) -> tuple[str, Event]:
    """What the door makes of one entry."""
    heard = Heard()
    message = StreamAccessLogsMessage()
    message.http_logs.log_entry.append(entry)
    heard.door.take(message.SerializeToString())
    assert not heard.skips
    [answer] = heard.answers
    return answer


def heard_of(stack: Stack) -> tuple[str, Event]:
    """What the door makes of the one entry that comes."""
    [entry] = eventually(lambda: list(stack.gate.entries))
    return take(entry)


def grow(stack: Stack, **options) -> httpx.Response:
    return stack.send("PATCH", SCALE, content=scale_body(3), headers=PATCH, **options)


@pytest.fixture
def failing(stack: Stack) -> Iterator[Stack]:
    """A stack whose API server a test may break."""
    yield stack
    stack.api.failing, stack.api.breaking = 0, None


@H1_AND_H2
@pytest.mark.parametrize(
    ("code", "event"),
    [
        *((code, Event.REFUSED) for code in (401, 403, 404, 405, 409, 413, 415, 422, 429)),
        *((code, Event.ANSWERED_OK) for code in (400, 406)),
        *((code, Event.ANSWERED_UNCLEAR) for code in (408, 500, 502, 503, 504)),
    ],
)
def test_a_refusal_by_the_api_server_is_told_by_its_code(failing: Stack, code: int, event: Event, h2: bool):
    failing.gate.answer = authz.allow("d-7")
    failing.api.failing = code
    assert grow(failing, h2=h2).status_code == code
    assert heard_of(failing) == ("d-7", event)


@H1_AND_H2
def test_a_write_that_succeeds_is_told(stack: Stack, h2: bool):
    stack.gate.answer = authz.allow("d-8")
    assert grow(stack, h2=h2).status_code == 200
    assert heard_of(stack) == ("d-8", Event.ANSWERED_OK)


@H1_AND_H2
@pytest.mark.parametrize("how", Break)
def test_a_connection_that_ends_before_or_within_the_answer_leaves_it_unclear(failing: Stack, how: Break, h2: bool):
    failing.api.breaking = how
    if how is Break.BEFORE:
        assert grow(failing, h2=h2).status_code == 503
    else:
        with pytest.raises(httpx.RemoteProtocolError):
            grow(failing, h2=h2)
    assert heard_of(failing) == ("d-allow", Event.ANSWERED_UNCLEAR)


@H1_AND_H2
def test_a_denial_was_not_forwarded(stack: Stack, h2: bool):
    stack.gate.answer = authz.deny(403, "no room", "d-9")
    grow(stack, h2=h2)
    assert heard_of(stack) == ("d-9", Event.NOT_FORWARDED)


@H1_AND_H2
def test_a_write_without_an_answer_in_time_is_unclear(silent: Stack, h2: bool):
    assert grow(silent, h2=h2).status_code == 504
    assert heard_of(silent) == ("d-allow", Event.ANSWERED_UNCLEAR)


@H1_AND_H2
def test_a_client_that_leaves_before_the_answer_makes_it_unclear(silent: Stack, h2: bool):
    with silent.client(h2=h2) as client, pytest.raises(httpx.ReadTimeout):
        client.patch(SCALE, content=scale_body(3), headers=PATCH, timeout=0.8)
    assert heard_of(silent) == ("d-allow", Event.ANSWERED_UNCLEAR)


# Writes that never left.


@pytest.mark.parametrize(
    "away",
    [
        pytest.param(lambda: {"apiserver": Endpoint("127.0.0.1", 1)}, id="connection-refused"),
        pytest.param(lambda: {"apiserver": Endpoint("no-such-name.invalid", 443)}, id="name-unknown"),
        pytest.param(lambda: {"apiserver_name": "impostor.example"}, id="certificate-of-somebody-else"),
    ],
)
def test_a_write_that_no_connection_took_was_not_forwarded(launch, away: Callable[[], dict]):
    for stack in launch(**away()):
        stack.gate.answer = authz.allow("d-10")
        assert grow(stack).status_code == 503
        assert heard_of(stack) == ("d-10", Event.NOT_FORWARDED)
        assert not stack.api.writes()


# What is in an entry, and which requests have one.


def test_nothing_secret_is_in_an_entry(stack: Stack):
    secrets = {
        "authorization": "Bearer s3cret-1",
        "cookie": "session=s3cret-2",
        "impersonate-user": "s3cret-3",
        "x-remote-extra-token": "s3cret-4",
        "proxy-authorization": "Basic s3cret-5",
        "sec-websocket-protocol": "base64url.bearer.authorization.k8s.io.s3cret-6",
        "x-api-key": "s3cret-7",
    }
    body = b'{"spec": {"replicas": 3}, "metadata": {"annotations": {"s3cret-8": ""}}}'
    assert stack.send("PATCH", SCALE, content=body, headers=PATCH | secrets).status_code == 200
    [write] = stack.api.writes()
    assert write.headers["authorization"] == "Bearer s3cret-1", "the API server gets it all the same"
    [entry] = eventually(lambda: list(stack.gate.entries))
    raw = entry.SerializeToString()
    assert SCALE.encode() in raw
    assert b"s3cret" not in raw


def test_requests_that_were_not_decided_have_no_entry(stack: Stack):
    stack.send("GET", SCALE)
    stack.send("POST", "/api/v1/namespaces/team-a/events", content=b"{}")
    stack.gate.answer = authz.garbage(b"")
    assert grow(stack).status_code == 503
    stack.gate.answer = authz.allow("d-last")
    grow(stack)
    assert heard_of(stack) == ("d-last", Event.ANSWERED_OK)


# The stream.


def test_many_answers_come_over_one_stream(stack: Stack):
    before = stack.gate.streams
    with stack.client() as client:
        for number in range(100):
            stack.gate.answer = authz.allow(f"d-{number}")
            client.patch(SCALE, content=scale_body(3), headers=PATCH)
    eventually(lambda: len(stack.gate.entries) == 100)
    assert [take(entry)[0] for entry in stack.gate.entries] == [f"d-{number}" for number in range(100)]
    assert stack.gate.streams - before <= 1


def test_after_an_outage_of_the_gate_the_stream_is_opened_again(launch):
    for stack in launch():
        assert grow(stack).status_code == 200
        eventually(lambda gate=stack.gate: gate.entries)
        stack.gate.__exit__(None, None, None)
        grow(stack)
        stack.gate.__enter__()
        stack.forget()
        eventually(lambda one=stack: grow(one).status_code == 200)
        assert eventually(lambda one=stack: one.gate.entries)
        assert stack.gate.streams == 2


def test_a_gate_without_that_service_costs_nothing_but_the_answers(launch):
    """An older gate says UNIMPLEMENTED; writes go on."""
    for stack in launch():
        stack.gate.hears = False
        for _ in range(3):
            assert grow(stack).status_code == 200
        assert not stack.gate.entries


def test_with_allow_on_outage_what_passed_without_a_decision_has_no_entry(launch):
    for stack in launch(on_outage=Outage.ALLOW, gate_timeout_s=2.0):
        release = threading.Event()
        stack.gate.answer = authz.held(release, authz.allow("d-late"))
        assert grow(stack).status_code == 200
        release.set()
        stack.gate.answer = authz.allow("d-decided")
        assert grow(stack).status_code == 200
        assert heard_of(stack) == ("d-decided", Event.ANSWERED_OK)
