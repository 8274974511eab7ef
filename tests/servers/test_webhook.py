"""The admission webhook's protocol, in front of a gate of the test's own."""

from __future__ import annotations

import asyncio
import base64
import gzip
import io
import json
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from extauthz.core.intake import admission
from extauthz.core.intake.admission import MAX_REVIEW_BYTES, Review
from extauthz.core.model import Decision, Question, Request, Unreadable, Verdict, WorkloadRef, Write
from extauthz.core.objects.custom import Shape, Shapes
from extauthz.serve.servers import ext_authz, webhook
from extauthz.serve.servers.ext_proc import Lowered
from extauthz.serve.service import reaching
from extauthz.serve.service.deciding import terse
from extauthz.testing import admission as review_of
from extauthz.testing import scale_object, workload

WEB = WorkloadRef("apps", "deployments", "team-a", "web")
ALLOWED = Decision("d1", Verdict.ALLOW, "fits", "fits every quota", WEB)
DENIED = Decision("d1", Verdict.DENY, "exceeded-quota", 'deployments.apps "web" is forbidden: too much', WEB)
UNKNOWN = Decision("d1", Verdict.UNAVAILABLE, "stale", "was not decided", WEB)


SHAPES = {("example.dev", "gadgets"): {"v1": Shape(("spec", "size", "count"))}}


class Gate:
    """Answers with ``decision``, and remembers what it was asked."""

    def __init__(self, decision: Decision = ALLOWED) -> None:
        self.decision = decision
        self.asked: list[Question] = []
        self.later = False
        self.busy: Unreadable | None = None
        self.reading = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()

    def decide(self, question: Question) -> Decision | Awaitable[Decision]:
        self.asked.append(question)
        if isinstance(question.reading, Unreadable):
            return UNKNOWN._replace(sentence=f"cannot read it: {question.reading.code}")
        return self._later() if self.later else self.decision

    async def _later(self) -> Decision:
        await asyncio.sleep(0)
        return self.decision

    async def read_aside(self, body: bytes, shapes: Shapes, source: str | None) -> Review | Unreadable:
        self.reading.set()
        await self.go_on.wait()
        return self.busy or admission.read(body, shapes=shapes)

    # What the mutating hook asks.

    lowered: Lowered | None = None
    lowering: Question | None = None

    async def lower(self, question: Request | Question) -> Lowered | None:
        assert isinstance(question, Question), "no proxy asks"
        self.lowering = question
        return self.lowered


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
async def client(gate: Gate) -> AsyncIterator[TestClient]:
    app = webhook.Webhook(gate.decide, gate.read_aside, gate.lower, SHAPES).application()
    server = TestServer(app)
    await server.start_server(auto_decompress=False)
    async with TestClient(server) as made:
        yield made


ODD_TIMEOUTS = ["", "0s", "31s", "2", "2m", "-2s", "1e1s", "٣s", "2s2s"]
"""No API server says so."""

UPDATE = review_of(scale_object(replicas=9), scale_object(version="7"), subresource="scale")
LONG = review_of(workload(annotations={"x": "y" * 20_000}))


async def post(
    client: TestClient, review: Any, path: str = "/validate", waits: str = "2s", **more: Any
) -> tuple[int, Any]:
    body = review if isinstance(review, bytes | io.BytesIO) else json.dumps(review).encode()
    async with client.post(f"{path}?timeout={waits}", data=body, **more) as response:
        text = await response.text()
        is_json = response.content_type == "application/json"
        return response.status, json.loads(text) if is_json else text


@pytest.mark.parametrize(("waits", "known_s"), [("1s", 1.0), ("30s", 30.0), *((text, None) for text in ODD_TIMEOUTS)])
async def test_how_long_the_api_server_waits_is_known(
    client: TestClient, gate: Gate, waits: str, known_s: float | None
) -> None:
    await post(client, UPDATE, waits=waits)
    (question,) = gate.asked
    assert question.timeout_s == known_s


async def test_what_is_allowed_is_answered_with_its_uid(client: TestClient, gate: Gate) -> None:
    assert await post(client, UPDATE) == (
        200,
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": {"uid": UPDATE["request"]["uid"], "allowed": True},
        },
    )
    (question,) = gate.asked
    assert question.user == "system:serviceaccount:kube-system:horizontal-pod-autoscaler"
    assert isinstance(question.reading, Write)
    assert question.reading.precondition.resource_version == "7"


async def test_a_trial_is_refused_by_whichever_gate_is_reached_and_is_no_decision(client, gate) -> None:
    ledgers = {"group": "extauthz.dev", "version": "v1alpha1", "resource": "workspaceledgers"}
    trial = review_of(reaching.TRIAL, resource=ledgers, dryRun=True)
    status, answer = await post(client, trial)
    assert (status, answer["response"]["uid"], answer["response"]["allowed"]) == (200, trial["request"]["uid"], False)
    assert answer["response"]["status"]["message"] == webhook.REACHED
    assert gate.asked == []


@pytest.mark.parametrize(
    ("decision", "code", "reason"), [(DENIED, 403, "Forbidden"), (UNKNOWN, 503, "ServiceUnavailable")]
)
async def test_a_refusal_has_the_same_status_as_on_the_way_of_envoy(client, gate, decision, code, reason) -> None:
    gate.decision = decision
    answered, answer = await post(client, UPDATE)
    assert answered == 200
    told = answer["response"]["status"]
    assert not answer["response"]["allowed"]
    assert (told["code"], told["reason"], told["message"]) == (code, reason, decision.sentence)
    assert {"kind": "Status", "apiVersion": "v1"} | told == json.loads(ext_authz.of(decision)[1])
    assert told["details"]["causes"] == [{"reason": decision.reason, "message": "decision d1"}]


