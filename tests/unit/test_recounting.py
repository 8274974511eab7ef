"""The recount of a running gate: what is wrong is told, counted and repaired, and nobody waits for it."""

from __future__ import annotations

import asyncio
import io
import json
import re

import pytest

from extauthz.core.ledger import usage as usage_module
from extauthz.core.quota.tree import QuotaTree
from extauthz.serve.service import counting as counts
from extauthz.serve.service import recounting
from extauthz.serve.service.counting import Counting
from extauthz.serve.service.recounting import Recounting
from extauthz.tell.observe.log import Log
from extauthz.tell.observe.metrics import Levels, Metrics
from extauthz.testing import gate, quota, workload

CPU = 10**9


class Running:
    """A gate over some Deployments of one CPU each, and what is told of its recounts."""

    def __init__(self, workloads: int, every_s: float = 0.0) -> None:
        self.gate = gate([quota("acme", {"requests.cpu": "10"})], *(workload(f"w{n}") for n in range(workloads)))
        self.stream = io.StringIO()
        self.log = Log(self.stream)
        self.metrics = Metrics(Levels)
        self.recounting = Recounting(self.gate, every_s, self.log, self.metrics)

    def spoil(self) -> None:
        (account,) = self.gate.ledger.usage.accounts._accounts.values()
        account.used["requests.cpu"] += 5 * CPU

    async def exposition(self) -> str:
        return (await self.metrics.scrape(""))[0].decode()

    def lines(self) -> list[dict]:
        self.log.close()
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]


async def test_drift_is_told_counted_and_repaired() -> None:
    running = Running(3)
    running.spoil()
    await running.recounting.count()
    assert running.gate.ledger.drift() == {}
    exposition = await running.exposition()
    assert 'extauthz_recounts_total{result="drifted"} 1.0' in exposition
    assert "extauthz_drift 1.0" in exposition
    await running.recounting.count()
    exposition = await running.exposition()
    assert 'extauthz_recounts_total{result="exact"} 1.0' in exposition
    assert "extauthz_drift 0.0" in exposition
    assert "extauthz_drift_repaired_total 1.0" in exposition
    (line,) = running.lines()
    assert (line["level"], line["event"], line["all"]) == ("error", "drift", 1)
    assert line["differences"] == ["acme: used requests.cpu: kept 8000000000, counted 3000000000"]


async def test_others_get_their_turn_between_steps() -> None:
    running = Running(10 * recounting.STEP)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(others())
    await running.recounting.count()
    other.cancel()
    assert turns >= 10
    assert running.lines() == []


async def test_a_count_that_is_overtaken_is_counted_as_that_and_tells_nothing() -> None:
    running = Running(2 * recounting.STEP)
    count = asyncio.create_task(running.recounting.count())
    await asyncio.sleep(0)
    running.gate.load_quotas(QuotaTree.build([quota("acme", {"pods": "1"})]), 1.0)
    await count
    assert 'extauthz_recounts_total{result="overtaken"} 1.0' in await running.exposition()
    assert running.lines() == []


async def test_it_is_counted_again_and_again_until_cancelled_even_in_the_middle() -> None:
    running = Running(2 * recounting.STEP, every_s=0.001)
    task = asyncio.create_task(running.recounting.run())
    async with asyncio.timeout(10):
        while not re.search(r'extauthz_recounts_total{result="exact"} [2-9]', await running.exposition()):  # noqa: ASYNC110
            await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await running.recounting.count()
    running.log.close()


async def test_0_is_never() -> None:
    running = Running(1)
    await asyncio.wait_for(running.recounting.run(), 5)
    assert "extauthz_recounts_total{" not in await running.exposition()
    running.log.close()


async def test_a_gate_that_counts_anew_gives_others_their_turn_and_a_write_waits_for_it() -> None:
    running = Running(100)
    counting, usage = Counting(running.gate), running.gate.ledger.usage
    task = asyncio.create_task(counting.run())
    try:
        running.gate.observe_default_storage_class("fast")
        turns = 0
        while usage.is_counting:
            await asyncio.sleep(0)
            turns += 1
        assert turns >= (100 - usage_module.AT_ONCE) // counts.SLICE
        running.gate.observe_default_storage_class("slow")
        await counting.whole()
        assert not usage.is_counting
        assert running.gate.ledger.drift() == {}
    finally:
        task.cancel()
