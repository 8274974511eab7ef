"""Which requests the gate is asked about: every spelling of a growth write, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import h2.config
import h2.connection
import h2.events
import pytest

from tests.support import authz
from tests.support.stack import HEAD, PATCH, SCALE, TOKEN, Stack, read_response, scale_body, status_of, upgrade

NAMESPACED = "/apis/apps/v1/namespaces/team-a"
SPELLINGS = Path(__file__).parents[1] / "data" / "spellings.jsonl"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", f"{NAMESPACED}/deployments/web/scale"),
        ("PATCH", f"{NAMESPACED}/deployments/web/scale?fieldManager=x"),
        ("PATCH", f"{NAMESPACED}/deployments/web"),
        ("PUT", f"{NAMESPACED}/statefulsets/db"),
        ("POST", f"{NAMESPACED}/replicasets"),
        ("POST", "/apis/apps/v1beta1/namespaces/team-a/deployments"),
        ("POST", "/api/v1/namespaces/team-a/replicationcontrollers"),
        ("PUT", "/api/v1/namespaces/team-a/replicationcontrollers/rc/scale"),
        ("PATCH", "/apis/extensions/v1beta1/namespaces/team-a/deployments/web"),
        ("PATCH", "/apis/example.org/v1/namespaces/team-a/crontabs/one/scale"),
        ("PATCH", "/apis/example.org/v1/clusterwides/one/scale"),
        ("PATCH", f"{NAMESPACED}/deployments/web/ephemeral"),
        ("POST", f"{NAMESPACED}/deployments/web/status/"),
        ("PATCH", "/apis/apps/v1/namespaces/extauthz-system/../team-a/deployments/web"),
        ("PATCH", f"{NAMESPACED}/deployments/web?x=/namespaces/extauthz-system/"),
        ("PATCH", f"{NAMESPACED}/deployments/web?x=/status"),
        ("PATCH", f"{NAMESPACED}/deployments/web/scale?x=/proxy/"),
        ("PATCH", "/api/v1/namespaces/a/pods/b/proxy/../../../../../../../apis/apps/v1/namespaces/c/deployments/d"),
    ],
)
def test_growth_is_asked_about(stack: Stack, method: str, path: str):
    stack.gate.answer = authz.deny(403, "no room")
    assert stack.send(method, path, content=b"{}").status_code == 403
    assert len(stack.gate.checks) == 1
    assert not stack.api.writes()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", f"{NAMESPACED}/deployments/web/scale"),
        ("HEAD", f"{NAMESPACED}/deployments/web"),
        ("DELETE", f"{NAMESPACED}/deployments/web-gone"),
        ("PATCH", "/api/v1/namespaces/team-a/pods/web-0/resize"),
        ("PUT", f"{NAMESPACED}/deployments/web/status"),
        ("PATCH", "/apis/example.org/v1/namespaces/team-a/crontabs/one/status"),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager"),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/scale"),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/deployments/leases/replicasets"),
        ("POST", "/api/v1/namespaces/team-a/events"),
        ("PATCH", "/api/v1/namespaces/team-a/events/web.18e9ec413fa37809"),
        ("POST", "/api/v1/namespaces/team-a/pods"),
        ("POST", "/api/v1/namespaces/team-a/serviceaccounts/deployer/token"),
        ("PUT", "/apis/autoscaling/v2/namespaces/team-a/horizontalpodautoscalers/web/status"),
        ("PATCH", "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:controller:deployment-controller"),
        ("POST", "/api/v1/namespaces/team-a/services/https%3Aweb%3A443/proxy/scale/%20x//y"),
        ("PATCH", "/apis/apps/v1/namespaces/extauthz-system/deployments/extauthz"),
        ("PUT", "/apis/apps/v1/namespaces/extauthz-system/deployments/extauthz/scale"),
    ],
)
def test_everything_else_passes_by_untouched(stack: Stack, method: str, path: str):
    stack.gate.answer = authz.deny(403, "no room")
    stack.send(method, path, content=b"k8s\0", headers={"content-type": "application/vnd.kubernetes.protobuf"})
    assert not stack.gate.checks
    assert [one.target for one in stack.api.seen] == [path]


def test_the_longest_name_of_a_namespace_can_be_exempt(launch):
    """Envoy refuses large patterns only when it starts; ``--mode validate`` takes them."""
    longest = "n" * 63
    for stack in launch(exempt_namespaces=("a", longest)):
        stack.gate.answer = authz.deny(403, "no room")
        stack.send("PATCH", f"/apis/apps/v1/namespaces/{longest}/deployments/gate", content=b"{}")
        stack.send("PATCH", f"/apis/apps/v1/namespaces/{longest}x/deployments/gate", content=b"{}")
        assert [len(stack.api.writes()), len(stack.gate.checks)] == [1, 1]


# Spellings. What the gate is shown must be what the API server is sent, letter by letter.

ONE_SPELLING = {
    "%73cale": "scale",
    "sc%61le": "scale",
    "x/../scale": "scale",
    "x/%2e%2e/scale": "scale",
    "./scale": "scale",
}


@pytest.mark.parametrize("tail", ONE_SPELLING)
def test_spellings_that_mean_the_same_are_made_the_same(stack: Stack, tail: str):
    raw_write(stack, f"{NAMESPACED}/deployments/web/{tail}")
    assert stack.gate.checks[0].attributes.request.http.path == SCALE
    assert [one.target for one in stack.api.writes()] == [SCALE]


@pytest.mark.parametrize(
    "target",
    [
        f"/{SCALE}",
        SCALE.replace("/", "//"),
        f"{SCALE}/",
        f"{SCALE}//",
        f"{SCALE};x=1",
        f"{SCALE}%3f",
        f"{SCALE}%20",
        f"{SCALE}%",
        SCALE.replace("scale", "sc%2561le"),
        SCALE.replace("scale", "sc%C5%BFale"),
        SCALE.replace("deployments", "Deployments"),
        f"{NAMESPACED}/configmaps%3b/x",
        f"https://elsewhere{SCALE}",
    ],
)
def test_odd_spellings_are_asked_about_and_sent_on_as_the_gate_saw_them(stack: Stack, target: str):
    raw_write(stack, target)
    [check], [write] = stack.gate.checks, stack.api.writes()
    assert check.attributes.request.http.path == write.target


@pytest.mark.parametrize(
    "target",
    [
        SCALE.replace("web/scale", "web%2Fscale"),
        SCALE.replace("web/scale", "web%2fscale"),
        SCALE.replace("web/scale", "web%5Cscale"),
        SCALE.replace("web", "w%00eb"),
        f"{SCALE}#fragment",
        "/../../..%2f" + SCALE,
    ],
)
def test_what_could_be_read_in_two_ways_is_refused_with_a_status(stack: Stack, target: str):
    answer = raw_write(stack, target)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"content-type: application/json" in head
    assert json.loads(body)["reason"] == "BadRequest"
    assert not stack.gate.checks
    assert not stack.api.seen


def raw_write(stack: Stack, target: str, headers: str = "") -> bytes:
    body = scale_body(3)
    head = f"PATCH {target} HTTP/1.1\r\nhost: x\r\n{HEAD}content-type: application/merge-patch+json\r\n{headers}"
    return stack.raw(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)


@pytest.mark.parametrize("method", [b"put", b"Patch"])
def test_unknown_methods_are_refused_on_http1(stack: Stack, method: bytes):
    answer = stack.raw(method + b" " + SCALE.encode() + b" HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert not stack.api.seen


@pytest.mark.parametrize("method", ["put", "Patch", "PURGE"])
def test_unknown_methods_are_asked_about_on_h2(stack: Stack, method: str):
    """HTTP/2 takes any token as a method, HTTP/1.1 a few more than Kubernetes uses."""
    stack.gate.answer = authz.deny(403, "no room")
    assert h2_status(stack, method, SCALE) == "403"
    assert stack.gate.checks[0].attributes.request.http.method == method


def h2_status(stack: Stack, method: str, path: str) -> str:
    with stack.connect("h2") as connection:
        peer = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="ascii"))
        peer.initiate_connection()
        headers = [(":method", method), (":path", path), (":scheme", "https"), (":authority", "x"), *TOKEN.items()]
        peer.send_headers(1, headers)
        peer.send_data(1, b"{}", end_stream=True)
        connection.sendall(peer.data_to_send())
        while data := connection.recv(65536):
            for event in peer.receive_data(data):
                if isinstance(event, h2.events.ResponseReceived):
                    return dict(event.headers)[":status"]
            connection.sendall(peer.data_to_send())
    raise AssertionError("the connection ended without an answer")


@pytest.mark.parametrize("protocol", ["websocket", "SPDY/3.1", "h2c", "anything"])
def test_an_upgrade_does_not_get_a_growth_write_past_the_gate(stack: Stack, protocol: str):
    """Envoy does not wait for the body of an upgrade: the gate would decide on an empty one."""
    stack.gate.answer = authz.deny(403, "no room")
    answer = raw_write(stack, SCALE, f"connection: upgrade\r\nupgrade: {protocol}\r\n")
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert [check.attributes.request.http.raw_body for check in stack.gate.checks] in ([], [scale_body(3)])
    assert not stack.api.seen


POD = "/api/v1/namespaces/team-a/pods/web-0/"
SERVICE = "/api/v1/namespaces/team-a/services/https:web:443/proxy/"


@pytest.mark.parametrize("protocol", ["websocket", "SPDY/3.1"])
@pytest.mark.parametrize(
    ("method", "path", "passes"),
    [
        *((method, POD + what, True) for method in ("GET", "POST") for what in ("exec?command=sh", "attach")),
        ("GET", POD + "portforward?ports=80", True),
        ("PUT", POD + "exec?command=sh", False),
        ("PATCH", POD + "attach", False),
        ("GET", SERVICE, False),
        ("POST", SERVICE + "apis/apps/v1/namespaces/team-a/deployments", False),
        ("GET", POD + "proxy/exec", False),
        ("GET", "/api/v1/nodes/n1/proxy/exec/team-a/web-0/main", False),
        ("GET", "/api/v1/namespaces/team-a/pods?watch=true", False),
        ("POST", "/apis/apps/v1/namespaces/extauthz-system/deployments", False),
        ("POST", "/api/v1/namespaces/team-a/pods/web-0/eviction", False),
    ],
)
def test_upgrades_pass_where_kubectl_needs_them_and_nowhere_else(
    stack: Stack, protocol: str, method: str, path: str, passes: bool
):
    """Behind a proxy an upgraded connection could ask the API server for anything, two hops on, and nobody asks the
    gate."""
    with stack.connect() as connection:
        head = upgrade(connection, method, path, protocol)
    if passes:
        assert stack.api.seen, head
    else:
        assert head.startswith((b"HTTP/1.1 403 ", b"HTTP/1.1 401 "))
        assert not stack.api.seen


def test_the_refusal_of_an_upgraded_write_is_a_status(stack: Stack):
    head, _, body = raw_write(stack, SCALE, "connection: upgrade\r\nupgrade: websocket\r\n").partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head
    assert json.loads(body)["kind"] == "Status"


def test_what_a_growth_write_says_reaches_the_gate_whole_and_no_secret_with_it(stack: Stack):
    secrets = {
        "authorization": "Bearer s3cret",
        "cookie": "session=s3cret",
        "proxy-authorization": "Basic s3cret",
        "impersonate-user": "s3cret",
        "impersonate-extra-token": "s3cret",
        "x-remote-user": "s3cret",
        "sec-websocket-protocol": "base64url.bearer.authorization.k8s.io.s3cret",
        "x-anything": "s3cret",
    }
    body = bytes(range(256))
    stack.send("PUT", SCALE, content=body, headers=secrets | {"content-type": "Application/JSON; charset=utf-8"})
    [check] = stack.gate.checks
    http = check.attributes.request.http
    assert b"s3cret" not in check.SerializeToString()
    assert (http.method, http.path, http.raw_body, http.body) == ("PUT", SCALE, body, "")
    assert http.headers["content-type"] == "Application/JSON; charset=utf-8"
    assert http.headers["x-envoy-auth-partial-body"] == "false"
    [write] = stack.api.writes()
    assert {name: write.headers[name] for name in secrets} == secrets, "the API server needs them"


def test_a_content_type_sent_twice_is_the_same_to_the_gate_and_to_the_api_server(stack: Stack):
    raw_write(stack, SCALE, "content-type: application/json-patch+json\r\n")
    shown = stack.gate.checks[0].attributes.request.http.headers["content-type"]
    assert shown == stack.api.writes()[0].headers["content-type"]


def test_a_put_without_a_content_type_stays_without_one(stack: Stack):
    stack.raw(f"PUT {SCALE} HTTP/1.1\r\nhost: x\r\n{HEAD}content-length: 2\r\n\r\n{{}}".encode())
    assert "content-type" not in stack.gate.checks[0].attributes.request.http.headers
    assert "content-type" not in stack.api.writes()[0].headers


NOT_GROWTH_TO_THE_GATE = ("status-", "kind-widgets-merge", "put-custom-", "post-gadget")
"""Ids of writes that no gate reads as growth, with reasons: OUT_OF_SIGHT in tests/unit/intake/test_spellings.py."""


def recorded_growth() -> set[tuple[str, str]]:
    """Every way to spell method and target that a real API server was seen to accept a write by."""
    with SPELLINGS.open() as lines:
        cases = [json.loads(line) for line in lines]
    return {
        (case["request"]["method"], case["request"]["target"])
        for case in cases
        if case["changed"] and not case["id"].startswith(NOT_GROWTH_TO_THE_GATE)
    }


def test_no_spelling_that_a_real_api_server_accepts_gets_past_the_gate(stack: Stack):
    """Corpus: tests/data/spellings.jsonl, recorded by tests/controlplane. A gate that refuses all must stop all."""
    stack.gate.answer = authz.deny(403, "no room")
    cases = recorded_growth()
    assert len(cases) > 200
    answers = dict(zip(cases, pipelined(stack, cases), strict=True))
    passed = [case for case, answer in answers.items() if not answer.startswith((b"HTTP/1.1 403", b"HTTP/1.1 400"))]
    assert not passed
    assert not stack.api.seen


def pipelined(stack: Stack, cases: Iterable[tuple[str, str]]) -> Iterator[bytes]:
    """The answers to these writes, over as few connections as Envoy allows."""
    connection = stack.connect()
    for method, target in cases:
        head = f"{method} {target} HTTP/1.1\r\nhost: x\r\n{HEAD}content-length: 2\r\n\r\n"
        connection.sendall(head.encode("utf-8", "surrogateescape") + b"{}")
        answer = read_response(connection)
        yield answer
        if b"connection: close" in answer:
            connection.close()
            connection = stack.connect()
    connection.close()


def test_a_spelling_refused_by_envoy_says_so_to_http2_clients_too(stack: Stack):
    answer = stack.send("PATCH", SCALE.replace("web/scale", "web%2Fscale"), h2=True, headers=PATCH, content=b"{}")
    assert status_of(answer)["reason"] == "BadRequest"
