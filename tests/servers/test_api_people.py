"""Who may ask the HTTP API from elsewhere, and what they see: by the stand-in of an API server's reviews."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from extauthz.core.queries import Queries
from extauthz.inputs.kube.connection import ApiError, Unreachable
from extauthz.serve.rpc.places import Turns
from extauthz.serve.servers.api import people as module
from extauthz.serve.servers.api.answers import Answers
from extauthz.serve.servers.api.people import KEPT_S, REFUSED_KEPT_S, People
from extauthz.serve.servers.api.rights import Access, Rights
from extauthz.serve.servers.api.routes import routes
from extauthz.testing import Asker, gate, quota, scale, workload
from tests.support.kubecalls import Reviewer

QUOTAS = [
    quota("corp", {"requests.cpu": "20"}),
    quota("acme", {"requests.cpu": "10"}, parent="corp", namespaces={"workspace": "acme"}),
    quota("bolt", {"requests.cpu": "10"}, parent="corp", namespaces={"workspace": "bolt"}),
]
NAMESPACES = {"team-a": {"workspace": "acme"}, "team-b": {"workspace": "acme"}, "team-c": {"workspace": "bolt"}}
WEB = "/api/v1/namespaces/team-a/workloads/deployments.apps/web"
NAMED = {"namespace": "team-a", "resource": "deployments.apps", "name": "web"}
OWNER = "owner-token"
ADMIN = "admin-token"


class World:
    """The API with people, and a log."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.lines: list[dict[str, Any]] = []
        everything = {("admins", "workspacequotas", ""), ("admins", "namespaces", "")}
        own = {("olga", "workspacequotas", "acme"), ("olga", "namespaces", "team-a")}
        self.reviewer = Reviewer(
            {OWNER: {"username": "olga", "groups": ["owners"]}, ADMIN: {"username": "ada", "groups": ["admins"]}},
            everything | own,
        )
        objects = [workload("web", 3), workload("b", 1, namespace="team-b"), workload("c", 1, namespace="team-c")]
        known = gate(QUOTAS, *objects, namespaces=NAMESPACES)
        self.write = Asker(known)
        decide = lambda reading: known.decide(reading, "q", 0.0, charge=False)  # noqa: E731
        self.answers = Answers(Queries(known.ledger), decide, lambda: 0.0)
        covers = Queries(known.ledger).own_namespaces
        self.access: Access = People(self.reviewer, self.tell, lambda: self.now_s, covers=covers)

    async def rights(self, request: web.Request) -> Rights:
        return await self.access.rights(request)

    def answered(self, request: web.Request, rights: Rights | None, status: int) -> None:
        self.access.answered(request, rights, status)

    def tell(self, level: str, event: str, **fields: object) -> None:
        self.lines.append({"level": level, "event": event, **fields})

    async def ask(self, target: str, token: str | None = OWNER, body: Any = None) -> tuple[int, Any]:
        headers = {"authorization": f"Bearer {token}"} if token is not None else {}
        data = json.dumps(body) if body is not None else None
        response = await self.client.request("POST" if body is not None else "GET", target, headers=headers, data=data)
        return response.status, await response.json(content_type=None)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    app = web.Application()
    app.add_routes(routes(lambda: made.answers, made))
    async with TestClient(TestServer(app)) as made.client:
        yield made


@pytest.mark.parametrize("token", [None, "", "worthless", "t\u00f6ken"])
async def test_who_shows_no_good_token_is_let_in_nowhere(world: World, token: str | None):
    for target in ("/api/v1/quotas", "/api/v1/openapi.json", WEB):
        status, problem = await world.ask(target, token)
        assert (status, problem["title"]) == (401, "Unauthorized")
    response = await world.client.get("/api/v1/quotas")
    assert response.headers["WWW-Authenticate"] == "Bearer"


