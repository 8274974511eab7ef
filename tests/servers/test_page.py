"""The page over real HTTP, read with a parser of HTML: what it shows, what it escapes, and what it leaves out."""

from __future__ import annotations

import asyncio
import fnmatch
import http.client
import itertools
import json
import re
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from extauthz.core.quota.spec import parse
from extauthz.serve.servers.api.rights import Everything, Problem
from extauthz.serve.servers.api.routes import Asked
from extauthz.serve.servers.bodies import Share
from extauthz.serve.servers.page import live, rendering, tree
from extauthz.serve.servers.page.chart import FRAME, INSET, bar, chart
from extauthz.serve.servers.page.live import LASTS_S, MOST, MOST_EACH, SILENT_S, Client, Shown, Streams, digest, event
from extauthz.serve.servers.page.rendering import HEADERS, Templates, files
from extauthz.serve.servers.page.workload import _room
from extauthz.tell.observe.observers import Report
from extauthz.testing import quota, scale, workload
from tests.servers.paging import HOSTILE, WEB, World, small
from tests.servers.running import QUOTAS, Running

PAGES = ["/", "/quotas/acme", WEB]
TEMPLATES = Path(tree.__file__).parent / "templates"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async for one in small().serve():
        yield one


async def test_the_tree_shows_used_reserved_hard_and_what_is_over_in_words(world: World):
    world.write(scale("web", 4))
    page = await world.get("/")
    assert page.texts("h3") == ["corp", "acme", "over"]
    assert [one.attributes["class"] for one in page.all("li", "node")] == [
        "node depth-0",
        "node depth-1",
        "node depth-0",
    ]
    assert page.texts("p", "meter-foot") == [
        "8 of 20, 1 reserved",
        "6 of 50, 1 reserved",
        "8 of 10, 1 reserved",
        "3 of 1 ▲ over by 2",
    ]
    assert "Audit" in page.texts("span", "badge")
    assert "It knows 3 quotas and 5 objects, and has 0 pending writes." in page.texts("p")
    assert "only audits" in page.texts("p")


async def test_who_is_refused_is_told_with_why_since_when_and_what_fits(world: World):
    world.ask("web", 30)
    world.now_s += 130
    world.ask("web", 31)
    for path in ("/", "/quotas/acme"):
        page = await world.get(path)
        assert page.texts("p", "who") == ["web team-a ✕ refused for 2 min"]
        assert page.texts("p", "facts") == ["has 3, wants 31, 5 would fit, asked 2 times, last under a minute ago"]
        assert page.texts("p", "lack") == [
            "requests.cpu asks 28 more, 2 free in acme",
            "requests.cpu asks 28 more, 12 free in corp",
        ]
        assert WEB in page.links()
    assert "✕ 1 workload refused" in (await world.get("/")).texts("span", "badge")


async def test_a_quota_s_page_has_who_uses_what_and_may_have_more(world: World):
    page = await world.get("/quotas/acme")
    assert page.texts("th")[:4] == ["Workload", "Replicas", "requests.cpu", "May have"]
    assert page.texts("th")[4:] == [
        f"{name} {namespace}deployments.apps"
        for name, namespace in (("big", "team-b"), ("web", "team-a"), (HOSTILE, "team-a"))
    ]
    assert page.texts("td") == ["2", "4", "1 more", "3", "3", "2 more", "1", "1", "2 more"]
    assert {"/quotas/corp", "/quotas/acme?sort=pods", WEB} <= page.links()
    assert {"/quotas/acme", "/?below=corp"} <= (await world.get("/quotas/corp")).links()
    by_pods = await world.get("/quotas/acme?sort=pods")
    assert by_pods.texts("th")[2] == "pods"
    assert by_pods.texts("th")[4].startswith("web")


async def test_no_more_is_free_than_above():
    quotas = [
        quota("corp", {"requests.cpu": "4"}, namespaces={"workspace": "nobody"}),
        quota("acme", {"requests.cpu": "10"}, parent="corp", namespaces={"workspace": "acme"}),
    ]
    async for world in World(*quotas, objects=[workload("web", 3)]).serve():
        (amounts,) = (await world.get("/quotas/acme")).texts("p", "amounts")
        assert "1 free, as corp has no more" in amounts


