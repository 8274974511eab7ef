"""Who sees what on the page, where others than this host may look: as they would by the API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from extauthz.core.queries import Queries
from extauthz.serve.servers.api.answers import Answers
from extauthz.serve.servers.api.people import KEPT_S, MOST_JUDGED, People
from extauthz.serve.servers.page.live import EVENT, Knowledge
from extauthz.serve.servers.page.routes import Page
from extauthz.tell.observe.episodes import Recent
from extauthz.tell.observe.observers import Report
from extauthz.testing import Asker, gate, quota, scale, workload
from tests.support.kubecalls import Reviewer

OWNER, ADMIN = "owner-token", "admin-token"
Right = tuple[str, str, str]
SECRET = ("corp", "bolt", "hushed", "team-b", "team-c", "rival")
"""What the owner may not see: quotas, namespaces and a workload. Paths of quotas name ancestors, as the API's do."""


class World:
    """The page with people. Olga may get the quota acme and the namespace team-a."""

    def __init__(self, *more: str) -> None:
        self.now_s = 100.0
        self.lines: list[tuple[str, dict[str, object]]] = []
        own = {("olga", "workspacequotas", "acme"), ("olga", "namespaces", "team-a")}
        everything = {("admins", "workspacequotas", ""), ("admins", "namespaces", "")}
        self.reviewer = Reviewer(
            {OWNER: {"username": "olga", "groups": ["owners"]}, ADMIN: {"username": "ada", "groups": ["admins"]}},
            everything | own,
        )
        quotas = [
            quota("corp", {"requests.cpu": "8"}),
            quota("acme", {"requests.cpu": "100"}, parent="corp", namespaces={"workspace": "acme"}),
            quota("bolt", {"requests.cpu": "10"}, parent="corp", namespaces={"workspace": "bolt"}),
            quota("hushed", {"pods": "1"}, parent="acme", namespaces={"workspace": "none"}),
            *(quota(name, {"pods": "1"}) for name in more),
        ]
        namespaces = {"team-a": {"workspace": "acme"}, "team-b": {"workspace": "acme"}, "team-c": {"workspace": "bolt"}}
        others = [workload("rival", 2, namespace="team-b"), workload("c", 1, namespace="team-c")]
        known = gate(quotas, workload("web", 3), *others, namespaces=namespaces)
        recent, write = Recent(lambda: self.now_s), Asker(known)
        for request in (scale("web", 30), scale("rival", 40, namespace="team-b"), scale("c", 50, namespace="team-c")):
            recent.decided(Report(write(request)))
        write(scale("rival", 3, namespace="team-b"))
        decide = lambda reading: known.decide(reading, "q", 0.0, charge=False)  # noqa: E731
        answers = Answers(Queries(known.ledger), decide, lambda: 0.0, recent)
        people = People(self.reviewer, self.tell, lambda: self.now_s)
        told = Knowledge(
            "1.2.3", "team-c is stale", ["quota bolt is not in force"], 3, 3, 1, [("deployments.apps", 5.0)]
        )
        self.page = Page(lambda: answers, people, lambda: told, lambda: self.now_s, signs_in=True)
        self.client: TestClient[web.Request, web.Application]

    def tell(self, level: str, event: str, **fields: object) -> None:
        self.lines.append((event, fields))

    async def serve(self) -> AsyncIterator[World]:
        app = web.Application()
        self.page.add_to(app)
        async with TestClient(TestServer(app)) as self.client:
            yield self

    async def ask(self, path: str, token: str | None = OWNER) -> tuple[int, str]:
        headers = {"authorization": f"Bearer {token}"} if token is not None else {}
        response = await self.client.get(path, headers=headers)
        return response.status, await response.text()

    async def streamed(self, path: str, token: str = OWNER) -> str:
        """The first message of a stream."""
        headers = {"authorization": f"Bearer {token}"}
        async with self.client.get(path, headers=headers) as response:
            assert response.status == 200, await response.text()
            assert response.content_type == "text/event-stream"
            return (await response.content.readuntil(b"\n\n")).decode()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async for one in World().serve():
        yield one


PAGES = ["/", "/?below=acme", "/quotas/acme", "/namespaces/team-a/workloads/deployments.apps/web"]


def told(text: str, names: Iterable[str]) -> set[str]:
    return {name for name in names if name in text}


async def test_who_shows_no_good_token_sees_no_page_no_stream_and_no_file(world: World):
    for path in (*PAGES, "/events/", "/events/quotas/acme", "/static/page.css"):
        for token in (None, "worthless"):
            status, text = await world.ask(path, token)
            assert status == 401
            assert not told(text, ("acme", "web", *SECRET))


