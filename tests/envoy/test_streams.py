"""Bodies, timeouts, watches and upgrades: what takes long, what is large, and what must not be done twice."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx
import pytest

from extauthz.core.intake.counts import MAX_BYTES
from extauthz.core.ledger.entry import Event
from extauthz.core.quota.selectors import CONTEXT_EXTENSION
from extauthz.demo.apiserver import Key
from extauthz.inputs.settlement import answers
from extauthz.serve.servers import access_log
from extauthz.tools.render.options import Endpoint
from tests.envoy.h2server import H2Server, How
from tests.support.stack import HEAD, PATCH, SCALE, Stack, echo, read_response, scale_body, status_of, upgrade
from tests.waiting import eventually

KIB = 1024
MIB = 1024 * KIB
H1_AND_H2 = pytest.mark.parametrize("h2", [False, True], ids=["http/1.1", "h2"])
PROXIED = "/api/v1/namespaces/team-a/services/web/proxy/upload"


def padded(size: int) -> bytes:
    """A scale patch of exactly this many bytes."""
    return scale_body(3).ljust(size)


@H1_AND_H2
@pytest.mark.parametrize("chunked", [False, True], ids=["content-length", "no-content-length"])
@pytest.mark.parametrize("size", [KIB, 3 * MIB, 3 * MIB + 1])
def test_the_gate_sees_what_a_count_may_have_and_the_api_server_all(stack: Stack, h2: bool, chunked: bool, size: int):
    """The API server has a limit of its own. A header of Envoy's says of half a body that it is whole, where exactly as
    much has come as the gate is shown: so the gate goes by the length."""
    body = padded(size)
    half = size // 2
    content = (bytes(part) for part in [body[:half], body[half:]]) if chunked else body
    answer = stack.send("PATCH", SCALE, content=content, headers=PATCH, h2=h2)
    assert answer.status_code == (200 if size <= 3 * MIB else 413)
    (check,) = stack.gate.checks
    seen = check.attributes.request.http
    assert body.startswith(seen.raw_body)
    assert len(seen.raw_body) == min(size, 64 * KIB)
    assert MAX_BYTES < 64 * KIB, "what was cut off is no count"
    assert [each.body for each in stack.api.writes()] == [body]


def test_bodies_of_other_requests_have_no_limit_and_are_not_held_back(stack: Stack):
    answer = stack.send("POST", PROXIED, content=bytes(8 * MIB))
    assert answer.text == f"{8 * MIB} bytes"
    assert not stack.gate.checks


def test_a_body_that_trickles_in_is_decided_on_once_and_whole(stack: Stack):
    body = scale_body(3)
    head = f"PATCH {SCALE} HTTP/1.1\r\nhost: x\r\n{HEAD}content-type: application/merge-patch+json\r\n"
    with stack.connect() as connection:
        connection.sendall(f"{head}transfer-encoding: chunked\r\n\r\n".encode())
        for byte in body:
            connection.sendall(b"1\r\n%c\r\n" % byte)
            time.sleep(0.01)
        assert not stack.gate.checks
        connection.sendall(b"0\r\n\r\n")
        assert read_response(connection).startswith(b"HTTP/1.1 200 ")
    assert [check.attributes.request.http.raw_body for check in stack.gate.checks] == [body]
    assert [write.body for write in stack.api.writes()] == [body]


def test_a_body_that_never_ends_is_given_up(hasty: Stack):
    hasty.forget()
    with hasty.connect() as connection:
        connection.sendall(f"PATCH {SCALE} HTTP/1.1\r\nhost: x\r\n{HEAD}content-length: 100\r\n\r\n{{".encode())
        answer = read_response(connection)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"kind":"Status"' in answer
    assert not hasty.gate.checks
    assert not hasty.api.seen


@H1_AND_H2
def test_a_write_without_an_answer_ends_in_time_and_is_sent_once(silent: Stack, h2: bool):
    """W, the time after which a write can land no more, counts on it (ledger.md). A client cannot change it."""
    lift = {"x-envoy-upstream-rq-timeout-ms": "600000", "x-envoy-upstream-rq-per-try-timeout-ms": "10"}
    again = {"x-envoy-retry-on": "5xx,reset,connect-failure,gateway-error", "x-envoy-max-retries": "5"}
    inside = {"x-forwarded-for": "10.0.0.1", "x-envoy-internal": "true"}
    headers = PATCH | lift | again | inside
    status = status_of(silent.send("PATCH", SCALE, content=scale_body(3), headers=headers, h2=h2))
    assert (status["code"], status["reason"]) == (504, "Timeout")
    assert len(silent.api.writes()) == 1
    assert len(silent.gate.checks) == 1


@pytest.mark.parametrize("code", [500, 503, 429])
def test_a_failed_write_is_not_sent_again_and_its_answer_is_not_reworded(stack: Stack, code: int):
    stack.api.failing = code
    try:
        again = {
            "x-forwarded-for": "10.0.0.1",
            "x-envoy-retry-on": "5xx,retriable-4xx,retriable-status-codes",
            "x-envoy-max-retries": "5",
        }
        answer = stack.send("PATCH", SCALE, content=scale_body(3), headers=PATCH | again)
    finally:
        stack.api.failing = 0
    assert (answer.status_code, answer.json()["message"]) == (code, "told to fail")
    assert len(stack.api.writes()) == 1


def test_the_test_above_would_notice_a_client_that_envoy_obeys(launch):
    def trust_everyone(tree: dict) -> None:
        for manager in managers(tree):
            manager["internal_address_config"] = {"cidr_ranges": [{"address_prefix": "0.0.0.0", "prefix_len": 0}]}

    for stack in launch(trust_everyone):
        stack.api.failing = 503
        again = {"x-envoy-retry-on": "5xx", "x-envoy-max-retries": "2"}
        stack.send("PATCH", SCALE, content=scale_body(3), headers=PATCH | again)
        assert len(stack.api.writes()) > 1


def test_the_api_server_learns_where_a_request_came_from(stack: Stack):
    stack.send("GET", SCALE, headers={"x-forwarded-for": "198.51.100.7"})
    claimed, *appended = stack.api.seen[0].headers["x-forwarded-for"].split(",")
    assert claimed == "198.51.100.7"
    assert len(appended) == 1


# Idle watches. Twenty minutes are too long for a test, so all of Envoy's time goes FASTER times as fast: every duration
# in the rendered configuration is divided, and where it leaves one to Envoy's default, that is made explicit first.

FASTER = 400
TWENTY_MINUTES_S = 20 * 60 / FASTER
STREAM_IDLE_DEFAULT_S, ROUTE_DEFAULT_S = 300, 15
ENVOYS_LEAST_S = 0.001
"""What Envoy takes for the pause between two tries."""


REAL = ("transport_socket_connect_timeout", "request_headers_timeout")
"""Rule what a client does in real time."""


def faster(tree: dict) -> None:
    """Divides every duration but those of connecting, which real time rules."""
    for manager in managers(tree):
        manager.setdefault("stream_idle_timeout", f"{STREAM_IDLE_DEFAULT_S}s")
        for route in manager["route_config"]["virtual_hosts"][0]["routes"]:
            route.get("route", {}).setdefault("timeout", f"{ROUTE_DEFAULT_S}s")
    divide(tree["static_resources"]["listeners"])


def managers(tree: dict) -> list[dict]:
    chains = [chain for listener in tree["static_resources"]["listeners"] for chain in listener["filter_chains"]]
    return [one["typed_config"] for chain in chains for one in chain["filters"]]


def divide(tree: dict | list) -> None:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in list(items):
        if isinstance(value, dict | list):
            divide(value)
        elif (
            key not in REAL and isinstance(value, str) and value.endswith("s") and value[:-1].replace(".", "").isdigit()
        ):
            seconds = float(value[:-1])
            tree[key] = f"{max(seconds / FASTER, min(seconds, ENVOYS_LEAST_S)):.6f}s"


def with_envoys_default(tree: dict) -> None:
    """What would happen if nothing were said about idle streams."""
    for manager in managers(tree):
        del manager["stream_idle_timeout"]
    faster(tree)


WATCH = "/apis/apps/v1/namespaces/team-a/deployments?watch=true&allowWatchBookmarks=true&resourceVersion={now}"
EXEC = "/api/v1/namespaces/team-a/pods/web-0/exec?command=sh&stdin=true"


@pytest.fixture(scope="module")
def fast(launch) -> Iterator[Stack]:
    yield from launch(faster)


def test_watches_and_execs_live_through_twenty_idle_minutes(fast: Stack):
    watch = WATCH.format(now=fast.api.objects.version)
    with (
        fast.client() as one,
        fast.client(h2=True) as two,
        one.stream("GET", watch) as first,
        two.stream("GET", watch) as second,
        fast.connect() as shell,
    ):
        assert upgrade(shell, "GET", EXEC, "websocket").startswith(b"HTTP/1.1 101 ")
        time.sleep(TWENTY_MINUTES_S * 1.05)
        fast.api.objects.put(Key("apps", "deployments", "team-a", "late"), {"kind": "Deployment"}, "ADDED")
        assert [next(watch.iter_lines())[:16] for watch in (first, second)] == ['{"type": "ADDED"'] * 2
        assert (first.http_version, second.http_version) == ("HTTP/1.1", "HTTP/2")
        assert echo(shell, b"still there") == b"still there"


def test_the_test_above_would_notice_an_idle_timeout(launch):
    for stack in launch(with_envoys_default):
        with (
            stack.client() as client,
            client.stream("GET", WATCH.format(now=stack.api.objects.version)) as watch,
            pytest.raises(httpx.RemoteProtocolError, match="peer closed connection"),
        ):
            next(watch.iter_lines())


UNPROCESSED = (How.REFUSE, How.REFUSE_LATE, How.LEAVE_BEFORE)
"""RFC 9113 §8.7: REFUSED_STREAM, and a GOAWAY whose last stream is below this one, say that nothing was done."""


@pytest.mark.parametrize("connection", ["new", "used"])
@pytest.mark.parametrize("how", How)
def test_only_a_refused_stream_was_not_processed(launch, authority, how: How, connection: str):
    with H2Server(authority.issue("localhost")) as server:
        for stack in launch(apiserver=Endpoint("127.0.0.1", server.port), apiserver_name="localhost"):
            if connection == "used":
                assert heard(stack) == (200, Event.ANSWERED_OK)
                server.seen.clear()
            server.how = how
            assert heard(stack) == expected(how)
            assert server.seen == [SCALE], "it was tried once"


def expected(how: How) -> tuple[int, Event]:
    if how is How.ANSWER:
        return 200, Event.ANSWERED_OK
    return 503, Event.NOT_FORWARDED if how in UNPROCESSED else Event.ANSWERED_UNCLEAR


def heard(stack: Stack) -> tuple[int, Event]:
    """What the client, and what the gate is told of a write."""
    stack.gate.entries.clear()
    answer = stack.send("PATCH", SCALE, content=scale_body(7), headers=PATCH)
    (entry,) = eventually(lambda: list(stack.gate.entries))
    return answer.status_code, answers.event(access_log.fate(entry))


KEDA = "system:serviceaccount:keda:keda-operator"
FORGED = {CONTEXT_EXTENSION.replace("/", "-"): "admin", "x-envoy-requester": "admin", "requester": "admin"}


@pytest.fixture(scope="module")
def told(launch) -> Iterator[Stack]:
    yield from launch(requester=KEDA)


@pytest.mark.parametrize("headers", [{}, FORGED])
def test_the_gate_is_told_what_the_configuration_says(told: Stack, headers: dict[str, str]):
    told.forget()
    told.send("PUT", SCALE, content=b"{}", headers=headers)
    (check,) = told.gate.checks
    assert dict(check.attributes.context_extensions) == {CONTEXT_EXTENSION: KEDA}


def test_without_it_the_gate_is_told_nothing(stack: Stack):
    stack.send("PUT", SCALE, content=b"{}", headers=FORGED)
    (check,) = stack.gate.checks
    assert dict(check.attributes.context_extensions) == {}