async def test_what_pends_is_told_with_how_long(world: World):
    world.write(scale("web", 4))
    page = await world.get("/quotas/acme")
    assert "web team-a to 4 replicas, for 1 min at most" in page.texts("li")


async def test_a_workload_s_page_has_its_headroom_its_quotas_and_its_history(world: World):
    for count in (5, 12, 4):
        world.ask("web", count)
        world.now_s += 60
    page = await world.get(WEB)
    assert page.texts("p", "answer") == [
        "It has 3 replicas and may have 5. In mode Audit, over refuses nothing and would allow 3."
    ]
    assert page.texts("dd") == ["corp, acme, over", "3 + 2 reserved", "3 + 2 reserved"]
    assert page.texts("td")[:5] == ["requests.cpu", "1", "8", "2", "10"]
    assert page.texts("span", "badge") == ["✓ granted", "✕ refused", "✓ granted"]
    assert len(list(page.all("circle", "granted"))) == 3, "two marks and the legend"
    assert len(list(page.all("g", "refused-mark"))) == 2
    assert "3 decisions" in page.texts("desc")[0]
    assert "2 granted, 1 refused" in page.texts("desc")[0]
    assert "kubectl wsq explain deploy/web -n team-a" in page.texts("pre")


async def test_a_quota_and_a_workload_that_are_not_there_are_404_and_a_page(world: World):
    for path in ("/quotas/none", WEB + "2", "/?below=none", "/static/page.py", "/static/VENDORED.txt"):
        page = await world.get(path, 404)
        assert page.texts("h1") == ["Not Found"]
        assert "/" in page.links()


async def test_a_gate_that_still_reads_says_so(world: World):
    world.answers = None
    page = await world.get("/", 503)
    assert "does not know all" in page.texts("p", "answer")[0]


async def test_a_name_is_text_wherever_it_stands(world: World):
    """A tenant chooses the names of workloads, and what a sentence quotes."""
    path = f"/namespaces/team-a/workloads/deployments.apps/{HOSTILE}"
    world.recent.decided(
        Report(world.write(scale("web", 30))._replace(sentence=f"no {HOSTILE} {{{{7*7}}}}"), "", HOSTILE)
    )
    world.recent.decided(Report(world.gate.decide(world.reading(HOSTILE, 40), "i", 0.0), HOSTILE, HOSTILE))
    for place in (*PAGES, "/?q=" + HOSTILE.replace("&", "%26"), path.replace("&", "%26")):
        page = await world.get(place)
        assert not list(page.all("img")), place
        assert not [name for one in page.elements for name in one.attributes if name.startswith("on")], place
        assert any(HOSTILE in one.text or HOSTILE in (one.attributes.get("value") or "") for one in page.elements)
    shown = await world.get(path.replace("&", "%26"))
    assert shown.texts("h1") == [HOSTILE]
    assert "'deploy/<img src=x onerror=alert(1)>" in shown.texts("pre")[0], "and it is one word for a shell"


def test_no_template_can_leave_a_value_unescaped():
    for one in TEMPLATES.glob("*.html"):
        text = one.read_text()
        assert not re.search(r"\|\s*(safe|tojson)\b|autoescape|\bMarkup\b", text), one.name
        assert not re.search(r"""=\{\{|\bstyle=|\bon(?!ly)\w+=|<script(?![^>]*\bsrc=)|javascript:""", text), one.name