async def test_a_decision_that_waits_for_something_is_waited_for(client: TestClient, gate: Gate) -> None:
    gate.later, gate.decision = True, DENIED
    assert (await post(client, UPDATE))[1]["response"]["allowed"] is False


async def test_a_long_review_is_read_aside(client: TestClient, gate: Gate) -> None:
    assert (await post(client, LONG))[1]["response"]["allowed"]
    assert gate.reading.is_set()
    reading = gate.asked[0].reading
    assert isinstance(reading, Write)
    assert reading == admission.read(json.dumps(LONG).encode()).question.reading


@pytest.mark.parametrize(
    ("body", "code"),
    [(b"{", "json-syntax"), (b"{}", "not-an-admission-review"), (gzip.compress(b"{}", mtime=0), "invalid-utf8")],
)
async def test_what_is_no_review_is_a_bad_request_with_a_sentence_and_is_told(client, gate, body, code) -> None:
    headers = {"content-encoding": "gzip"} if code == "invalid-utf8" else {}
    assert await post(client, body, headers=headers) == (400, f"cannot read it: {code}\n")
    assert [question.reading.code for question in gate.asked] == [code]


async def test_what_is_not_read_for_want_of_time_can_be_tried_again(client: TestClient, gate: Gate) -> None:
    gate.busy = Unreadable("too-many-bodies", "try again")
    assert (await post(client, LONG))[0] == 503


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "MAX_HELD_BYTES", 30_000)


async def test_bodies_are_bounded_each_and_all_together(little: None, client: TestClient, gate: Gate) -> None:
    assert (await post(client, io.BytesIO(b" " * (MAX_REVIEW_BYTES + 1))))[0] == 413
    gate.go_on.clear()
    first = asyncio.ensure_future(post(client, LONG))
    await gate.reading.wait()
    assert await post(client, LONG) == (503, "too many bodies are being read; try again in a second\n")
    assert (await post(client, UPDATE))[0] == 200
    assert (await post(client, LONG))[0] == 503, "the short one has given back what it took, and no more"
    gate.go_on.set()
    assert (await first)[0] == 200
    assert (await post(client, LONG))[0] == 200


async def test_a_body_of_unknown_length_counts_as_it_arrives(little: None, client: TestClient, gate: Gate) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield b" " * 10_000

    async with client.post("/validate", data=pieces()) as response:
        assert response.status == 503


async def test_a_body_that_does_not_come_is_not_waited_for(client: TestClient, gate: Gate, monkeypatch) -> None:
    monkeypatch.setattr(webhook, "RECEIVED_WITHIN_S", 0.01)

    reader, writer = await asyncio.open_connection(client.host, client.port)
    writer.write(b"POST /validate HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{")
    assert (await reader.readline()).startswith(b"HTTP/1.1 408 ")
    writer.close()
    assert gate.asked == []


async def test_the_mutating_hook_lowers_the_count_and_warns(client: TestClient, gate: Gate) -> None:
    gate.lowered = Lowered(4, "replicas lowered from 9 to 4")
    status_, answer = await post(client, UPDATE, "/mutate")
    response = answer["response"]
    assert (status_, response["uid"], response["allowed"]) == (200, UPDATE["request"]["uid"], True)
    assert (response["patchType"], response["warnings"]) == ("JSONPatch", ["replicas lowered from 9 to 4"])
    assert json.loads(base64.b64decode(response["patch"])) == [{"op": "replace", "path": "/spec/replicas", "value": 4}]
    assert gate.asked == [], "it decides nothing"
    assert gate.lowering is not None
    assert gate.lowering.user.endswith("horizontal-pod-autoscaler")


async def test_of_a_custom_resource_it_lowers_the_count_where_that_is(client: TestClient, gate: Gate) -> None:
    gate.lowered = Lowered(4, "replicas lowered from 9 to 4")
    gizmos = [{"metadata": {"name": "gizmo", "namespace": "team-a"}, "spec": {"size": {"count": n}}} for n in (9, 3)]
    asked = review_of(*gizmos)
    asked["request"]["resource"] = {"group": "example.dev", "version": "v1", "resource": "gadgets"}
    _, answer = await post(client, asked, "/mutate")
    (operation,) = json.loads(base64.b64decode(answer["response"]["patch"]))
    assert operation == {"op": "replace", "path": "/spec/size/count", "value": 4}


async def test_what_needs_no_lowering_is_left_as_it_is(client: TestClient, gate: Gate) -> None:
    _, answer = await post(client, LONG, "/mutate")
    assert answer["response"] == {"uid": LONG["request"]["uid"], "allowed": True}
    assert gate.reading.is_set(), "a long one is read aside here too"


async def test_the_mutating_hook_answers_what_is_no_review_by_the_status_alone(client: TestClient, gate: Gate) -> None:
    assert (await post(client, b"{", "/mutate"))[0] == 400
    gate.busy = Unreadable("too-many-bodies", "try again")
    assert await post(client, LONG, "/mutate") == (503, "cannot read it: try again\n")
    assert gate.asked == [], "only the validating hook decides"


@pytest.mark.parametrize(
    ("method", "path", "code"), [("GET", "/validate", 405), ("GET", "/mutate", 405), ("POST", "/", 404)]
)
async def test_nothing_else_is_served(client: TestClient, method: str, path: str, code: int) -> None:
    async with client.request(method, path) as response:
        assert response.status == code


async def test_refusals_may_be_terse() -> None:
    gate = Gate(DENIED)
    found = terse(gate.decide)(Question(Unreadable("x", "y")))
    assert isinstance(found, Decision)
    assert found.sentence == (
        'deployments.apps "web" was not decided by the quota gate; it is safe to try again (decision d1)'
    )