async def test_a_list_of_quotas_has_those_that_one_may_get(world: World):
    for token, names in ((OWNER, ["acme"]), (ADMIN, ["corp", "acme", "bolt"])):
        status, page = await world.ask("/api/v1/quotas", token)
        assert (status, [one["name"] for one in page["items"]]) == (200, names)
    assert (await world.ask("/api/v1/quotas?below=acme"))[0] == 200
    assert (await world.ask("/api/v1/quotas?continue=acme"))[1]["items"] == []


@pytest.mark.parametrize(
    "target",
    [
        "/api/v1/quotas/{}",
        "/api/v1/quotas/{}/workloads",
        "/api/v1/quotas?below={}",
        "/api/v1/quotas?continue={}",
        "/api/v1/pendingwrites?quota={}",
    ],
)
async def test_whether_a_quota_exists_is_not_told_to_who_may_not_get_it(world: World, target: str):
    answers = []
    for name in ("bolt", "nobody"):
        status, problem = await world.ask(target.format(name))
        answers.append((status, problem["detail"].replace(name, "X")))
    assert answers[0] == answers[1]
    assert answers[0][0] in (403, 410)


@pytest.mark.parametrize("rest", ["", "/headroom"])
async def test_whether_a_workload_exists_is_not_told_either(world: World, rest: str):
    answers = [await world.ask(WEB.replace("team-a", name) + rest) for name in ("team-b", "nowhere")]
    assert [status for status, _ in answers] == [403, 403]
    assert (await world.ask(WEB + rest))[0] == 200
    assert (await world.ask(WEB.replace("team-a", "nowhere") + rest, ADMIN))[0] == 404


async def test_workloads_are_those_of_namespaces_that_one_may_get(world: World):
    for token, names in ((OWNER, ["web"]), (ADMIN, ["web", "b"])):
        _, page = await world.ask("/api/v1/quotas/acme/workloads", token)
        assert ([one["name"] for one in page["items"]], page["total"]) == (names, len(names))


async def test_pending_writes_are_too(world: World):
    world.write(scale("web", 4))
    world.write(scale("b", 2, namespace="team-b"))
    for token, names in ((OWNER, ["web"]), (ADMIN, ["web", "b"])):
        _, page = await world.ask("/api/v1/pendingwrites", token)
        assert ([one["name"] for one in page["items"]], page["total"]) == (names, len(names))


async def test_a_quota_that_one_may_not_get_binds_without_name_and_amounts(world: World):
    world.write(scale("c", 10, namespace="team-c"))
    world.reviewer.allowed.add(("olga", "namespaces", "team-c"))
    target = WEB.replace("team-a", "team-c").replace("web", "c") + "/headroom"
    _, found = await world.ask(target)
    assert found["replicas"] == 10
    assert found["bound"]["quota"] is None
    assert (found["bound"]["path"], found["bound"]["hard"], found["bound"]["requested"]) == ([], None, "1")
    assert (await world.ask(target, ADMIN))[1]["bound"]["quota"] == "bolt"
    _, decided = await world.ask("/api/v1/decisions", body=NAMED | {"namespace": "team-c", "name": "c", "replicas": 99})
    assert decided["verdict"] == "deny"
    assert "bolt" not in json.dumps(decided)
    silent = {"object": workload("new", 1, {}, namespace="team-c")}
    status, problem = await world.ask("/api/v1/headroom", body=silent)
    assert (status, "bolt" in problem["detail"]) == (409, False)
    assert "bolt" in (await world.ask("/api/v1/headroom", ADMIN, silent))[1]["detail"]


