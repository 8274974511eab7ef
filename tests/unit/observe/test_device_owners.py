"""What kinds of owners have the devices of a quota, as it is added up for metrics."""

from __future__ import annotations

import asyncio

import pytest

from extauthz.core.queries import Queries
from extauthz.tell.observe import quota_facts
from extauthz.tell.observe.quota_facts import DeviceOwners
from extauthz.testing import gate, quota, workload

GPUS = "requests.nvidia.com/gpu"


@pytest.mark.parametrize("hard", [{"requests.cpu": "9"}, {"pods": "9", "requests.storage": "1Gi"}])
async def test_where_no_device_is_limited_nothing_is_added_up(hard: dict[str, str]) -> None:
    found = DeviceOwners(Queries(gate([quota("acme", hard)]).ledger))
    await found.look()
    assert found.used == {}


async def test_each_kind_of_owner_has_its_sum_in_each_quota_that_limits_the_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quota_facts, "SLICE", 1)
    quotas = [quota("corp", {GPUS: "99"}, namespaces=None), quota("acme", {GPUS: "20", "pods": "99"}, parent="corp")]
    trees = [
        workload("web", 2, {"nvidia.com/gpu": "3", "cpu": "1"}),
        workload("api", 1, {"nvidia.com/gpu": "4"}),
        workload("db", 2, {"nvidia.com/gpu": "1"}, kind="StatefulSet"),
        workload("idle", 0, {"nvidia.com/gpu": "8"}),
    ]
    found = DeviceOwners(Queries(gate(quotas, *trees).ledger))
    await found.look()
    each = {"deployments.apps": 10.0, "statefulsets.apps": 2.0}
    assert found.used == {(name, GPUS, kind): used for name in ("corp", "acme") for kind, used in each.items()}


async def test_it_looks_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota_facts, "LOOK_S", 0.0)
    looks = 0

    class Counted(DeviceOwners):
        async def look(self) -> None:
            nonlocal looks
            looks += 1

    running = asyncio.create_task(Counted(Queries(gate([]).ledger)).run())
    for _ in range(10):
        await asyncio.sleep(0)
    running.cancel()
    assert looks > 2