async def test_nothing_is_loaded_from_elsewhere_and_the_policy_forbids_it(world: World):
    for path in PAGES:
        page = await world.get(path)
        named = {one.attributes.get(name) or "" for one in page.elements for name in ("src", "href", "action")}
        assert all(one.startswith(("/", "#")) or not one for one in named)
        for source in named:
            if source.startswith("/static/"):
                response = await world.client.get(source)
                assert response.status == 200
                assert response.headers["X-Content-Type-Options"] == "nosniff"
                assert "immutable" in response.headers["Cache-Control"]
    policy = HEADERS["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "*" not in policy


async def test_it_is_for_this_host_alone(world: World):
    for path in (*PAGES, "/events/", "/static/page.css"):
        for headers in ({"Host": "evil.example"}, {"X-Forwarded-For": "10.0.0.1"}):
            response = await world.client.get(path, headers=headers)
            assert response.status == 403
            assert "acme" not in await response.text()


async def test_ten_thousand_quotas_come_a_page_at_a_time():
    many = [quota(f"q{number:05}", {"pods": "5"}, namespaces={"workspace": "none"}) for number in range(10_000)]
    async for world in World(*many).serve():
        page = await world.get("/")
        assert "10,000 quotas" in page.texts("h2")
        assert len(page.texts("h3")) == tree.PER_PAGE
        assert "/?page=2" in page.links()
        last = await world.get("/?page=200")
        assert last.texts("h3")[-1] == "q09999"
        assert (await world.get("/?page=99999")).texts("h3") == last.texts("h3")
        found = await world.get("/?q=Q0123")
        assert found.texts("h3") == [f"q0123{number}" for number in range(10)]
        assert (await world.get("/?q=nobody")).texts("p", "empty")[0].startswith("No quota is like that.")
        assert "/?q=q0&page=2" in (await world.get("/?q=q0")).links()


async def test_only_those_that_refuse_or_are_over_can_be_asked_for(world: World):
    world.ask("web", 30)
    assert (await world.get("/?only=refusing")).texts("h3") == ["corp", "acme"]
    assert (await world.get("/?only=over")).texts("h3") == ["over"]
    assert (await world.get("/?only=nonsense&page=none")).texts("h3") == ["corp", "acme", "over"]
    assert (await world.get("/?below=acme")).texts("h3") == ["acme"]


async def test_each_page_has_landmarks_a_skip_link_and_headings(world: World):
    for path in PAGES:
        page = await world.get(path)
        assert len(page.texts("h1")) == 1
        (main,) = page.all("main")
        assert f"#{main.attributes['id']}" in page.links()
        headings = [one.tag for one in page.elements if re.fullmatch("h[1-6]", one.tag)]
        assert all(int(after[1]) - int(before[1]) <= 1 for before, after in itertools.pairwise(headings))
        assert all(one.attributes.get("scope") for one in page.all("th"))
        ids = [one.attributes["id"] for one in page.elements if "id" in one.attributes]
        assert len(ids) == len(set(ids))


async def turns(making: Awaitable[object]) -> int:
    """How often others had a turn while something was made."""
    count, made = 0, asyncio.ensure_future(making)
    while not made.done():
        count += 1
        await asyncio.sleep(0)
    await made
    return count


async def test_decisions_pass_while_a_page_is_made_and_while_it_is_written():
    many = [quota(f"q{number:04}", {"pods": "5"}, namespaces={"workspace": "none"}) for number in range(2_000)]
    async for world in World(*many).serve():
        assert world.answers is not None
        for query, least in (("/", 14), ("/?only=over", 400)):
            asked = Asked(world.answers, Everything(), make_mocked_request("GET", query), Share())
            assert await turns(tree.look(asked, 0.0)) >= least
        view = await tree.look(Asked(world.answers, Everything(), make_mocked_request("GET", "/"), Share()), 0.0)
        context = {**view.context, "knows": Shown("1", False, [])}
        assert await turns(Templates(files()).write("tree.live", context)) >= 10


ROOT = Path(__file__).parents[2]


def row(used: str, reserved: str, hard: str) -> dict[str, str]:
    return {"used": used, "reserved": reserved, "hard": hard}


@pytest.mark.parametrize(
    ("given", "wide", "texts"),
    [
        pytest.param(row("2", "1", "10"), (20.0, 10.0, 100.0), ("7", "", 30), id="room"),
        pytest.param(row("8", "2", "10"), (80.0, 20.0, 100.0), ("0", "", 100), id="full"),
        pytest.param(row("8", "3", "10"), (72.73, 18.18, 90.91), ("", "1", 110), id="over-by-what-is-reserved"),
        pytest.param(row("20", "0", "10"), (50.0, 0.0, 50.0), ("", "10", 200), id="over"),
        pytest.param(row("0", "0", "0"), (0.0, 0.0, 0.0), ("0", "", 0), id="nothing-of-nothing"),
        pytest.param(row("1", "0", "0"), (0.0, 0.0, 0.0), ("", "1", 100), id="something-of-nothing"),
    ],
)
def test_a_bar_is_as_long_as_what_it_shows(given, wide, texts):
    drawn = bar("pods", given)
    assert (drawn.used_wide, drawn.reserved_wide, drawn.hard_at) == wide
    assert (drawn.free, drawn.over, drawn.percent) == texts


def decided(second: int, before: int | None, to: int | None, verdict: str, *, dry: bool = False) -> dict[str, Any]:
    at = f"2027-01-15T08:00:{second:02}.000Z"
    return {"time": at, "verdict": verdict, "from": before, "to": to, "dryRun": dry}


def test_a_chart_has_a_mark_for_each_decision_and_a_line_for_what_was_granted():
    newest_first = [
        decided(50, 4, 8, "deny"),
        decided(40, 4, 9, "deny", dry=True),
        decided(30, 2, 4, "allow"),
        decided(20, 2, None, "allow"),
        decided(10, 2, 8, "unavailable"),
    ]
    drawn = chart(newest_first)
    assert drawn is not None
    high, middle, low = FRAME.top, (FRAME.top + FRAME.bottom) / 2, FRAME.bottom - (FRAME.bottom - FRAME.top) / 4
    first, last = FRAME.left + INSET, FRAME.right - INSET
    assert [(mark.kind, mark.x, mark.y, mark.foot) for mark in drawn.marks] == [
        ("undecided", first, high, low),
        ("granted", (first + last) / 2, middle, low),
        ("refused", last, high, middle),
    ]
    half = (first + last) / 2
    points = [(FRAME.left, low), (half, low), (half, middle), (FRAME.right, middle)]
    assert drawn.granted == " ".join(f"{x},{y}" for x, y in points)
    assert [tick.text for tick in drawn.up] == ["0", "2", "4", "6", "8"]
    assert [tick.text for tick in drawn.along] == ["08:00:10", "08:00:30", "08:00:50"]
    assert drawn.summary.startswith("3 decisions from 08:00:10 to 08:00:50 UTC: 1 granted, 1 refused.")


def test_a_count_that_moved_without_the_gate_moves_the_line():
    drawn = chart([decided(20, 8, 9, "allow"), decided(10, 2, 4, "allow")])
    assert drawn is not None
    assert drawn.marks[1].foot == pytest.approx(FRAME.bottom - (FRAME.bottom - FRAME.top) * 8 / 9, abs=0.05)


def test_without_counts_there_is_no_chart():
    assert chart([]) is None
    assert chart([decided(1, None, None, "allow"), decided(2, 1, 2, "allow", dry=True)]) is None


@pytest.mark.parametrize(
    ("highest", "ticks"),
    [(1, ["0", "1"]), (7, ["0", "2", "4", "6"]), (20, ["0", "5", "10", "15", "20"]), (31, ["0", "10", "20", "30"])],
)
def test_the_upward_axis_has_a_few_round_numbers(highest: int, ticks: list[str]):
    drawn = chart([decided(1, 0, highest, "allow")])
    assert drawn is not None
    assert [tick.text for tick in drawn.up] == ticks


def test_a_very_high_axis_has_thousands():
    drawn = chart([decided(1, 0, 2**31 - 1, "deny")])
    assert drawn is not None
    assert drawn.up[-1].text == "2,000,000,000"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "under a minute"), (59.9, "under a minute"), (60, "1 min"), (3599, "59 min"), (3600, "1 h"), (172_800, "2 d")],
)
def test_times_are_told_in_one_unit(seconds: float, text: str):
    assert rendering.lasting(seconds) == text