async def test_what_one_would_get_is_answered_within_ones_namespaces(world: World):
    assert (await world.ask("/api/v1/decisions", body=NAMED | {"replicas": 4}))[1]["verdict"] == "allow"
    assert (await world.ask("/api/v1/decisions", body=NAMED | {"replicas": 4, "namespace": "team-b"}))[0] == 403
    other = {"object": workload("new", 1, namespace="team-b")}
    for question in ("decisions", "headroom"):
        assert (await world.ask(f"/api/v1/{question}", body=other))[0] == 403, question
    refs = [NAMED, NAMED | {"namespace": "team-b", "name": "b"}]
    _, page = await world.ask("/api/v1/headroom", body={"workloads": refs})
    assert page["items"][0]["replicas"] == 9
    assert page["items"][1] == {"error": 'workloads[1]: you may not get namespace "team-b"'}


async def test_answers_of_the_api_server_are_kept_for_a_while(world: World):
    for _ in range(3):
        await world.ask("/api/v1/quotas/acme")
        await world.ask("/api/v1/quotas", "worthless")
    assert world.reviewer.reviews("TokenReview") == 2
    assert world.reviewer.reviews("SubjectAccessReview") == 2, "all of them, and this one"
    world.reviewer.tokens.clear()
    world.reviewer.tokens["worthless"] = {"username": "olga"}
    world.now_s += REFUSED_KEPT_S
    assert (await world.ask("/api/v1/quotas/acme", "worthless"))[0] == 200
    assert (await world.ask("/api/v1/quotas/acme"))[0] == 200
    world.now_s += KEPT_S - REFUSED_KEPT_S
    assert (await world.ask("/api/v1/quotas/acme"))[0] == 401


async def test_rights_that_are_taken_away_end_soon(world: World):
    assert (await world.ask("/api/v1/quotas/acme"))[0] == 200
    world.reviewer.allowed.clear()
    world.now_s += KEPT_S
    assert (await world.ask("/api/v1/quotas/acme"))[0] == 403


async def test_one_token_is_judged_once_however_many_ask_with_it(world: World, monkeypatch: pytest.MonkeyPatch):
    world.reviewer.gate = asyncio.Event()
    arrived, rights = 0, world.access.rights

    async def counted(request: web.Request) -> Rights:
        nonlocal arrived
        arrived += 1
        if arrived == 20:
            asyncio.get_running_loop().call_soon(world.reviewer.gate.set)
        return await rights(request)

    monkeypatch.setattr(world.access, "rights", counted)
    answers = await asyncio.gather(*(world.ask("/api/v1/quotas/acme") for _ in range(20)))
    assert {status for status, _ in answers} == {200}
    assert world.reviewer.reviews("TokenReview") == 1


async def test_strangers_cannot_flood_the_api_server_with_reviews(world: World, monkeypatch: pytest.MonkeyPatch):
    await world.ask("/api/v1/quotas/acme")
    await world.ask("/api/v1/quotas/acme", ADMIN)
    monkeypatch.setattr(world.access._persons, "_turns", Turns(10, module.AT_ONCE))
    world.reviewer.gate = asyncio.Event()
    strangers = [asyncio.create_task(world.ask("/api/v1/quotas/acme", f"guess-{n}")) for n in range(20)]
    async with asyncio.timeout(10):
        (first, *_), _ = await asyncio.wait(strangers, return_when=asyncio.FIRST_COMPLETED)
    status, problem = first.result()
    assert (status, "try again" in problem["detail"]) == (503, True)
    assert (await world.ask("/api/v1/quotas/acme"))[0] == 200, "who is known goes on"
    world.reviewer.gate.set()
    statuses = [status for status, _ in await asyncio.gather(*strangers)]
    assert sorted(statuses) == [401] * (10 + module.AT_ONCE) + [503] * 2
    assert world.reviewer.most_under_way == module.AT_ONCE


