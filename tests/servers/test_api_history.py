"""Recent decisions and open episodes by the HTTP API."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from openapi_core import Config, OpenAPI
from openapi_core.testing import MockRequest, MockResponse

from extauthz.core.model import Verdict
from extauthz.core.queries import Queries
from extauthz.serve.servers.api.answers import Answers
from extauthz.serve.servers.api.people import People
from extauthz.serve.servers.api.rights import CONTENT_TYPE
from extauthz.serve.servers.api.routes import document, routes
from extauthz.tell.observe.episodes import Recent
from extauthz.tell.observe.observers import Report
from extauthz.testing import Asker, gate, quota, scale, workload
from tests.support.kubecalls import Reviewer

QUOTAS = [
    quota("corp", {"requests.cpu": "20"}),
    quota("acme", {"requests.cpu": "4"}, parent="corp", namespaces={"workspace": "acme"}),
    quota("bolt", {"requests.cpu": "4"}, parent="corp", namespaces={"workspace": "bolt"}),
]
NAMESPACES = {"team-a": {"workspace": "acme"}, "team-b": {"workspace": "bolt"}}
DOCUMENT = OpenAPI.from_dict(document(), config=Config(extra_media_type_deserializers={CONTENT_TYPE: json.loads}))
OWNER, ADMIN = "owner-token", "admin-token"


class World:
    """Writes are decided and noted; people ask."""

    def __init__(self) -> None:
        self.now_s = 1_700_000_000.0
        known = gate(QUOTAS, workload("web", 3), workload("b", 1, namespace="team-b"), namespaces=NAMESPACES)
        self._ask = Asker(known)
        self.recent = Recent(lambda: self.now_s)
        self.answers = Answers(Queries(known.ledger), lambda reading: pytest.fail("decides"), lambda: 0.0, self.recent)
        users = {OWNER: {"username": "olga"}, ADMIN: {"username": "ada", "groups": ["admins"]}}
        allowed = {("olga", "workspacequotas", "acme"), ("olga", "namespaces", "team-a")}
        allowed |= {("admins", "workspacequotas", ""), ("admins", "namespaces", "")}
        self.reviewer = Reviewer(users, allowed)
        self.access = People(self.reviewer, lambda level, event, **fields: None)

    def write(self, name: str, replicas: int, namespace: str = "team-a", user: str = "") -> Verdict:
        decision = self._ask(scale(name, replicas, namespace=namespace))
        self.recent.decided(Report(decision, user, "kubectl/v1"))
        return decision.verdict

    async def get(self, target: str, token: str = ADMIN) -> tuple[int, Any]:
        response = await self.client.get(f"/api/v1/{target}", headers={"authorization": f"Bearer {token}"})
        raw = await response.read()
        path, _, query = target.partition("?")
        args = dict(one.split("=", 1) for one in query.split("&")) if query else {}
        request = MockRequest("http://gate", "get", f"/api/v1/{path}", args=args)
        answer = MockResponse(data=raw, status_code=response.status, content_type=response.content_type)
        DOCUMENT.validate_response(request, answer)
        return response.status, json.loads(raw)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    app = web.Application()
    app.add_routes(routes(lambda: made.answers, made.access))
    async with TestClient(TestServer(app)) as made.client:
        yield made


async def test_a_decision_has_who_what_and_why(world: World):
    assert world.write("web", 9, user="hpa") is Verdict.DENY
    _, page = await world.get("decisions")
    (one,) = page["items"]
    assert (one["namespace"], one["resource"], one["name"]) == ("team-a", "deployments.apps", "web")
    assert (one["time"], one["operation"], one["from"], one["to"]) == ("2023-11-14T22:13:20.000Z", "patch", 3, 9)
    assert (one["verdict"], one["reason"], one["fits"]) == ("deny", "exceeded-quota", 4)
    assert one["refusal"] == "ExceedsHard"
    assert (one["user"], one["userAgent"], one["dryRun"]) == ("hpa", "kubectl/v1", False)
    assert one["shortages"][0]["path"] == ["corp", "acme"]
    assert "acme" in one["sentence"]


async def test_decisions_come_newest_first_in_pages(world: World):
    for replicas in (9, 8, 7):
        world.write("web", replicas)
    _, first = await world.get("decisions?limit=2")
    world.write("web", 6)
    _, second = await world.get(f"decisions?limit=2&continue={first['continue']}")
    assert [one["to"] for page in (first, second) for one in page["items"]] == [9, 8, 7][::-1]
    assert second["continue"] is None


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("namespace=team-b", ["b"]),
        ("quota=acme", ["web", "web"]),
        ("quota=bolt", ["b"]),
        ("quota=corp", ["b", "web", "web"]),
        ("verdict=allow", ["web"]),
        ("verdict=deny&quota=corp", ["b", "web"]),
    ],
)
async def test_decisions_are_filtered(world: World, query: str, found: list[str]):
    world.write("web", 9)
    world.write("web", 4)
    world.write("b", 9, "team-b")
    _, page = await world.get(f"decisions?{query}")
    assert [one["name"] for one in page["items"]] == found


async def test_an_episode_says_since_when_how_often_what_was_wanted_and_why(world: World):
    world.write("web", 9)
    world.now_s += 60
    world.write("web", 8)
    _, page = await world.get("episodes")
    (one,) = page["items"]
    assert (one["since"], one["lastAsked"], one["times"]) == ("2023-11-14T22:13:20.000Z", "2023-11-14T22:14:20.000Z", 2)
    assert (one["wanted"], one["observedReplicas"], one["fits"], one["reason"]) == (8, 3, 4, "exceeded-quota")
    assert one["shortages"][0]["quota"] == "acme"
    assert page["total"] == 1
    assert (await world.get("episodes?quota=bolt"))[1]["items"] == []


async def test_one_sees_those_of_ones_namespaces_and_no_amounts_of_other_quotas(world: World):
    world.write("web", 9)
    world.write("b", 9, "team-b")
    for target in ("decisions", "episodes"):
        _, page = await world.get(target, OWNER)
        assert [one["name"] for one in page["items"]] == ["web"]
        assert (await world.get(f"{target}?namespace=team-b", OWNER))[0] == 403
        assert (await world.get(f"{target}?quota=bolt", OWNER))[0] == 403
    world.reviewer.tokens["other"] = {"username": "olaf"}
    world.reviewer.allowed.add(("olaf", "namespaces", "team-b"))
    for target in ("decisions", "episodes"):
        _, page = await world.get(f"{target}?namespace=team-b", "other")
        (one,) = page["items"]
        assert "bolt" not in json.dumps(one)
        assert one["shortages"][0]["hard"] is None


@pytest.mark.parametrize(
    ("target", "detail"),
    [
        ("decisions?verdict=maybe", "verdict: must be one of allow, deny, unavailable"),
        ("decisions?continue=x", "continue: must be"),
        ("decisions?since=x", "since: no such parameter"),
        ("episodes?verdict=deny", "verdict: no such parameter"),
    ],
)
async def test_bad_questions_get_a_problem_that_names_the_cure(world: World, target: str, detail: str):
    status, problem = await world.get(target)
    assert status == 400
    assert detail in problem["detail"]


async def test_a_filter_by_a_quota_that_is_not_there_is_404(world: World):
    assert (await world.get("decisions?quota=nobody"))[0] == 404
