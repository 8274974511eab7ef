"""Questions that their author made to cost much: bounded in work, read once, one after the other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from extauthz.core.queries import Queries
from extauthz.serve.servers.api import questions
from extauthz.serve.servers.api import routes as module
from extauthz.serve.servers.api.answers import Answers
from extauthz.serve.servers.api.rights import ThisHost
from extauthz.serve.servers.api.routes import MAX_BODY_BYTES, routes
from extauthz.serve.servers.bodies import Share
from extauthz.testing import gate, quota, workload
from tests.fuzz.measure import LOOP, fastest, floor_s

Body = dict[str, Any]


def of_pod(**pod: object) -> Body:
    made = workload("new", 1)
    return {"object": made | {"spec": {"selector": {}, "template": {"metadata": {"labels": {}}, "spec": pod}}}}


def containers(size: int) -> list[Body]:
    return [{"name": f"c{n}", "resources": {"requests": {"cpu": "1"}}} for n in range(size)]


def volumes(size: int) -> list[Body]:
    storage = {"resources": {"requests": {"storage": "1"}}}
    return [{"name": f"v{n}", "ephemeral": {"volumeClaimTemplate": {"spec": storage}}} for n in range(size)]


SHAPES: dict[str, Callable[[int], Body]] = {
    "containers": lambda size: of_pod(containers=containers(size)),
    "empty containers": lambda size: of_pod(containers=[{}] * size),
    "amounts": lambda size: of_pod(containers=[{"resources": {"limits": {f"r.a/{n}": "1" for n in range(size)}}}]),
    "volumes": lambda size: of_pod(containers=[{}], volumes=volumes(size)),
    "lists": lambda size: of_pod(containers=[{}], x=[[]] * size),
    "texts": lambda size: of_pod(containers=[{}], x="x" * size),
    "workloads": lambda size: {"workloads": [{"namespace": "team-a"}] * min(size, 100)},
}


def largest(shape: Callable[[int], Body]) -> bytes:
    """The largest body of a shape that is decoded."""
    size = 1
    while size < MAX_BODY_BYTES and len(raw := json.dumps(shape(size * 2)).encode()) <= MAX_BODY_BYTES and is_read(raw):
        size *= 2
    return json.dumps(shape(size)).encode()


def is_read(raw: bytes) -> bool:
    try:
        module._decoded(raw)
    except module.Problem:
        return False
    return True


@pytest.fixture
def answers() -> Answers:
    known = gate([quota("acme", {"pods": "10", "requests.cpu": "10"})], workload("web", 2))
    return Answers(Queries(known.ledger), lambda reading: known.decide(reading, "q", 0.0, charge=False), lambda: 0.0)


def turns(answers: Answers, raw: bytes) -> list[Callable[[], object]]:
    """What is worked out for a question, turn by turn."""
    body = module._decoded(raw)
    found: list[Callable[[], object]] = [lambda: module._decoded(raw)]
    if questions.batch(body) is not None:
        return [*found, lambda: questions.batch(body)]
    manifest = questions.manifest(body)
    return [*found, lambda: questions.manifest(body), lambda: answers.headroom_of(manifest)]


def problem_or(work: Callable[[], object]) -> None:
    with suppress(module.Problem):
        work()


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_costliest_question_holds_the_loop_no_longer_than_a_body_may(answers: Answers, shape):
    for turn in turns(answers, largest(shape)):
        assert fastest(lambda turn=turn: problem_or(turn), 5) < LOOP * floor_s()


@pytest.mark.parametrize("size", [2_000, 20_000])
async def test_a_body_of_too_many_values_is_refused_before_it_is_decoded(answers: Answers, size: int):
    app = web.Application()
    app.add_routes(routes(lambda: answers, ThisHost()))
    async with TestClient(TestServer(app)) as client:
        response = await client.post("/api/v1/headroom", data=json.dumps(SHAPES["lists"](size), separators=(",", ":")))
        assert response.status == 413
        assert "write less at once" in (await response.json())["detail"]


async def test_an_object_is_read_once_however_often_it_is_weighed(answers: Answers, monkeypatch):
    times = 0

    def counted(*given: Any) -> Any:
        nonlocal times
        times += 1
        return read(*given)

    read = questions.read_manifest
    monkeypatch.setattr(questions, "read_manifest", counted)
    answers.headroom_of(questions.manifest(of_pod(containers=containers(3))))
    assert times == 1


async def test_all_that_is_worked_out_for_a_question_is_in_a_turn(answers: Answers, monkeypatch):
    """While another has the loop's share, nothing of a question is begun, and it is answered once it is its turn."""
    leave: list[Callable[[], None]] = []
    share = Share(later=lambda _, call: leave.append(call))
    monkeypatch.setattr(module, "Share", lambda: share)
    app = web.Application()
    app.add_routes(routes(lambda: answers, ThisHost()))
    await share.of("somebody else", lambda: None)
    async with TestClient(TestServer(app)) as client:
        for method, path, body in (
            ("GET", "/api/v1/quotas", None),
            ("GET", "/api/v1/decisions", None),
            ("POST", "/api/v1/headroom", of_pod(containers=containers(3))),
            ("POST", "/api/v1/headroom", {"workloads": []}),
            ("POST", "/api/v1/decisions", {"namespace": "team-a", "resource": "deployments.apps", "name": "web"}),
        ):
            response = asyncio.create_task(client.request(method, path, json=body))
            await asyncio.sleep(0.05)
            assert not response.done()
            while not response.done():
                if leave:
                    leave.pop()()
                await asyncio.sleep(0)
            assert (await response).status in (200, 400)
