"""Consistent reads: what they ask, what they end, and that nothing makes them ask without bound."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from extauthz.core.decision.gate import Gate
from extauthz.core.decision.policy import Policy
from extauthz.core.kinds import PODS, REVISIONS
from extauthz.core.ledger.entry import Event
from extauthz.core.model import Decision, Observed, WorkloadRef
from extauthz.core.objects.workloads import observe
from extauthz.core.quota.tree import QuotaTree
from extauthz.demo.apiserver import Key
from extauthz.inputs.cluster import live
from extauthz.inputs.cluster import reader as cluster_reads
from extauthz.inputs.cluster.event_handlers import InvalidObjects, Seen
from extauthz.inputs.cluster.live import PHASES, LiveCluster
from extauthz.inputs.cluster.reader import Reader
from extauthz.inputs.kube.connection import ApiError, Connection, Unreachable, connect
from extauthz.inputs.kube.resource import Resource
from extauthz.inputs.settlement import reads
from extauthz.inputs.settlement.reads import ConsistentReads, Result
from extauthz.testing import create, gate, owned_by, quota, scale, shown, workload
from tests.controlplane.plane import write_kubeconfig
from tests.support.apireading import Fault
from tests.support.apiserver import ApiServer
from tests.support.certs import Authority
from tests.waiting import until

WEB = WorkloadRef("apps", "deployments", "team-a", "web")
WINDOW_S = 90.0
UNAVAILABLE = json.dumps({"kind": "Status", "code": 503, "reason": "ServiceUnavailable"}).encode()


class Reading:
    """A gate that has seen nothing yet, and reads from the stand-in. Its clock stands still unless it is moved."""

    def __init__(self, api: ApiServer, connection: Connection) -> None:
        self.api = api
        self.now_s = 1000.0
        self.gate = Gate(Policy(window_s=WINDOW_S))
        self.gate.load_quotas(QuotaTree.build([quota("acme", {"pods": "9"})]), 0.0)
        self.told: list[tuple[Result, int]] = []
        self.cluster = LiveCluster(connection, self.gate, InvalidObjects(print))
        bring = Reader(connection, self.gate, self.cluster).bring
        self.reads = ConsistentReads(bring, self.gate.ledger.pending, self._tell, clock=lambda: self.now_s)
        self.gate.state_synced(True)
        self._count = 0

    def _tell(self, result: Result, ref: WorkloadRef, ended: int, why: str) -> None:
        self.told.append((result, ended))

    def put(self, tree: dict[str, Any], resource: str = "deployments") -> None:
        metadata = tree["metadata"]
        group = tree["apiVersion"].rpartition("/")[0]
        self.api.objects.put(Key(group, resource, metadata.get("namespace", ""), metadata["name"]), tree, "ADDED")

    def targets(self, part: str) -> list[str]:
        """Of the requests so far."""
        return [one.target for one in self.api.seen if part in one.target]

    def pods(self) -> int:
        return next(row.used // 10**9 for row in self.gate.usage())

    def decide(self, request) -> Decision:
        self._count += 1
        return self.gate.decide(shown(self.gate, request), f"d{self._count}", self.now_s)


@pytest.fixture
async def reading(tmp_path: Path) -> AsyncIterator[Reading]:
    authority = Authority(tmp_path)
    with ApiServer(authority.issue("apiserver")) as api:
        write_kubeconfig(tmp_path / "kubeconfig", f"https://127.0.0.1:{api.port}", authority.ca, {"token": "t"})
        async with connect(tmp_path / "kubeconfig") as connection:
            made = Reading(api, connection)
            made.put(
                {
                    "apiVersion": "v1",
                    "kind": "Namespace",
                    "metadata": {"name": "team-a", "labels": {"workspace": "acme"}},
                },
                "namespaces",
            )
            yield made


@pytest.fixture
async def running(reading: Reading) -> AsyncIterator[Reading]:
    """One that reads by itself."""
    task = asyncio.create_task(reading.reads.run())
    yield reading
    assert not task.done(), task.exception()
    task.cancel()
    await asyncio.wait([task])


async def test_a_read_brings_a_workload_with_its_namespace_limits_and_replica_sets(reading):
    reading.put(workload("web", 2, {}))
    limits = {"limits": [{"type": "Container", "defaultRequest": {"cpu": "1"}}]}
    reading.put(
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "team-a"}, "spec": limits},
        "limitranges",
    )
    reading.put(
        workload("web-1", 5, kind="ReplicaSet", labels={"app": "web"}, ownerReferences=owned_by("web")), "replicasets"
    )
    assert await reading.reads.read(WEB)
    assert reading.pods() == 4, "what its ReplicaSet has, less the one of a surge"
    assert reading.targets("fieldSelector=metadata.name%3Dteam-a")
    assert reading.targets("/namespaces/team-a/limitranges")
    assert reading.targets("/replicasets?labelSelector=app%3Dweb")
    before = len(reading.api.seen)
    await reading.reads.read(WEB)
    assert len(reading.api.seen) == before + 1, "the namespace is known by now, and so is this version"
    reading.put(workload("web", 3, {}, resourceVersion="77"))
    await reading.reads.read(WEB)
    assert len(reading.api.seen) == before + 3, "a ReplicaSet may be of what it had in between"


async def test_a_deployment_is_news_until_its_replica_sets_were_read_too(reading):
    """Else a second read would take the first for the watch, and templates that it had in between stay unknown."""
    reading.put(workload("web", 2, {}))
    await reading.reads.read(WEB)
    reading.put(workload("web", 1, {}))
    sets = workload("web-1", 5, kind="ReplicaSet", labels={"app": "web"}, ownerReferences=owned_by("web"))
    reading.put(sets, "replicasets")
    reading.api.reading.faults.append(Fault(503, UNAVAILABLE, only="replicasets"))
    assert not await reading.reads.read(WEB)
    assert reading.pods() == 2, "as before"
    assert await reading.reads.read(WEB)
    assert reading.pods() == 4, "what its ReplicaSet has, less the one of a surge"


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "team-a", "uid": "u"},
    "spec": {"containers": []},
}


async def test_of_a_resize_the_pod_is_read(reading):
    reading.put(POD, "pods")
    assert await reading.reads.read(WorkloadRef("", "pods/resize", "team-a", "a"))
    assert reading.gate.ledger.observations.pod(WorkloadRef("", "pods", "team-a", "a")) is not None
    assert len(reading.targets("/pods?fieldSelector=metadata.name%3Da")) == 1


async def test_what_is_listed_anew_has_the_pods(reading):
    """A resize that an earlier ledger has allowed is seen of the pod alone."""
    reading.put(POD, "pods")
    await reading.cluster.list_anew()
    assert reading.gate.ledger.observations.pod(WorkloadRef("", "pods", "team-a", "a")) is not None
    assert list(reading.cluster.seen())[-1] == "pods", "the other gates are told how far"


async def gone(reading, version: str) -> None:
    """It is deleted and read. Then the watch shows that it was gone as of a version."""
    reading.put(workload("web", 2))
    await reading.reads.read(WEB)
    reading.api.objects.remove(Key("apps", "deployments", "team-a", "web"))
    read = asyncio.create_task(reading.reads.read(WEB))
    while not reading.targets("metadata.name%3Dweb")[1:]:  # noqa: ASYNC110 (the stand-in is in another thread)
        await asyncio.sleep(0.001)
    assert reading.pods() == 2
    reading.gate.observe(WEB, None, version=version)
    await read


async def test_what_a_read_shows_to_be_gone_is_gone_once_the_watch_shows_it(reading):
    await gone(reading, "9999")
    assert reading.pods() == 0
    assert reading.told == [(Result.OK, 0)] * 2
    late = observe(workload("web", 2, version="1"))
    assert not reading.gate.observe(*late), "what is from before comes late"


async def test_a_read_does_not_wait_for_a_watch_that_is_late(reading, monkeypatch):
    monkeypatch.setattr(cluster_reads, "SHOWN_WITHIN_S", 0.05)
    await gone(reading, "0")
    assert reading.pods() == 2
    assert reading.told == [(Result.OK, 0), (Result.BEHIND, 0)]
    assert WEB in reading.reads._waits, "it is tried again"


@pytest.mark.parametrize(
    "resource", [live.REVISIONS, *(one for phase in PHASES[1:] for one in phase)], ids=lambda one: one.plural
)
async def test_others_must_have_come_as_far_as_a_list_that_lacks_what_was_there(reading, resource):
    """But for what no gate writes."""
    cluster, kind = reading.cluster, resource.group_resource
    listed = cluster._listed(resource)
    await listed.replaced([], "5")
    ref = WorkloadRef(resource.group, resource.plural, "team-a", "a")
    reading.gate.observe(ref, Observed(1, None, resource_version="3"))
    await listed.replaced([Seen(ref, Observed(1, None, resource_version="3"), "3")] if counts(resource) else [], "6")
    assert kind not in cluster.seen(), "nothing has gone"
    await listed.replaced([], "7")
    assert cluster.seen().get(kind) == (7 if counts(resource) else None)


def counts(resource: Resource) -> bool:
    """Whether a gate may allow a write of one, or what it costs is a part of that."""
    return (resource.group, resource.plural) not in (PODS, REVISIONS)


async def test_readers_of_one_workload_share_a_read(reading):
    reading.put(workload("web", 2))
    assert await asyncio.gather(*(reading.reads.read(WEB) for _ in range(5))) == [True] * 5
    assert len(reading.targets("metadata.name%3Dweb")) == 1


async def test_answers_of_one_workload_close_together_cost_one_read_and_end_together(running):
    running.put(workload("web", 2))
    await running.reads.read(WEB)
    for replicas in (3, 4):
        decision = running.decide(scale("web", replicas))
        assert decision.pending_write
        ref = running.gate.ledger.pending.settle(decision.id, Event.ANSWERED_OK, running.now_s)
        assert ref == WEB
        running.reads.soon(ref)
    assert running.gate.ledger.pending_writes == 2
    running.now_s += reads.COALESCE_S
    await until(lambda: running.gate.ledger.pending_writes == 0)
    assert len(running.targets("metadata.name%3Dweb")) == 2
    assert running.told[-1] == (Result.OK, 2)


@pytest.mark.parametrize("many", [1, reads.SEVERAL], ids=["read-alone", "caught-up-together"])
async def test_an_answer_that_comes_while_a_workload_is_read_waits_for_the_next_read(many: int):
    names = [f"w{number}" for number in range(many)]
    made = gate([quota("acme", {"pods": "99"})], *(workload(name, 1) for name in names))
    now_s, told = [1000.0], []

    def answered() -> None:
        """The clock goes on before and after."""
        now_s[0] += 1.0
        for one in names:
            made.ledger.pending.settle(f"d-{one}", Event.ANSWERED_OK, now_s[0])
        now_s[0] += 1.0

    async def bring(ref: WorkloadRef) -> reads.Brought:
        answered()
        return reads.Brought(Result.OK, True)

    async def catch_up(refs: Sequence[WorkloadRef]) -> Sequence[WorkloadRef]:
        answered()
        return refs

    pending = made.ledger.pending
    consistent = ConsistentReads(bring, pending, lambda *one: told.append(one), lambda: now_s[0], catch_up)
    for name in names:
        made.decide(shown(made, scale(name, 2)), f"d-{name}", now_s[0])
    task = asyncio.create_task(consistent.run())
    for left in (many, 0):
        told.clear()
        for name in names:
            consistent.soon(WEB._replace(name=name))
        now_s[0] += reads.COALESCE_S
        await until(lambda: len(told) == many)
        assert len(pending) == left
    task.cancel()
    await asyncio.wait([task])


async def test_a_pending_write_whose_w_has_elapsed_is_ended_by_a_read_that_nobody_asked_for(running):
    running.put(workload("web", 2))
    await running.reads.read(WEB)
    assert running.decide(scale("web", 4)).pending_write
    running.now_s += WINDOW_S - 1
    await asyncio.sleep(3 * reads.TICK_S)
    assert running.gate.ledger.pending_writes == 1
    running.now_s += 2
    await until(lambda: running.gate.ledger.pending_writes == 0)
    assert running.pods() == 2


async def test_a_create_that_left_its_name_to_the_server_is_ended_by_a_list_of_all(running):
    await running.reads.read(WEB)
    made = workload("", 3)
    made["metadata"] |= {"generateName": "web-"}
    decision = running.decide(create(made))
    assert decision.pending_write, decision
    running.put(workload("web-abc", 3))
    running.reads.soon(running.gate.ledger.pending.settle(decision.id, Event.ANSWERED_OK, running.now_s))
    running.now_s += reads.COALESCE_S
    await until(lambda: running.gate.ledger.pending_writes == 0)
    assert running.pods() == 3


async def test_a_read_that_fails_keeps_the_pending_write_and_is_tried_again_later(running):
    running.put(workload("web", 2))
    await running.reads.read(WEB)
    decision = running.decide(scale("web", 4))
    running.api.reading.faults.extend([Fault(503, UNAVAILABLE), Fault(then="cut")])
    running.reads.soon(running.gate.ledger.pending.settle(decision.id, Event.ANSWERED_OK, running.now_s))
    running.now_s += reads.COALESCE_S
    await until(lambda: (Result.REFUSED, 0) in running.told)
    assert running.gate.ledger.pending_writes == 1
    failed = len(running.api.seen)
    await asyncio.sleep(3 * reads.TICK_S)
    assert len(running.api.seen) == failed, "not before its time"
    running.now_s += 3
    await until(lambda: (Result.UNREACHABLE, 0) in running.told)
    running.now_s += 10
    await until(lambda: running.gate.ledger.pending_writes == 0)
    assert running.told[-1] == (Result.OK, 1)


async def test_what_is_not_there_is_not_looked_for_again_at_once(reading):
    absent = WEB._replace(name="absent")
    assert await reading.reads.look(absent)
    assert not await reading.reads.look(absent)
    assert len(reading.targets("metadata.name%3Dabsent")) == 1
    reading.now_s += reads.LOOK_AGAIN_S + 0.1
    assert await reading.reads.look(absent)


async def test_looks_beyond_all_measure_are_answered_by_what_is_known(reading, monkeypatch):
    monkeypatch.setattr(reads, "WAITING_AT_MOST", 3)
    names = [WEB._replace(name=f"w{number}") for number in range(5)]
    assert sorted(await asyncio.gather(*map(reading.reads.look, names))) == [False, False, True, True, True]


async def test_looks_do_not_hold_up_what_pending_writes_wait_for(running, monkeypatch):
    running.api.reading.faults.extend([Fault(then="hang", only="unseen")] * reads.AT_ONCE)
    looks = [asyncio.create_task(running.reads.look(WEB._replace(name=f"unseen{n}"))) for n in range(2 * reads.AT_ONCE)]
    await until(lambda: len(running.targets("unseen")) == reads.AT_ONCE)
    running.reads.soon(WEB)
    running.now_s += reads.COALESCE_S
    await until(lambda: running.told == [(Result.OK, 0)])
    for look in looks:
        look.cancel()


async def test_a_kind_that_nobody_serves_has_no_objects(reading):
    gizmo = WorkloadRef("example.dev", "gadgets", "team-a", "gizmo")
    assert not await reading.reads.read(gizmo)
    assert reading.told == [(Result.UNKNOWN_KIND, 0)]
    assert reading.api.seen == []


class Cluster:
    """In place of a live one."""

    def __init__(self, *resources: Resource, is_listed: bool = True) -> None:
        self.resources = {(one.group, one.plural): one for one in resources}
        self._is_listed = is_listed

    def serves(self, kind: tuple[str, str]) -> bool:
        return kind in self.resources or not self._is_listed


class Failing:
    """In place of a connection."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def call(self, *args: Any, **flags: Any) -> dict[str, Any]:
        raise self._error


