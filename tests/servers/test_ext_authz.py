"""The ext_authz door over real gRPC, asked by a client of another make: the typed messages of envoy-data-plane."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import grpc
import pytest
from envoy.service.auth.v3 import external_auth_pb2 as upb
from envoy_data_plane.envoy.config.core.v3 import Address, HeaderMap, HeaderValue, Pipe, SocketAddress
from envoy_data_plane.envoy.service.auth.v3 import (
    AttributeContext,
    AttributeContextHttpRequest,
    AttributeContextPeer,
    AttributeContextRequest,
    CheckRequest,
    CheckResponse,
)
from hypothesis import given
from hypothesis import strategies as st

from extauthz.core.model import Decision, Evidence, Request, Shortage, Turn, Unspecified, Verdict, WorkloadRef
from extauthz.serve.servers import ext_authz
from extauthz.serve.service.deciding import terse
from tests.servers.listening import listening

from .running import Running, within

PEER = Address(socket_address=SocketAddress(address="10.0.0.7", port_value=40123))

WEB = WorkloadRef("apps", "deployments", "shop", "web")
SCALE = "/apis/apps/v1/namespaces/shop/deployments/web/scale?dryRun=All"

ALLOWED = Decision("d1", Verdict.ALLOW, "fits", "fits every quota", WEB)
DENIED = Decision("d2", Verdict.DENY, "exceeded-quota", 'deployments.apps "web" is forbidden: no', WEB)
UNKNOWN = Decision("d3", Verdict.UNAVAILABLE, "truncated", "this write was not decided: \ud800", None)

Check = Callable[[AttributeContextHttpRequest], Awaitable[CheckResponse]]


class Script:
    """A ``decide`` that keeps what it was asked and answers what it was told to."""

    def __init__(self) -> None:
        self.answer = ALLOWED
        self.asked: list[Request] = []
        self.takes_s = 0.0

    def __call__(self, request: Request) -> Decision:
        self.asked.append(request)
        time.sleep(self.takes_s)
        return self.answer


@pytest.fixture
def decide() -> Script:
    return Script()


@pytest.fixture
async def address(decide: Script) -> AsyncIterator[str]:
    async with listening(ext_authz.Checks(decide).methods()) as (_, address):
        yield address


@pytest.fixture
async def check(address: str) -> AsyncIterator[Check]:
    async with grpc.aio.insecure_channel(address) as channel:
        call = channel.unary_unary(
            "/envoy.service.auth.v3.Authorization/Check",
            request_serializer=bytes,
            response_deserializer=CheckResponse.parse,
        )

        async def ask(http: AttributeContextHttpRequest) -> CheckResponse:
            attributes = AttributeContext(request=AttributeContextRequest(http=http))
            return await call(CheckRequest(attributes=attributes))

        yield ask


async def test_a_request_arrives_byte_for_byte_as_envoy_saw_it(check: Check, decide: Script) -> None:
    headers = {"content-type": "application/json", "user-agent": "kube-controller-manager"}
    body = bytes(range(256))
    await check(AttributeContextHttpRequest(method="PUT", path=SCALE, headers=headers, raw_body=body))
    assert decide.asked == [Request("PUT", SCALE, headers, body, False)]


async def test_how_long_envoy_waits_is_known_if_it_says_so(address: str, decide: Script) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        call = channel.unary_unary("/envoy.service.auth.v3.Authorization/Check", bytes)
        await call(CheckRequest())
        await call(CheckRequest(), timeout=20)
    unsaid, said = (request.timeout_s for request in decide.asked)
    assert unsaid is None
    assert said is not None
    assert 0 < said < 21


async def test_raw_headers_are_read_where_envoy_sends_those_instead(check: Check, decide: Script) -> None:
    raw = [
        HeaderValue(key="Content-Type", raw_value=b"application/json"),
        HeaderValue(key="user-agent", raw_value=b"a"),
        HeaderValue(key="user-agent", raw_value=b"\xff"),
        HeaderValue(key="authorization", raw_value=b"Bearer secret"),
        HeaderValue(key="x-envoy-auth-partial-body", value="true"),
    ]
    await check(AttributeContextHttpRequest(method="PUT", path="/", header_map=HeaderMap(headers=raw)))
    assert decide.asked[0] == Request("PUT", "/", {"content-type": "application/json", "user-agent": "a,ÿ"}, b"", True)


async def test_a_header_goes_further_as_far_as_it_can_matter(check: Check, decide: Script) -> None:
    headers = {"content-type": f"  application/json;{'x' * 5_000}", "user-agent": "y" * 5_000}
    await check(AttributeContextHttpRequest(method="PUT", path="/", headers=headers))
    (asked,) = decide.asked
    assert {len(value) for value in asked.headers.values()} == {ext_authz.MAX_HEADER}
    assert asked.headers["content-type"].startswith("application/json;")


async def test_no_header_but_those_that_are_needed_passes_the_door(check: Check, decide: Script) -> None:
    secret = ("authorization", "cookie", "impersonate-user", "x-api-key", "x-remote-extra-token", ":authority")
    headers = dict.fromkeys(secret, "secret") | {"content-type": "a/b", "user-agent": "kpa"}
    await check(AttributeContextHttpRequest(method="PUT", path="/", headers=headers))
    assert decide.asked[0].headers == {"content-type": "a/b", "user-agent": "kpa"}


@pytest.mark.parametrize(
    ("http", "truncated"),
    [
        pytest.param({"raw_body": b"{", "headers": {"x-envoy-auth-partial-body": "true"}}, True, id="partial"),
        pytest.param({"raw_body": b"{}", "headers": {"x-envoy-auth-partial-body": "false"}}, False, id="whole"),
        pytest.param({"body": "{}", "headers": {"content-type": "application/json"}}, False, id="json-as-text"),
        pytest.param({"body": "{}"}, False, id="text-without-a-type"),
        pytest.param(
            {"body": "k8s", "headers": {"content-type": "application/vnd.Kubernetes.protobuf"}}, True, id="protobuf"
        ),
        pytest.param({"body": "x", "headers": {"content-type": "application/apply-patch+cbor"}}, True, id="cbor"),
    ],
)
async def test_a_body_that_is_not_whole_is_told_apart(http, truncated, check: Check, decide: Script) -> None:
    await check(AttributeContextHttpRequest(method="PUT", path="/", **http))
    assert decide.asked[0].truncated is truncated
    assert decide.asked[0].body == http.get("raw_body", http.get("body", "").encode())


@pytest.mark.parametrize(
    ("peer", "source"),
    [
        pytest.param({"principal": "spiffe://acme/keda", "address": PEER}, "spiffe://acme/keda", id="mtls-name"),
        pytest.param({"address": PEER}, "10.0.0.7", id="address-without-its-port"),
        pytest.param({"address": Address(pipe=Pipe(path="/run/x.sock"))}, "", id="unix-socket"),
        pytest.param({}, "", id="nothing-known"),
    ],
)
def test_the_source_is_whom_envoy_had_at_the_other_end(peer: dict, source: str) -> None:
    typed = CheckRequest(attributes=AttributeContext(source=AttributeContextPeer(**peer)))
    assert ext_authz.to_request(upb.CheckRequest.FromString(bytes(typed))).source == source


def test_the_requester_is_what_envoys_configuration_says_and_no_header() -> None:
    http = AttributeContextHttpRequest(headers={"extauthz.dev/requester": "forged", "requester": "forged"})
    request = AttributeContextRequest(http=http)
    for extensions, requester in (({}, ""), ({"extauthz.dev/requester": "keda"}, "keda")):
        typed = CheckRequest(attributes=AttributeContext(request=request, context_extensions=extensions))
        assert ext_authz.to_request(upb.CheckRequest.FromString(bytes(typed))).requester == requester


async def test_an_empty_request_is_decided_too(check: Check, decide: Script) -> None:
    await check(AttributeContextHttpRequest())
    assert decide.asked == [Request("", "", {}, b"", False)]


async def test_an_allowed_request_gets_ok_and_the_decision_as_metadata(check: Check) -> None:
    response = await check(AttributeContextHttpRequest(method="PUT", path=SCALE))
    assert response.status is not None
    assert response.status.code == 0
    assert response.ok_response is not None
    assert response.denied_response is None
    assert metadata(response) == {"decision_id": "d1", "verdict": "allow", "reason": "fits"}


@pytest.mark.parametrize(
    ("decision", "code", "status"),
    [
        pytest.param(
            DENIED,
            403,
            {
                "reason": "Forbidden",
                "details": {
                    "name": "web",
                    "group": "apps",
                    "kind": "deployments",
                    "causes": [{"reason": "exceeded-quota", "message": "decision d2"}],
                },
            },
            id="denied",
        ),
        pytest.param(
            UNKNOWN,
            503,
            {
                "reason": "ServiceUnavailable",
                "details": {"causes": [{"reason": "truncated", "message": "decision d3"}]},
            },
            id="unavailable",
        ),
    ],
)
async def test_a_refusal_is_a_status_that_client_go_shows(decision, code, status, check: Check, decide: Script) -> None:
    decide.answer = decision
    response = await check(AttributeContextHttpRequest(method="PUT", path=SCALE))
    denied = response.denied_response
    assert denied is not None
    assert denied.status is not None
    assert (response.status and response.status.code, denied.status.code.value) == (7, code)
    headers = {option.header.key: option.header.value for option in denied.headers if option.header}
    # No retry-after: client-go would try ten times over and block a worker of the autoscaler.
    assert headers == {"content-type": "application/json", "x-extauthz-decision-id": decision.id}
    assert json.loads(denied.body) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": decision.sentence,
        "code": code,
        **status,
    }
    assert metadata(response) == {
        "decision_id": decision.id,
        "verdict": decision.verdict.value,
        "reason": decision.reason,
    }


async def test_a_request_that_envoy_has_given_up_is_not_decided_since_it_is_not_forwarded(
    address: str, decide: Script
) -> None:
    """The first decision holds up the server for longer than the second asker waits."""
    decide.takes_s = 0.6

    def ask(timeout_s: float) -> None:
        with grpc.insecure_channel(address) as channel:
            channel.unary_unary("/envoy.service.auth.v3.Authorization/Check", bytes)(CheckRequest(), timeout=timeout_s)

    def ask_when_it_is_busy() -> None:
        while not decide.asked:
            time.sleep(0.01)
        ask(0.2)

    first, second = await asyncio.gather(
        asyncio.to_thread(ask, 5), asyncio.to_thread(ask_when_it_is_busy), return_exceptions=True
    )
    assert first is None
    assert isinstance(second, grpc.RpcError)
    await asyncio.sleep(0.1)
    assert len(decide.asked) == 1


async def test_bytes_that_are_no_check_request_are_an_error_and_no_decision(address: str, decide: Script) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        call = channel.unary_unary("/envoy.service.auth.v3.Authorization/Check")
        with pytest.raises(grpc.aio.AioRpcError):
            await call(b"\xff\xff")
    assert decide.asked == []


@pytest.mark.parametrize("verdict", [Verdict.DENY, Verdict.UNAVAILABLE])
def test_an_answer_is_bounded_whatever_the_client_sent(verdict: Verdict) -> None:
    """A JSON string may take twelve characters for one that was sent."""
    long = "\U0010ffff" * 2_900_000
    encoded = ext_authz.encoded(
        Decision("d", verdict, "r", f"{long} is forbidden", WorkloadRef(long, long, long, long))
    )
    assert len(encoded) < 12 * (1024 + 3 * 256) + 1000
    body = json.loads(upb.CheckResponse.FromString(encoded).denied_response.body)
    assert len(body["message"]) == 1024
    assert body["message"].endswith("…")
    assert [len(body["details"][key]) for key in ("name", "group", "kind")] == [256, 256, 256]


@given(
    decision_id=st.one_of(st.text(st.characters(codec="ascii"), min_size=16, max_size=16), st.text(max_size=40)),
    verdict=st.sampled_from(Verdict),
    reason=st.sampled_from(["fits", "zero", "no-growth"]),
)
def test_what_is_sent_is_always_the_whole_response(decision_id: str, verdict: Verdict, reason: str) -> None:
    decision = Decision(decision_id, verdict, reason, "a sentence", WEB)
    assert upb.CheckResponse.FromString(ext_authz.encoded(decision)) == ext_authz.to_response(decision)


def metadata(response: CheckResponse) -> dict[str, str]:
    assert response.dynamic_metadata is not None
    return response.dynamic_metadata.to_dict()


# Terse refusals: no quota and no number for whoever may reach Envoy.


SECRET = 'deployments.apps "web" is forbidden: exceeded workspace quota: secret-corp, used: pods=3, limited: pods=4'
SHORT = Shortage("secret-corp", ("secret-corp",), "pods", 2, 3, 0, 4)
REFUSED = Decision("d7", Verdict.DENY, "exceeded-quota", SECRET, WEB, evidence=Evidence((SHORT,)))


def decided(decision: Decision) -> Decision:
    found = terse(lambda request: decision)(Request("PATCH", "/", {}, b""))
    assert isinstance(found, Decision)
    return found


@pytest.mark.parametrize(
    ("verdict", "ref", "sentence"),
    [
        (Verdict.DENY, WEB, 'deployments.apps "web" is forbidden: exceeded a workspace quota (decision d7)'),
        (
            Verdict.UNAVAILABLE,
            None,
            "this write was not decided by the quota gate; it is safe to try again (decision d7)",
        ),
    ],
)
def test_a_refusal_names_no_quota_and_no_number(verdict: Verdict, ref: WorkloadRef | None, sentence: str):
    _, body = ext_authz.of(decided(REFUSED._replace(verdict=verdict, ref=ref)))
    assert json.loads(body)["message"] == sentence
    assert "secret-corp" not in body


def test_an_owner_who_has_to_say_more_is_told_so_without_names():
    silent = (Unspecified("secret-corp", ("secret-corp",), "requests.cpu", ("secret-proxy",)),)
    said = decided(REFUSED._replace(reason="must-specify", evidence=Evidence(unspecified=silent))).sentence
    assert said.startswith('deployments.apps "web" is forbidden: its containers must specify')
    assert "secret" not in said


def test_whose_turn_has_not_come_reads_neither_a_quota_nor_a_place():
    evidence = Evidence(turn=Turn("secret-corp", 2, 15.0))
    said = decided(REFUSED._replace(reason="not-its-turn", evidence=evidence)).sentence
    assert said == 'deployments.apps "web" is forbidden: its turn for a workspace quota has not come (decision d7)'


def test_what_is_allowed_stays_as_it_is():
    allowed = REFUSED._replace(verdict=Verdict.ALLOW)
    assert decided(allowed) is allowed


async def test_a_decision_that_comes_later_is_shortened_too():
    async def later() -> Decision:
        return REFUSED

    found = await terse(lambda request: later())(Request("PATCH", "/", {}, b""))
    assert "secret-corp" not in found.sentence


def test_a_long_name_does_not_hide_the_id():
    assert decided(REFUSED._replace(ref=WEB._replace(name="n" * 10**6))).sentence.endswith(" (decision d7)")


@pytest.mark.parametrize(("flags", "told"), [((), True), (("--refusals", "terse"), False)], ids=["full", "terse"])
def test_the_gate_tells_clients_what_the_setting_says_and_the_log_everything(tmp_path: Path, flags, told: bool):
    with Running(tmp_path, *flags) as gate:
        answer = gate.check(9)
        assert answer.denied_response is not None
        assert ("acme" in answer.denied_response.body) is told
        assert within(5, lambda: gate.events("decision"))
        assert "acme" in gate.events("decision")[0]["sentence"]
