"""The page in a real Chromium: read, searched, by keyboard, on a phone, live, light and dark, with a hostile name."""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote as escaped

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, BrowserContext, Page, expect

from extauthz.tell.observe.observers import Report
from extauthz.testing import quota, scale, workload
from tests.page.browsing import browser
from tests.servers import test_page_people as people
from tests.servers.paging import HOSTILE, WEB, World, small
from tests.support.certs import Authority

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]
"""One browser for all, which lives on one loop."""

EVIL = f"/namespaces/team-a/workloads/deployments.apps/{escaped(HOSTILE, safe='')}"
PLACES = ["/", "/?only=over", "/quotas/acme", WEB, EVIL]
PHONE = {"width": 360, "height": 740}
DESK = {"width": 1280, "height": 900}
OUTLINE = "document.activeElement.matches(':focus-visible') && getComputedStyle(document.activeElement).outlineStyle"
HIDE = """hidden => {
    Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
    document.dispatchEvent(new Event('visibilitychange'));
}"""


@dataclass
class Window:
    """A tab that looks at a page, and what its console has said."""

    world: World
    context: BrowserContext
    page: Page
    said: list[str]

    @property
    def base(self) -> str:
        return str(self.world.client.make_url("/")).rstrip("/")

    async def go(self, path: str, *, live: bool = True) -> None:
        await self.page.goto(self.base + path)
        if live:
            await expect(self.page.locator("#pulse-text")).to_have_text("live")

    def refuse(self, name: str = "web", replicas: int = 30) -> None:
        self.world.ask(name, replicas)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chromium() -> AsyncIterator[Browser]:
    async with browser() as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def world() -> AsyncIterator[World]:
    async for one in small().serve():
        yield one


async def opened(world: World, chromium: Browser, **options: object) -> Window:
    context = await chromium.new_context(viewport=options.pop("viewport", DESK), **options)
    page, said = await context.new_page(), []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(f"error: {error}"))
    page.on("dialog", lambda dialog: said.append(f"dialog: {dialog.message}"))
    return Window(world, context, page, said)


@pytest_asyncio.fixture(loop_scope="module")
async def window(world: World, chromium: Browser) -> AsyncIterator[Window]:
    """Whatever a test does, the browser has nothing to complain about."""
    made = await opened(world, chromium)
    yield made
    await made.context.close()
    assert made.said == []


async def test_an_owner_finds_who_is_refused_and_why_by_links_alone(window: Window):
    window.refuse()
    await window.go("/")
    await window.page.locator(".tree").get_by_role("link", name="acme", exact=True).click()
    await expect(window.page.get_by_role("heading", level=1)).to_have_text("acme")
    refused = window.page.get_by_role("region", name="Refused now")
    await expect(refused).to_contain_text("has 3, wants 30, 5 would fit")
    await refused.get_by_role("link", name="web").click()
    await expect(window.page.get_by_role("img", name="Replicas over time")).to_be_visible()
    await expect(window.page.get_by_role("region", name="Asked, granted, refused")).to_contain_text("✕ refused")
    why = window.page.get_by_role("region", name="Why this count?")
    await expect(why).to_contain_text("kubectl wsq explain deploy/web -n team-a")
    end = window.page.get_by_role("region", name="What this gate knows")
    below, above = await end.bounding_box(), await why.bounding_box()
    assert below["y"] >= above["y"] + above["height"], "what the gate knows ends the page"


async def test_what_happens_is_shown_without_a_reload(window: Window):
    await window.go("/quotas/acme")
    await expect(window.page.get_by_role("region", name="Refused now")).to_contain_text("This gate refuses nobody.")
    await window.page.evaluate("window.kept = true")
    window.refuse()
    await expect(window.page.get_by_role("region", name="Refused now")).to_contain_text("wants 30")
    window.refuse(replicas=31)
    await expect(window.page.get_by_role("region", name="Refused now")).to_contain_text("wants 31")
    assert await window.page.evaluate("window.kept") is True


