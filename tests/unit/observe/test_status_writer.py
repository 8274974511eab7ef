"""The writer of statuses when the API server will not have them. What it writes is in tests/contract."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from extauthz.core.decision.gate import Gate
from extauthz.core.model import WorkloadRef
from extauthz.core.queries import Ceiling
from extauthz.core.quota.problems import standing
from extauthz.core.quota.spec import parse
from extauthz.core.quota.tree import QuotaTree
from extauthz.inputs.kube.connection import ApiError, Unreachable
from extauthz.tell.observe import status
from extauthz.tell.observe.autoscalers import NeverFit, NeverFits, Subject
from extauthz.tell.observe.observers import Serving
from extauthz.tell.observe.quota_status import Facts, Selected
from extauthz.tell.observe.status import COLLECTION, HEARTBEAT_S, StatusWriter
from extauthz.testing import gate, workload
from tests.support.kubecalls import ScriptedApi
from tests.worlds.loop import VirtualLoop

NAMES = ("a", "b", "c")
DOWN = Unreachable("https://10.0.0.1: connection refused")
WITHIN_S = 20.0


def quota(name: str, **spec: object) -> dict[str, object]:
    selector = {"namespaceSelector": {"matchLabels": {"workspace": "acme"}}}
    return {
        "apiVersion": "extauthz.dev/v1alpha1",
        "kind": "WorkspaceQuota",
        "metadata": {"name": name, "uid": name, "generation": 1},
        "spec": {**selector, "hard": {"cpu": "10"}, "mode": "Enforce", **spec},
    }


class Cluster:
    """Quotas ``a``, ``b`` and ``c``, a gate over them, and their writer."""

    def __init__(self, *faults: ApiError | Unreachable, writes_per_s: float = 1e6) -> None:
        self.serving = Serving()
        self.never_fit: NeverFit | None = {}
        self.api = ScriptedApi()
        self.api.faults = list(faults)
        self.gate = gate([], workload("web", 3))
        self.gate.load_quotas(QuotaTree.build([parse(quota(name)) for name in NAMES]), 0.0)
        self.standings = [standing(self.api.put(f"{COLLECTION}/{name}", quota(name)), 1) for name in NAMES]
        self.told: list[tuple[str, object]] = []
        self.said: list[tuple[str, str, str]] = []
        self.now = datetime(2026, 11, 21, tzinfo=UTC)
        self.writer = StatusWriter(
            self.api,
            self.gate,
            lambda: self.standings,
            tell=lambda _, event, **fields: self.told.append((event, fields.get("quota"))),
            now=lambda: self.now,
            sweep_s=0.001,
            writes_per_s=writes_per_s,
            wrote=self._wrote,
            serving=lambda: self.serving,
            never_fit=lambda: self.never_fit,
        )

    def _wrote(self, facts: Facts, status: Any) -> None:
        over = next(one for one in status["conditions"] if one["type"] == "WithinHard")
        self.said.append((facts.standing.name, over["type"], over["status"]))

    def see(self) -> None:
        """What a watch would show of what is written."""
        self.standings = [standing(self.api.objects[f"{COLLECTION}/{name}"], 1) for name in NAMES]

    def status(self, name: str) -> Any:
        return self.api.objects[f"{COLLECTION}/{name}"]["status"]

    @property
    def written(self) -> list[str]:
        return [name for name in NAMES if "status" in self.api.objects[f"{COLLECTION}/{name}"]]


@pytest.mark.parametrize(
    "fault",
    [DOWN, *(ApiError(status, "", "not now") for status in (503, 429, 403))],
    ids=["unreachable", "503", "429", "403"],
)
async def test_what_stands_in_the_way_of_all_ends_the_sweep_and_is_told_once(fault: ApiError | Unreachable):
    cluster = Cluster(fault, fault)
    assert [await cluster.writer.sweep() for _ in range(3)] == [False, False, True]
    assert cluster.written == list(NAMES)
    assert len(cluster.api.called) == 2 + 3
    assert cluster.told == [("status-not-written", "a"), ("status-written", "a")]
    assert cluster.writer.results == Counter(failed=2, written=3)


async def test_a_status_that_is_refused_by_itself_holds_up_no_other_and_is_not_tried_again():
    cluster = Cluster(ApiError(422, "Invalid", "too long"))
    assert await cluster.writer.sweep()
    assert await cluster.writer.sweep()
    assert cluster.written == ["b", "c"]
    assert cluster.told == [("status-not-written", "a")]
    assert cluster.writer.results == Counter(failed=1, written=2)


async def test_after_a_conflict_the_next_sweep_writes():
    cluster = Cluster(ApiError(409, "Conflict", "the object has been modified"))
    assert await cluster.writer.sweep()
    assert cluster.written == ["b", "c"]
    assert await cluster.writer.sweep()
    assert (cluster.written, cluster.told) == (list(NAMES), [])


async def test_nothing_is_written_before_the_cluster_is_known():
    cluster = Cluster()
    cluster.gate.state_synced(False)
    assert await cluster.writer.sweep()
    assert cluster.api.called == []


async def test_who_may_be_outdated_does_not_write_back_what_it_last_saw():
    cluster = Cluster()
    cluster.gate.stale("nothing was heard of deployments.apps for 70 s")
    assert await cluster.writer.sweep()
    assert cluster.api.called == []
    cluster.gate.stale(None)
    assert await cluster.writer.sweep()
    assert cluster.written == list(NAMES)


async def test_what_another_gate_has_written_is_not_written_again():
    first, second = Cluster(), Cluster()
    await first.writer.sweep()
    there = [first.api.objects[f"{COLLECTION}/{name}"] for name in NAMES]
    second.standings = [standing(one, 1) for one in there]  # as its watch shows them
    await second.writer.sweep()
    assert second.api.called == []


async def test_a_status_that_stays_as_it_is_has_a_heartbeat_every_five_minutes():
    """Of several gates one writes it, and where none lives its age tells."""
    cluster, other = Cluster(), Cluster()
    await cluster.writer.sweep()
    cluster.see()
    assert cluster.status("a")["lastHeartbeatTime"] == "2026-11-21T00:00:00Z"
    cluster.now += timedelta(seconds=HEARTBEAT_S - 1)
    await cluster.writer.sweep()
    assert cluster.writer.results == Counter(written=3)
    cluster.now += timedelta(seconds=1)
    await cluster.writer.sweep()
    assert cluster.writer.results == Counter(written=6)
    assert cluster.status("a")["lastHeartbeatTime"] == "2026-11-21T00:05:00Z"
    cluster.see()
    other.standings, other.now = cluster.standings, cluster.now
    for _ in range(2):
        await other.writer.sweep()
    assert other.api.called == []


async def test_heartbeats_leave_room_for_other_writes_and_the_rest_comes_next(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(status, "HEARTBEATS", 2)
    cluster = Cluster()
    await cluster.writer.sweep()
    cluster.see()
    cluster.now += timedelta(seconds=HEARTBEAT_S)
    beats = []
    for _ in range(3):
        await cluster.writer.sweep()
        cluster.see()
        cluster.now += timedelta(seconds=1)
        beats.append([cluster.status(name)["lastHeartbeatTime"][-3:-1] for name in NAMES])
    assert beats == [["00", "00", "00"], ["01", "01", "00"], ["01", "01", "02"]]


async def test_a_hold_is_said_with_what_is_left_of_it_until_it_is_over():
    cluster = Cluster()
    cluster.gate.epoch_s = cluster.now.timestamp() - 1000
    cluster.gate.hold(1070.0)
    told = []
    for _ in range(4):
        await cluster.writer.sweep()
        ready = next(one for one in cluster.status("a")["conditions"] if one["type"] == "Ready")
        told.append((ready["status"], ready["message"].partition(":")[0]))
        cluster.now += timedelta(seconds=31)
        if len(told) == 3:
            cluster.gate.release()
    said = [f"no growth is granted for {left}" for left in ("70 s", "40 s", "10 s")]
    assert told == [*(("Unknown", one) for one in said), ("True", "the limits are in force as they are written")]


def test_no_more_are_written_in_a_second_than_are_allowed():
    cluster = Cluster(writes_per_s=2)
    loop = VirtualLoop(Random(1))

    async def sweep_twice() -> None:
        await cluster.writer.sweep()
        assert loop.time() >= len(NAMES) / 2
        began = loop.time()
        await cluster.writer.sweep()
        assert loop.time() - began < 0.1, "what has not changed costs no time"

    loop.run(sweep_twice())
    assert cluster.written == [*NAMES]


async def test_what_was_said_of_a_quota_that_has_gone_is_forgotten():
    cluster = Cluster()
    await cluster.writer.sweep()
    cluster.standings, kept = [], cluster.standings
    await cluster.writer.sweep()
    cluster.standings = kept  # as they were at the start, without a status
    await cluster.writer.sweep()
    assert cluster.writer.results == Counter(written=6)


async def test_before_it_is_known_what_autoscalers_may_ask_for_nothing_is_written():
    """A gate that begins would say that all is well, and 30 s later that it is not."""
    cluster = Cluster()
    cluster.never_fit = None
    assert await cluster.writer.sweep()
    assert cluster.written == []
    scaler = Subject("autoscaling/v2", "HorizontalPodAutoscaler", "team-a", "web", "u")
    ceiling = Ceiling(10, "b", "requests.cpu", 24 * 10**9, 10 * 10**9)
    found = NeverFits(scaler, WorkloadRef("apps", "deployments", "team-a", "web"), 24, ceiling)
    cluster.never_fit = {"b": (found,)}
    await cluster.writer.sweep()
    told = {name: cluster.api.objects[f"{COLLECTION}/{name}"]["status"] for name in NAMES}
    assert [one.get("neverFits") for one in told.values()] == [
        None,
        {"HorizontalPodAutoscaler team-a/web": "10 of 24"},
        None,
    ]


async def test_run_goes_on_through_failures_until_it_is_cancelled():
    cluster = Cluster(DOWN, DOWN, DOWN)
    running = asyncio.create_task(cluster.writer.run())
    async with asyncio.timeout(WITHIN_S):
        while cluster.written != list(NAMES):  # noqa: ASYNC110 (the stand-in has no event to wait for)
            await asyncio.sleep(0.001)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def labelled() -> Any:
    made = workload()
    made["metadata"]["labels"] = {"tier": "paid"}
    return made


OTHER = {"namespaceSelector": {"matchLabels": {"workspace": "other"}}}
PAID = {"workloadSelector": {"matchLabels": {"tier": "paid"}}}
BY_NAME = quota("a", namespaceSelector=None)
BELOW = quota("b", parent="a")


@pytest.mark.parametrize(
    ("objects", "quotas", "selected"),
    [
        ([], [quota("a")], Selected.NO_WORKLOAD),
        ([], [quota("a", **OTHER)], Selected.NO_NAMESPACE),
        ([workload()], [quota("a", **PAID)], Selected.NO_LABELLED_WORKLOAD),
        ([labelled()], [quota("a", **PAID)], Selected.LABELLED_WORKLOADS),
        ([workload()], [BY_NAME], Selected.NOBODY),
        ([workload("web", 0)], [quota("a")], Selected.WORKLOADS),
        ([], [BY_NAME, BELOW], Selected.CHILDREN),
        ([workload()], [BY_NAME, BELOW], Selected.BELOW),
        ([workload()], [quota("a"), BELOW], Selected.WORKLOADS),
    ],
)
async def test_whom_the_selectors_of_a_quota_find_is_told_and_nothing_else_is_wrong(objects, quotas, selected):
    found = {one["type"]: one for one in await found_of(gate([], *objects), *quotas)}
    told = found.pop("SelectsWorkloads")
    assert (told["status"], told["reason"], told["message"]) == selected.value
    assert {one["status"] for one in found.values()} == {"True"}


async def test_who_writes_a_status_says_so_and_who_finds_it_written_does_not():
    cluster = Cluster()
    await cluster.writer.sweep()
    assert cluster.said == [(name, "WithinHard", "True") for name in NAMES]
    await cluster.writer.sweep()
    assert len(cluster.said) == 3
    refused = Cluster(ApiError(422, "Invalid", "too long"))
    await refused.writer.sweep()
    assert [name for name, *_ in refused.said] == ["b", "c"], "what was not written was not said"


async def test_a_limit_above_the_parents_is_told():
    found = await found_of(gate([]), quota("a", parent="b"), quota("b", hard={"cpu": "5"}))
    assert "AboveParent" in {one["reason"] for one in found}


async def found_of(known: Gate, *objects) -> list[dict[str, str]]:
    """The conditions of the first of these quotas."""
    api = ScriptedApi()
    known.load_quotas(QuotaTree.build([parse(one) for one in objects]), 0.0)
    standings = [standing(api.put(f"{COLLECTION}/{one['metadata']['name']}", one), 1) for one in objects]
    writer = StatusWriter(api, known, lambda: standings, tell=lambda *_, **__: None, writes_per_s=1e6)
    await writer.sweep()
    found: list[dict[str, str]] = api.objects[f"{COLLECTION}/a"]["status"]["conditions"]
    return found


async def test_how_many_quotas_have_a_condition_that_does_not_hold_is_counted():
    cluster = Cluster()
    assert set(cluster.writer.failing().values()) == {0}
    await cluster.writer.sweep()
    assert cluster.writer.failing()["ModeInForce"] == 0
    cluster.serving = Serving(audits=True)
    await cluster.writer.sweep()
    assert cluster.writer.failing()["ModeInForce"] == 3
    cluster.standings = cluster.standings[:1]
    await cluster.writer.sweep()
    assert cluster.writer.failing()["ModeInForce"] == 1
