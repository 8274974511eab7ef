"""Streams of the page: what they send and when, on a virtual clock; and with a real gate, that they hold up no stop."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from extauthz.servers.api.rights import Problem
from extauthz.servers.page import live
from extauthz.servers.page.live import LASTS_S, MOST, MOST_EACH, SILENT_S, Client, Streams, digest, event
from tests.servers.paging import WEB, World, small
from tests.servers.running import QUOTAS, Running


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