@pytest.mark.parametrize("fault", [Unreachable("https://api: no"), ApiError(403, "Forbidden", "tokenreviews: no")])
async def test_while_the_api_server_gives_no_answer_nobody_is_let_in_and_nobody_is_told_no(
    world: World, fault: ApiError | Unreachable
):
    world.reviewer.fault = fault
    for token in (OWNER, "worthless"):
        status, problem = await world.ask("/api/v1/quotas/acme", token)
        assert (status, problem["status"]) == (503, 503)
        assert "tokenreviews" not in problem["detail"]
    assert [one["why"] for one in world.lines if one["event"] == "api-not-judged"] == [str(fault)]
    world.reviewer.fault = None
    assert (await world.ask("/api/v1/quotas/acme"))[0] == 200, "a failure is not kept"
    assert "api-judged" in {one["event"] for one in world.lines}


async def test_the_log_says_who_asked_what_and_never_the_token(world: World):
    await world.ask("/api/v1/quotas/acme?limit=3")
    await world.ask("/api/v1/quotas/bolt?token=" + OWNER)
    first, second = world.lines
    assert first == {
        "level": "info",
        "event": "api",
        "user": "olga",
        "method": "GET",
        "path": "/api/v1/quotas/acme",
        "status": 200,
    }
    assert second["status"] == 403
    assert OWNER not in json.dumps(world.lines)
    assert OWNER not in repr(vars(world.access._persons))


async def test_strangers_get_a_line_a_second_at_most(world: World):
    for _ in range(3):
        await world.ask("/api/v1/quotas", None)
    world.now_s += 1
    await world.ask("/api/v1/quotas", None)
    assert [(one["event"], one["status"], one["times"]) for one in world.lines] == [
        ("api-refused", 401, 1),
        ("api-refused", 401, 3),
    ]


async def test_a_question_about_too_many_names_is_refused_with_the_cure(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MOST_JUDGED", 2)
    status, problem = await world.ask("/api/v1/quotas")
    assert (status, "?below=NAME" in problem["detail"]) == (403, True)
    assert (await world.ask("/api/v1/quotas?below=acme"))[0] == 200
    assert (await world.ask("/api/v1/quotas", ADMIN))[0] == 200


async def test_with_an_audience_only_tokens_for_it_are_good(world: World):
    world.access = People(world.reviewer, world.tell, lambda: world.now_s, "extauthz")
    assert (await world.ask("/api/v1/quotas"))[0] == 401, "it is for the API server"
    world.now_s += REFUSED_KEPT_S + 1
    world.reviewer.audiences = {OWNER: "extauthz"}
    assert (await world.ask("/api/v1/quotas"))[0] == 200


async def test_without_an_audience_tokens_for_others_are_bad(world: World):
    world.reviewer.audiences = {OWNER: "somebody else"}
    assert (await world.ask("/api/v1/quotas"))[0] == 401


async def test_a_server_that_knows_nothing_of_audiences_lets_nobody_in_by_one(world: World):
    world.reviewer.audiences = None
    world.access = People(world.reviewer, world.tell, lambda: world.now_s, "extauthz")
    assert (await world.ask("/api/v1/quotas"))[0] == 401


async def test_an_owner_by_a_role_binding_in_a_namespace_sees_the_quotas_that_cover_it(world: World):
    """``view`` has that right by aggregation. What covers other namespaces, and ancestors, stay hidden."""
    world.reviewer.tokens["nina-token"] = {"username": "nina", "groups": []}
    world.reviewer.allowed |= {("nina", "namespaces", "team-b"), ("nina", "workspacequotas", "in team-b")}
    _, page = await world.ask("/api/v1/quotas", "nina-token")
    assert [one["name"] for one in page["items"]] == ["acme"]
    assert (await world.ask("/api/v1/quotas/acme", "nina-token"))[0] == 200
    assert (await world.ask("/api/v1/quotas/corp", "nina-token"))[0] == 403
    assert (await world.ask("/api/v1/quotas/bolt", "nina-token"))[0] == 403
    status, uses = await world.ask("/api/v1/quotas/acme/workloads", "nina-token")
    assert (status, [one["namespace"] for one in uses["items"]]) == (200, ["team-b"]), "not those of others"
