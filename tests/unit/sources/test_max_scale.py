"""Asking a platform's own service for bounds: once at a time, bounded in time, and not while it does not answer."""

from __future__ import annotations

import asyncio

import pytest

from extauthz.core.decision.bounds import Bounds, Freshness
from extauthz.core.model import WorkloadRef
from extauthz.sources import max_scale
from extauthz.sources.http import Client, Endpoint
from extauthz.sources.max_scale import Breaker, MaxScale
from extauthz.testing.platform import Platform

WEB = WorkloadRef("apps", "deployments", "shop", "web")


class Asked:
    """One asker, and what it tells."""

    def __init__(self, url: str, timeout_s: float = 2.0) -> None:
        self.now_s = 100.0
        self.told: list[str] = []
        self.bounds = Bounds(10.0, 60.0)
        client = Client(Endpoint(f"{url}/max-scale", timeout_s))
        self.asker = MaxScale(client, self.bounds, lambda result, why: self.told.append(result), lambda: self.now_s)

    async def ask(self, times: int = 1) -> list[str]:
        async with self.asker.client:
            for _ in range(times):
                await self.asker.ask(WEB)
        return self.told


@pytest.mark.parametrize("most", [5, 0, None])
async def test_the_bound_of_a_workload_is_asked_by_its_names(most: int | None):
    async with Platform(bounds={WEB: most}) as platform:
        asked = Asked(platform.url)
        assert await asked.ask() == ["ok"]
    assert dict(platform.seen[0].query) == {
        "group": "apps",
        "resource": "deployments",
        "namespace": "shop",
        "name": "web",
    }
    assert asked.bounds.known(WEB, 100.0) == (Freshness.FRESH, most, 0.0)


async def test_many_who_want_to_know_the_same_make_one_request_and_a_leaver_stops_nobody():
    async with Platform(bounds={WEB: 5}, delay_s=0.1) as platform:
        asked = Asked(platform.url)
        async with asked.asker.client:
            waiting = [asyncio.create_task(asked.asker.ask(WEB)) for _ in range(5)]
            await asyncio.sleep(0)
            waiting[0].cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
    assert (len(platform.seen), asked.told) == (1, ["ok"])
    assert asked.bounds.known(WEB, 100.0).most == 5


@pytest.mark.parametrize(
    "body",
    [b"{}", b"[]", b'{"maxAvailableScale": -1}', b'{"maxAvailableScale": "5"}', b'{"maxAvailableScale": true}', b"x",
     b'{"maxAvailableScale": 1.5}'],
)  # fmt: skip
async def test_an_answer_that_is_none_is_no_bound_and_no_freedom(body: bytes):
    async with Platform(body=body) as platform:
        asked = Asked(platform.url)
        assert await asked.ask() == ["malformed"]
    assert asked.bounds.known(WEB, 100.0).freshness is Freshness.UNKNOWN


@pytest.mark.parametrize("status", [304, 404, 500])
async def test_another_status_than_200_is_no_answer(status: int):
    async with Platform(status=status) as platform:
        assert await Asked(platform.url).ask() in (["refused"], ["malformed"])


async def test_one_that_is_slow_is_waited_for_no_longer_than_was_set():
    async with Platform(delay_s=5.0) as platform:
        assert await Asked(platform.url, timeout_s=0.05).ask() == ["timeout"]


async def test_one_that_does_not_answer_is_not_asked_but_for_trials_until_it_does():
    async with Platform(status=503, bounds={WEB: 5}) as platform:
        asked = Asked(platform.url)
        assert await asked.ask(7) == ["refused"] * 5 + ["circuit-open"] * 2
        asked.now_s += 1.0
        assert (await asked.ask(2))[7:] == ["refused", "circuit-open"]
        asked.now_s += 1.5
        assert (await asked.ask())[9:] == ["circuit-open"], "twice as long after a trial that failed"
        platform.status = 200
        asked.now_s += 0.5
        assert (await asked.ask(2))[10:] == ["ok", "ok"]
    assert len(platform.seen) == 8


async def test_too_many_at_once_are_not_sent(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(max_scale, "MAX_FLIGHTS", 1)
    async with Platform(delay_s=0.1) as platform:
        asked = Asked(platform.url)
        async with asked.asker.client:
            await asyncio.gather(asked.asker.ask(WEB), asked.asker.ask(WEB._replace(name="api")))
    assert asked.told == ["busy", "ok"]


def test_a_trial_is_one_and_pauses_grow_to_a_bound():
    one = Breaker()
    for _ in range(max_scale.FAILURES):
        assert one.admits(0.0)
        one.failed(0.0)
    assert not one.admits(0.9)
    assert one.admits(1.0)
    assert not one.admits(1.1), "it waits for what comes of the trial"
    for _ in range(10):
        one.failed(0.0)
    assert not one.admits(max_scale.LONGEST_S - 0.1)
    assert one.admits(max_scale.LONGEST_S)