def test_addresses_keep_a_name_in_one_place():
    assert rendering.of_quota("a/b?c#d") == "/quotas/a%2Fb%3Fc%23d"
    named = {"namespace": "n s", "resource": "deployments.apps", "name": "../x"}
    assert rendering.of_workload(named) == "/namespaces/n%20s/workloads/deployments.apps/..%2Fx"
    assert rendering.of_tree(q="a&b", only="") == "/?q=a%26b"


async def test_how_fresh_a_gate_is_goes_by_the_watch_that_is_quietest():
    told = live.Knowledge("1", watches=[("pods", 3.0), ("deployments.apps", 130.0)])
    assert live._freshness(told).endswith("The quietest, deployments.apps, was last heard of 2 min ago.")


def test_each_file_beside_the_code_is_in_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["extauthz"]
    folder = Path(rendering.__file__).parent
    for file in [*(folder / "static").iterdir(), *(folder / "templates").iterdir()]:
        inside = str(file.relative_to(ROOT / "extauthz"))
        assert any(fnmatch.fnmatch(inside, pattern) for pattern in patterns), inside


def test_what_is_vendored_names_its_version_and_licence():
    text = (Path(rendering.__file__).parent / "static" / "VENDORED.txt").read_text()
    for name in ("htmx.min.js", "htmx-sse.min.js"):
        assert name in text
    assert "2.0.11" in text
    assert "Zero-Clause BSD" in text