async def test_a_guarantee_is_marked_on_each_bar_and_who_waits_is_seen_with_since_when(chromium: Browser):
    quotas = [
        quota("corp", {"requests.cpu": "8"}, turn_s=300),
        quota("acme", {"requests.cpu": "8"}, parent="corp", namespaces={"workspace": "acme"}),
        quota("calm", {"requests.cpu": "8"}, parent="corp", guaranteed={"requests.cpu": "2"}),
    ]
    async for served in World(*quotas, objects=[workload("web", 6)]).serve():
        window = await opened(served, chromium, viewport=PHONE)
        await window.go("/")
        marks = window.page.locator(".meter line.guaranteed")
        await expect(marks).to_have_count(1)
        await expect(marks).to_have_attribute("x1", "25.0%")
        await expect(window.page.locator(".meter rect.kept")).to_have_attribute("width", "25.0%")
        await expect(window.page.locator(".legend")).to_contain_text("kept for guarantees its guarantee")
        await window.go("/quotas/corp")
        line = window.page.get_by_role("region", name="In line")
        await expect(line).to_have_count(0)
        served.gate.answered(served.write(scale("web", 7)), -130.0)
        await expect(line).to_contain_text("1. web team-a wants 7 replicas, for 2 min")
        await expect(window.page.locator(".legend")).not_to_contain_text("its guarantee")
        found = await Axe().run(window.page)
        assert found.violations_count == 0, found.generate_report()
        assert window.said == []
        await window.context.close()


async def test_a_change_takes_neither_the_focus_nor_a_selection_away(window: Window):
    await window.go(WEB)
    await window.page.locator("#in-2").focus()
    window.refuse()
    await expect(window.page.locator("#history-h + .chart")).to_be_visible()
    await expect(window.page.locator("#in-2")).to_be_focused()
    await window.page.locator("#room-h + .answer").select_text()
    window.refuse(replicas=31)
    await window.page.wait_for_timeout(1500)
    assert "may have" in await window.page.evaluate("getSelection().toString()")
    await window.page.evaluate("getSelection().removeAllRanges()")
    await expect(window.page.get_by_role("group", name="Decisions")).to_contain_text("31")
    await expect(window.page.locator("#pulse-text")).to_have_text("live")


async def test_a_hidden_tab_has_no_stream_and_is_current_again_when_it_is_seen(window: Window):
    await window.go("/quotas/acme")
    await window.page.evaluate(HIDE, True)
    window.refuse()
    await window.page.wait_for_timeout(1500)
    await expect(window.page.get_by_role("region", name="Refused now")).to_contain_text("This gate refuses nobody.")
    await window.page.evaluate(HIDE, False)
    await expect(window.page.get_by_role("region", name="Refused now")).to_contain_text("wants 30")
    window.refuse(replicas=31)
    await expect(window.page.get_by_role("region", name="Refused now")).to_contain_text("wants 31")


async def test_search_finds_as_one_types_and_its_address_can_be_shared(window: Window):
    await window.go("/")
    await window.page.get_by_label("Name").press_sequentially("AC", delay=20)
    await expect(window.page.locator(".tree h3")).to_have_text(["acme"])
    await expect(window.page.get_by_label("Name")).to_be_focused()
    await expect(window.page).to_have_url(f"{window.base}/?q=AC&only=")
    await expect(window.page.get_by_role("status")).to_have_text("1 quota found")
    window.refuse()
    await expect(window.page.locator(".tree")).to_contain_text("1 workload refused")
    await expect(window.page.locator(".tree h3")).to_have_text(["acme"])
    await window.page.go_back()
    await expect(window.page.locator(".tree h3")).to_have_text(["corp", "acme", "over"])


async def test_the_keyboard_reaches_everything_and_shows_where_it_is(window: Window):
    window.refuse()
    await window.go("/")
    await window.page.keyboard.press("Tab")
    skip = window.page.get_by_role("link", name="Skip to the content")
    await expect(skip).to_be_focused()
    await expect(skip).to_be_in_viewport()
    await window.page.keyboard.press("Enter")
    await window.page.keyboard.press("Tab")
    await expect(window.page.get_by_label("Name")).to_be_focused()
    seen = []
    for _ in range(20):
        assert await window.page.evaluate(OUTLINE) in ("solid", "auto")
        seen.append(await window.page.evaluate("document.activeElement.textContent.trim()"))
        await window.page.keyboard.press("Tab")
        if await window.page.evaluate("document.activeElement === document.body"):
            break
    expected = ["Search", "corp", "acme", "over", "web", "acme", "corp"]
    assert [name for name in seen if name in expected] == expected, "the tree, and then who is refused, and by what"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
async def test_axe_finds_nothing_and_nothing_runs_off_the_side(
    world: World, chromium: Browser, scheme: str, viewport: dict[str, int]
):
    for replicas in (5, 30, 4):
        world.ask("web", replicas)
        world.now_s += 60
    world.recent.decided(Report(world.gate.decide(world.reading(HOSTILE, 40), "i", 0.0), HOSTILE, HOSTILE))
    window = await opened(world, chromium, color_scheme=scheme, viewport=viewport)
    for path in PLACES:
        await window.go(path)
        found = await Axe().run(window.page)
        assert found.violations_count == 0, f"{path}: {found.generate_report()}"
        wide = await window.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= viewport["width"], f"{path} scrolls sideways"
    assert window.said == []
    await window.context.close()