async def brought(cluster: Cluster, error: Exception) -> tuple[Result, bool, str, int]:
    """And how many pods are counted afterwards."""
    made = gate([quota("acme", {"pods": "9"})], workload("web", 2))
    reader = Reader(cast("Connection", Failing(error)), made, cast("LiveCluster", cluster))
    result = await reader.bring(WEB)
    return *result, next(row.used // 10**9 for row in made.usage())


@pytest.mark.parametrize(
    ("is_listed", "is_shown", "why", "pods"),
    [
        pytest.param(True, True, "there is no such custom resource that can be scaled", 0, id="gone"),
        pytest.param(False, False, "custom resources have not been listed yet", 2, id="unknown"),
    ],
)
async def test_of_a_kind_that_is_not_watched_there_is_nothing_once_all_kinds_are_known(
    is_listed: bool, is_shown: bool, why: str, pods: int
):
    found = await brought(Cluster(is_listed=is_listed), AssertionError("nobody asks"))
    assert found == (Result.UNKNOWN_KIND, is_shown, why, pods)


@pytest.mark.parametrize(
    ("error", "result", "why"),
    [
        (ApiError(403, "Forbidden", "no"), Result.FORBIDDEN, "403 Forbidden: no"),
        (ApiError(500, "InternalError", "no"), Result.REFUSED, "500 InternalError: no"),
        (Unreachable("no answer"), Result.UNREACHABLE, "no answer"),
    ],
)
async def test_what_could_not_be_read_is_as_it_was(error: Exception, result: Result, why: str):
    deployments = Resource("apps", "v1", "deployments", "Deployment")
    said, is_shown, text, pods = await brought(Cluster(deployments), error)
    assert (said, is_shown, pods) == (result, False, 2)
    assert text.startswith(why)