@pytest.mark.parametrize("path", PAGES)
async def test_a_token_given_by_the_form_shows_what_it_would_in_a_header(world: World, path: str):
    _, form = await world.ask(path, None)
    assert '<form class="search" method="post">' in form
    sent = await world.client.post(path, data={"token": OWNER}, allow_redirects=False)
    assert (sent.status, sent.headers["location"]) == (303, path)
    (cookie,) = sent.headers.getall("set-cookie")
    assert set(cookie.split("; ")) == {
        f"__Host-extauthz={OWNER}", "Path=/", "Max-Age=3600", "Secure", "HttpOnly", "SameSite=Strict"
    }  # fmt: skip
    given = {"cookie": f"__Host-extauthz={OWNER}"}
    by_cookie = await world.client.get(path, headers=given)
    assert (by_cookie.status, await by_cookie.text()) == await world.ask(path)
    worse = await world.client.get(path, headers=given | {"authorization": "Bearer worthless"})
    assert worse.status == 401, "a header comes first"


@pytest.mark.parametrize(
    ("data", "headers", "status"),
    [
        ({"token": "two words"}, {}, 401),
        ({"token": ""}, {}, 401),
        ({"token": "x" * 3_801}, {}, 401),
        ({"token": "x" * 20_000}, {}, 413),
        ({"token": OWNER}, {"sec-fetch-site": "cross-site"}, 403),
        ({"token": OWNER}, {"sec-fetch-site": "same-site"}, 403),
    ],
    ids=["no token", "none", "too long for a cookie", "a long form", "another site", "another host of the site"],
)
async def test_nothing_else_becomes_a_cookie(world: World, data: dict, headers: dict, status: int):
    sent = await world.client.post("/", data=data, headers=headers, allow_redirects=False)
    assert (sent.status, sent.headers.getall("set-cookie", [])) == (status, [])


@pytest.mark.parametrize("path", PAGES)
async def test_an_owner_s_page_tells_of_nothing_that_they_may_not_get(world: World, path: str):
    status, text = await world.ask(path)
    assert status == 200
    allowed = {"corp"} if path == "/quotas/acme" else set()  # the path of a quota names its ancestors
    assert told(text, SECRET) == allowed
    assert 'href="/quotas/corp"' not in text
    assert "limited: requests.cpu=8" not in text
    assert ("a quota that you may not get has less" in text) == (not path.startswith("/namespaces"))
    assert told((await world.ask(path, ADMIN))[1], ("corp",)) == {"corp"}


@pytest.mark.parametrize("path", PAGES)
async def test_a_stream_tells_no_more_than_the_page(world: World, path: str):
    text = await world.streamed("/events" + path)
    assert text.startswith(f"event: {EVENT}\ndata: ")
    assert told(text, SECRET) == ({"corp"} if path == "/quotas/acme" else set())


@pytest.mark.parametrize("prefix", ["", "/events"])
@pytest.mark.parametrize("path", ["/quotas/{}", "/?below={}", "/namespaces/{}/workloads/deployments.apps/web"])
async def test_whether_something_exists_is_not_told_to_who_may_not_get_it(world: World, prefix: str, path: str):
    answers = [await world.ask(prefix + path.format(name)) for name in ("bolt", "team-c", "nobody")]
    assert [status for status, _ in answers] == [403] * 3
    texts = {text.replace(name, "X") for (_, text), name in zip(answers, ("bolt", "team-c", "nobody"), strict=True)}
    assert len(texts) == 1


async def test_who_may_get_all_is_told_how_fresh_it_is_and_others_only_that(world: World):
    assert "team-c is stale" in (await world.ask("/", ADMIN))[1]
    text = (await world.ask("/"))[1]
    assert "out of date" in text
    assert "team-c is stale" not in text


@pytest.mark.parametrize("what", ["rights", "token"])
async def test_a_right_or_a_token_that_is_taken_away_ends_the_stream(world: World, what: str):
    async with world.client.get("/events/quotas/acme", headers={"authorization": f"Bearer {OWNER}"}) as response:
        await response.content.readuntil(b"\n\n")
        (world.reviewer.allowed if what == "rights" else world.reviewer.tokens).clear()
        world.now_s += KEPT_S + 1
        async with asyncio.timeout(20):
            assert await response.content.read() == b""


async def test_who_may_not_get_all_of_very_many_can_name_the_one_that_they_may():
    async for world in World(*(f"q{number}" for number in range(MOST_JUDGED))).serve():
        status, text = await world.ask("/")
        assert status == 403
        assert 'name="below"' in text
        assert (await world.ask("/?below=acme"))[0] == 200


async def test_each_page_and_stream_is_a_line_in_the_log_and_files_are_not(world: World):
    await world.ask("/quotas/acme")
    await world.streamed("/events/quotas/acme")
    await world.ask("/static/page.css")
    lines = [(event, fields["user"], fields["path"], fields["status"]) for event, fields in world.lines]
    assert lines == [("api", "olga", path, 200) for path in ("/quotas/acme", "/events/quotas/acme")]