LOWEST = """() => [...document.querySelectorAll('main section')]
    .sort((a, b) => a.getBoundingClientRect().bottom - b.getBoundingClientRect().bottom).pop().className"""
SHADOWS = """() => [...document.querySelectorAll('.scroll')]
    .filter(one => one.scrollWidth > one.clientWidth)
    .map(one => {
    const style = getComputedStyle(one);
    return [style.backgroundAttachment.includes('scroll'), style.backgroundImage.includes('gradient'), one.tabIndex];
})"""


@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
async def test_what_the_gate_knows_comes_last_there_is_one_why_and_what_scrolls_has_a_sign(
    world: World, chromium: Browser, viewport: dict[str, int]
):
    """The sign is a shadow at the side where there is more; and the keyboard scrolls it."""
    world.ask("web", 30)
    async for served in world.serve():
        window = await opened(served, chromium, viewport=viewport)
        for path in ("/", "/quotas/acme", WEB):
            await window.go(path)
            assert await window.page.evaluate(LOWEST) == "knows", path
            whys = window.page.get_by_role("heading", name=re.compile("why", re.IGNORECASE))
            assert await whys.count() == (path == WEB)
            for shadow in (shadows := await window.page.evaluate(SHADOWS)):
                assert shadow == [True, True, 0]
            assert shadows or path != WEB or viewport == DESK, "a table scrolls on a phone"
        await window.context.close()
        assert window.said == []


async def test_a_hostile_name_is_shown_and_does_nothing(window: Window):
    window.world.recent.decided(
        Report(window.world.gate.decide(window.world.reading(HOSTILE, 40), "i", 0.0), HOSTILE, HOSTILE)
    )
    for path in PLACES:
        await window.go(path)
        assert await window.page.locator("img").count() == 0
    await expect(window.page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    window.world.recent.decided(
        Report(window.world.gate.decide(window.world.reading(HOSTILE, 41), "i", 0.0), HOSTILE, HOSTILE)
    )
    await expect(window.page.get_by_role("group", name="Decisions")).to_contain_text("41")  # by the stream, too
    assert await window.page.locator("img").count() == 0


async def test_the_policy_stops_a_script_and_a_style_that_got_in(world: World, chromium: Browser):
    """Should a name ever get past the templates."""
    window = await opened(world, chromium)
    await window.go("/")
    bad = '<img src=x onerror="window.bad = 1"><p id=p style="color:red">'
    await window.page.evaluate("bad => document.getElementById('live').innerHTML = bad", bad)
    await expect(window.page.locator("#p")).to_be_attached()
    await window.page.wait_for_timeout(200)
    assert await window.page.evaluate("window.bad") is None
    assert any("Content Security Policy" in line for line in window.said)
    await window.context.close()


async def test_all_of_it_works_without_a_script(world: World, chromium: Browser):
    world.write(scale("web", 4))
    window = await opened(world, chromium, java_script_enabled=False)
    await window.go("/", live=False)
    await expect(window.page.locator("#pulse")).to_be_hidden()
    await window.page.get_by_label("Name").fill("acm")
    await window.page.get_by_role("button", name="Search").click()
    await expect(window.page.locator(".tree h3")).to_have_text(["acme"])
    await window.page.locator(".tree").get_by_role("link", name="acme", exact=True).click()
    await window.page.get_by_role("link", name="pods", exact=True).click()
    await expect(window.page.get_by_role("columnheader", name="pods")).to_be_visible()
    await expect(window.page.get_by_role("region", name="Pending writes")).to_contain_text("to 4 replicas")
    assert window.said == []
    await window.context.close()


async def test_a_person_shows_a_token_by_the_form_and_follows_links_with_it(chromium: Browser, tmp_path: Path) -> None:
    shown = Authority(tmp_path).issue("gate")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(shown.cert, shown.key)
    app = web.Application()
    people.World().page.add_to(app)
    server = TestServer(app, scheme="https")
    await server.start_server(ssl=tls)
    async with server:
        context = await chromium.new_context(ignore_https_errors=True)
        try:
            page = await context.new_page()
            await page.goto(str(server.make_url("/?below=acme")))
            await page.get_by_label("A bearer token").fill(people.OWNER)
            await page.get_by_role("button", name="Look").click()
            await expect(page.get_by_role("link", name="acme").first).to_be_visible()
            assert page.url == str(server.make_url("/?below=acme"))
            await expect(page.locator("#pulse-text")).to_have_text("live")
        finally:
            await context.close()