@pytest.mark.parametrize(
    ("most", "asks", "says"),
    [
        (5, None, "It has 3 replicas and may have 5."),
        (5, 5, "It has 3 replicas and may have 5."),
        (5, 24, "It has 3 replicas and may have 5; its autoscaler may ask for 24."),
        (3, 24, "It has 3 replicas and may have no more; its autoscaler may ask for 24."),
        (None, 24, "It has 3 replicas, and no quota bounds it."),
    ],
)
def test_what_its_autoscaler_may_ask_for_is_told_where_not_all_of_it_fits(most: Any, asks: Any, says: str):
    room = {
        "replicas": most,
        "counts": "replicas",
        "observedReplicas": 3,
        "mayAskFor": asks,
        "auditReplicas": None,
        "certain": True,
        "sentence": None,
    }
    assert _room(room | {"bound": None}).sentence == says


# Streams of the page: what they send and when, on a virtual clock; and with a real gate, that they hold up no stop.


class Desk:
    """Streams on a virtual clock, and clients that note what they get."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.streams = Streams(lambda: self.now_s, self._sleep)
        self.page = "one"
        self.got: list[tuple[float, bytes]] = []
        self.gone = False
        self.looks = 0

    async def _sleep(self, seconds: float) -> None:
        self.now_s += seconds
        await asyncio.sleep(0)

    async def take(self, data: bytes) -> None:
        self.got.append((self.now_s, data))

    async def look(self) -> str:
        self.looks += 1
        return self.page

    async def follow(self, write: Callable[[], Awaitable[str]] | None = None, seen: str = "") -> None:
        await self.streams.follow(Client(self.take, lambda: self.gone), None, seen, write or self.look)

    def until(self, seconds: float, then: Callable[[], None]) -> Callable[[], Awaitable[str]]:
        """Looks, and does something once at that time."""
        done = False

        async def write() -> str:
            nonlocal done
            if self.now_s >= seconds and not done:
                done = True
                then()
            return await self.look()

        return write

    def leave(self) -> None:
        self.gone = True


async def test_a_page_is_sent_when_it_has_changed_and_not_otherwise():
    desk = Desk()

    def change() -> None:
        desk.page = "two\nlines"

    async def write() -> str:
        if desk.now_s >= 5:
            change()
        if desk.now_s >= 9:
            desk.leave()
        return await desk.look()

    await desk.follow(write, seen=digest("one"))
    assert desk.got == [(5.0, b"event: live\ndata: two\ndata: lines\n\n")]


async def test_who_has_not_seen_it_gets_it_at_once():
    desk = Desk()
    await desk.follow(desk.until(2, desk.leave), seen="older")
    assert desk.got == [(0.0, event("one"))]


async def test_a_silent_stream_is_kept_by_comments():
    desk = Desk()
    await desk.follow(desk.until(2 * SILENT_S, desk.leave), seen=digest("one"))
    assert desk.got == [(SILENT_S, b":\n\n"), (2 * SILENT_S, b":\n\n")]


async def test_a_stream_ends_after_a_while_and_the_browser_connects_anew():
    desk = Desk()
    await desk.follow(desk.until(2 * LASTS_S, desk.leave))
    assert desk.now_s == LASTS_S


async def test_all_streams_take_a_tenth_of_the_time_at_most():
    desk = Desk()
    busy_s = 0.0

    async def costly() -> str:
        nonlocal busy_s
        desk.now_s += 0.5
        busy_s += 0.5
        return "the same"

    await asyncio.gather(*(desk.follow(costly) for _ in range(5)))
    assert busy_s <= 0.1 * desk.now_s
    assert busy_s >= 0.05 * desk.now_s, "and they do look"


async def test_a_stream_ends_when_its_page_may_not_be_seen_any_more():
    desk = Desk()

    async def refused() -> str:
        raise Problem(403, "no more")

    await desk.follow(refused)
    assert desk.got == []


async def test_a_client_that_takes_nothing_loses_its_place(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(live, "WRITE_WITHIN_S", 0.01)
    desk = Desk()

    async def stuck(data: bytes) -> None:
        await asyncio.Event().wait()

    for _ in range(MOST_EACH):
        await desk.streams.follow(Client(stuck, lambda: False), "olga", "", desk.look)
    desk.streams.admit("olga")


async def test_streams_are_bounded_in_all_and_of_each_person():
    streams = Streams()
    waiting = Client(lambda data: asyncio.sleep(0), lambda: False)

    async def look() -> str:
        return ""

    tasks = [asyncio.create_task(streams.follow(waiting, "olga", "", look)) for _ in range(MOST_EACH)]
    await asyncio.sleep(0)
    with pytest.raises(Problem, match="too many"):
        streams.admit("olga")
    streams.admit("ada")
    tasks += [asyncio.create_task(streams.follow(waiting, None, "", look)) for _ in range(MOST - MOST_EACH)]
    await asyncio.sleep(0)
    for person in ("ada", None):
        with pytest.raises(Problem, match="too many"):
            streams.admit(person)
    await streams.leave()
    await asyncio.gather(*tasks)
    with pytest.raises(Problem):
        streams.admit("ada")  # it is ending


async def test_a_page_names_a_stream_that_sends_nothing_until_something_changes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(live, "PAUSE_S", 0.01)
    async for world in small().serve():
        for path in ("/", "/quotas/acme", WEB):
            await told_of_a_change_alone(world, path)


async def told_of_a_change_alone(world: World, path: str) -> None:
    page = await world.get(path)
    (part,) = [one for one in page.elements if one.attributes.get("id") == "live"]
    async with world.client.get(str(part.attributes["sse-connect"])) as response:
        assert response.content_type == "text/event-stream"
        assert response.headers["Cache-Control"] == "no-store"
        reading = asyncio.create_task(response.content.readuntil(b"\n\n"))
        done, _ = await asyncio.wait([reading], timeout=0.2)
        assert not done, "nothing has changed"
        world.ask("web", 30)
        message = (await reading).decode()
    assert message.startswith("event: live\ndata: ")
    assert "refused" in message


@contextmanager
def stream_of(address: str) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection(address, timeout=10)
    connection.request("GET", "/events/")
    try:
        yield connection.getresponse()
    finally:
        connection.close()


def test_a_real_gate_serves_the_page_tells_of_a_change_and_stops_without_waiting_for_its_readers(tmp_path: Path):
    with Running(tmp_path) as gate:
        status, text = gate.get("/")
        assert status == 200
        assert "acme" in text
        with stream_of(gate.http) as stream:
            assert stream.status == 200
            first = [stream.readline() for _ in range(2)]
            assert first[0] == b"event: live\n"
            gate.quotas.write_text(QUOTAS % 2)
            while b"over by 1" not in stream.readline():
                pass
            assert gate.child.terminate() == 0, "aiohttp waits a minute for answers that are under way"
    assert json.loads(gate.log_file.read_text().splitlines()[-1])["event"] == "stopped"


async def test_an_override_in_force_is_on_the_page_of_its_quota_and_in_the_tree():
    sale = {"name": "sale", "from": "1969-01-01T00:00:00Z", "until": "2999-01-01T00:00:00Z", "hard": {"pods": "9"}}
    spec = {"hard": {"pods": "4"}, "namespaceSelector": {"matchLabels": {"workspace": "acme"}}, "overrides": [sale]}
    acme = parse(
        {"apiVersion": "extauthz.dev/v1alpha1", "kind": "WorkspaceQuota", "metadata": {"name": "acme"}, "spec": spec}
    )
    async for world in World(acme, objects=[workload("web", 2)]).serve():
        world.gate.turn(0.0)
        assert "Override sale is in force until 2999-01-01T00:00:00Z." in (await world.get("/quotas/acme")).texts("p")
        assert "! override sale until 2999-01-01T00:00:00Z" in (await world.get("/")).texts("span", "badge")
