"""Which autoscalers are told, and what happens when nothing can be. What is written is in tests/contract."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from extauthz.core.decision.gate import Gate
from extauthz.core.model import Decision, Lower, Operation, Verdict, WorkloadRef
from extauthz.core.objects.fields import controller
from extauthz.core.queries import Queries
from extauthz.inputs.cluster.live import DEPLOYMENTS
from extauthz.inputs.kube.connection import ApiError, Unreachable
from extauthz.tell.observe.autoscalers import ABSENT_S, KEPT_S, KINDS, MOST_FOUND
from extauthz.tell.observe.episodes import RETRY_S, Recent
from extauthz.tell.observe.kube_events import EVENTS, LOWERED, MAX_NOTE, KubeEvents, fitted, hint
from extauthz.tell.observe.observers import Report
from extauthz.testing import gate, quota, workload
from tests.support.kubecalls import ScriptedApi

HPAS, POD_AUTOSCALERS, SCALED_OBJECTS = KINDS
DOWN = Unreachable("https://10.0.0.1: connection refused")
WITHIN_S = 20.0


def named(name: str, target: dict[str, Any] | None, namespace: str = "team-a") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"},
        "spec": None if target is None else {"scaleTargetRef": target},
    }


def refusal(name: str = "web", verdict: Verdict = Verdict.DENY) -> Decision:
    ref = WorkloadRef("apps", "deployments", "team-a", name)
    reason = "exceeded-quota" if verdict is Verdict.DENY else "fits"
    return Decision("d1", verdict, reason, "forbidden: so", ref, Operation.UPDATE, True, False, 8, 4)


class Cluster:
    """Deployments ``web`` and ``api``, an API server without any autoscaler, and events."""

    def __init__(self, **settings: Any) -> None:
        self.api = ScriptedApi()
        self.now_s = 1_000_000.0
        self.told: list[str] = []
        self.gate: Gate = gate([quota("acme", {"cpu": "2"})], workload("web"), workload("api"))
        self.recent = Recent(lambda: self.now_s)
        self.events = KubeEvents(
            self.api,
            Queries(self.gate.ledger),
            {("apps", "deployments"): DEPLOYMENTS},
            self.recent.blocked,
            instance="extauthz-0",
            tell=lambda _level, event, **_: self.told.append(event),
            clock=lambda: self.now_s,
            calls_per_s=1e6,
            **settings,
        )

    def have(self, resource: Any, *items: dict[str, Any]) -> None:
        self.api.collections.add(resource.collection("team-a"))
        for item in items:
            self.api.put(resource.object("team-a", item["metadata"]["name"]), item)

    async def refused(self, *names: str) -> None:
        for name in names or ("web",):
            self.recent.decided(Report(refusal(name)))
        await self.events.write()

    @property
    def subjects(self) -> list[tuple[str, str]]:
        path = EVENTS.collection("team-a")
        return [
            (one.body["regarding"]["kind"], one.body["regarding"]["name"])
            for one in self.api.writes(path)
            if one.method == "POST"
        ]

    def in_force(self) -> list[str]:
        path = EVENTS.collection("team-a") + "/"
        return [at for at in self.api.objects if at.startswith(path)]

    def lists(self, resource: Any) -> int:
        return sum(one.method == "GET" and one.path == resource.collection("team-a") for one in self.api.called)


WEB = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


@pytest.mark.parametrize(
    ("resource", "target", "is_told"),
    [
        (HPAS, WEB, True),
        (POD_AUTOSCALERS, WEB, True),
        (SCALED_OBJECTS, WEB, True),
        (SCALED_OBJECTS, {"name": "web"}, True),
        (HPAS, {"apiVersion": "apps/v1beta2", "kind": "Deployment", "name": "web"}, True),
        (HPAS, WEB | {"name": "api"}, False),
        (HPAS, WEB | {"kind": "StatefulSet"}, False),
        (HPAS, WEB | {"apiVersion": "example.dev/v1"}, False),
        (HPAS, {}, False),
        (HPAS, None, False),
    ],
    ids=[
        "hpa", "knative", "keda", "keda by name alone", "another version", "another name", "another kind",
        "another group", "no target", "no spec",
    ],
)  # fmt: skip
async def test_the_autoscaler_that_names_the_workload_is_told(resource: Any, target: Any, is_told: bool):
    cluster = Cluster()
    cluster.have(resource, named("scaler", target))
    await cluster.refused()
    assert cluster.subjects == [("Deployment", "web"), *[(resource.kind, "scaler")] * is_told]


KNATIVE, KSERVE = "serving.knative.dev/v1", "serving.kserve.io/v1beta1"
REVISION, CONFIGURATION = (KNATIVE, "Revision", "web-00001"), (KNATIVE, "Configuration", "web")
SERVICE, INFERENCE = (KNATIVE, "Service", "web"), (KSERVE, "InferenceService", "model")


def made_by(owner: tuple[str, str, str] | None) -> dict[str, Any]:
    if owner is None:
        return {}
    api, kind, name = owner
    reference = {"apiVersion": api, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}
    return {"ownerReferences": [reference]}


@pytest.mark.parametrize(
    ("chain", "told"),
    [
        ([REVISION, CONFIGURATION, SERVICE, None], [("Service", "web")]),
        ([REVISION, CONFIGURATION, SERVICE, INFERENCE], [("InferenceService", "model")]),
        ([REVISION, CONFIGURATION, None], []),
        ([REVISION], []),
        ([INFERENCE], [("InferenceService", "model")]),
        ([("apps/v1", "ReplicaSet", "web-1")], []),
        ([("example.dev/v1", "InferenceService", "model")], []),
        ([(KSERVE, "InferenceService", "a%b C")], []),
    ],
    ids=[
        "Knative",
        "KServe on Knative",
        "by hand",
        "may not look",
        "KServe",
        "another kind",
        "another group",
        "no name",
    ],
)
async def test_what_the_owner_of_a_workload_writes_is_told(chain: list, told: list[tuple[str, str]]):
    cluster = Cluster()
    (ref, seen), above = observed("web"), chain[0]
    cluster.gate.observe(ref, replace(seen, owner=controller(made_by(above)["ownerReferences"])))
    for lower, upper in pairwise(chain):
        api, kind, name = lower
        path = f"/apis/{api}/namespaces/team-a/{kind.lower()}s/{name}"
        cluster.api.put(path, {"metadata": {"name": name, **made_by(upper)}})
    await cluster.refused()
    assert cluster.subjects == [("Deployment", "web"), *told]


async def test_a_count_that_was_lowered_is_told_by_a_reason_of_its_own_and_the_refusals_after_it_are_not():
    cluster = Cluster()
    cluster.recent.decided(Report(refusal()._replace(todo=Lower(6, ""), sentence="asked for 8 and may have 6")))
    await cluster.events.write()
    await cluster.refused()
    (event,) = cluster.api.writes(EVENTS.collection("team-a"))
    assert (event.body["reason"], event.body["type"]) == (LOWERED, "Warning")
    hint = "; see: extauthz explain deployments.apps/web -n team-a"
    assert event.body["note"] == f"asked for 8 and may have 6{hint}"


async def test_no_more_than_a_few_autoscalers_are_told():
    cluster = Cluster()
    cluster.have(HPAS, *(named(f"scaler-{n}", WEB) for n in range(20)))
    await cluster.refused()
    assert len(cluster.subjects) == 1 + MOST_FOUND


async def test_a_namespace_is_listed_once_for_many_of_its_workloads():
    cluster = Cluster()
    cluster.have(HPAS, named("scaler", WEB))
    await cluster.refused("web", "api")
    assert cluster.lists(HPAS) == 1
    assert cluster.api.called[0].query == {"limit": "250"}
    cluster.now_s += KEPT_S
    cluster.gate.observe(*observed("late"))
    await cluster.refused("late")
    assert cluster.lists(HPAS) == 2


def observed(name: str) -> Any:
    made = gate([], workload(name))
    ref = WorkloadRef("apps", "deployments", "team-a", name)
    return ref, made.ledger.get(ref).observed


@pytest.mark.parametrize("status", [404, 403], ids=["not installed", "no right"])
async def test_a_kind_that_is_not_there_is_not_asked_for_again_for_a_while(status: int):
    cluster = Cluster()
    cluster.api.faults = [ApiError(status, "", "")]
    cluster.have(HPAS, named("scaler", WEB))
    await cluster.refused("web")
    assert cluster.subjects == [("Deployment", "web")]
    cluster.now_s += KEPT_S
    await cluster.refused("api")
    assert cluster.lists(HPAS) == 1
    cluster.now_s += ABSENT_S
    cluster.gate.observe(*observed("late"))
    await cluster.refused("late")
    assert cluster.lists(HPAS) == 2


async def test_a_list_without_items_has_no_autoscalers():
    cluster = Cluster()
    cluster.have(HPAS)
    cluster.api.empty_lists_are_null = True
    await cluster.refused()
    assert cluster.subjects == [("Deployment", "web")]


async def test_what_the_gate_has_not_seen_has_no_events():
    cluster = Cluster()
    await cluster.refused("nobody")
    assert cluster.api.called == []


async def test_a_server_that_does_not_answer_is_told_once_and_asked_again_later():
    cluster = Cluster()
    cluster.api.faults = [DOWN, DOWN]
    await cluster.refused("web", "api")
    assert len(cluster.api.called) == 1, "the first failure ends the round"
    await cluster.events.write()
    assert (cluster.subjects, cluster.told) == ([], ["events-not-written"])
    cluster.now_s += RETRY_S
    await cluster.events.write()
    assert sorted(cluster.subjects) == [("Deployment", "api"), ("Deployment", "web")]
    assert cluster.told == ["events-not-written", "events-written"]
    assert cluster.events.results == {"failed": 2, "created": 2}


async def test_an_event_that_was_written_is_not_written_again_when_the_next_one_fails():
    cluster = Cluster()
    cluster.have(HPAS, named("scaler", WEB))
    await cluster.refused("api")  # its namespace is listed by now: what follows are two events
    cluster.api.faults = [None, DOWN]
    await cluster.refused("web")
    cluster.now_s += RETRY_S
    await cluster.events.write()
    written = [("Deployment", "api"), ("Deployment", "web"), ("HorizontalPodAutoscaler", "scaler")]
    assert sorted(set(cluster.subjects)) == written
    assert len(cluster.in_force()) == len(written)


async def test_run_writes_until_it_is_cancelled():
    cluster = Cluster(tick_s=0.001)
    running = asyncio.create_task(cluster.events.run())
    await asyncio.sleep(0)
    cluster.recent.decided(Report(refusal()))
    async with asyncio.timeout(WITHIN_S):
        while not cluster.subjects:  # noqa: ASYNC110 (the stand-in has no event to wait for)
            await asyncio.sleep(0.001)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_episodes_that_were_never_told_end_untold():
    cluster = Cluster()
    cluster.api.faults = [DOWN]
    await cluster.refused()
    cluster.recent.decided(Report(refusal(verdict=Verdict.ALLOW)))
    await cluster.events.write()
    assert cluster.subjects == []


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("short; largest allowed replicas: 4", "short; largest allowed replicas: 4"),
        ("a" * 2000 + "; largest allowed replicas: 4", "a" * (MAX_NOTE - 32) + "…; largest allowed replicas: 4"),
        ("a" * 2000, "a" * (MAX_NOTE - 3) + "…"),
        ("a; " + "b" * 2000, "a; " + "b" * (MAX_NOTE - 6) + "…"),
        ("a" * MAX_NOTE, "a" * MAX_NOTE),
    ],
    ids=["short", "with an end worth keeping", "without", "long end", "exactly"],
)
def test_a_note_is_cut_to_what_an_event_may_hold(sentence: str, expected: str):
    what_to_run = hint(WorkloadRef("a" * 200, "b" * 60, "c" * 63, "d" * 253))
    for text in (sentence, sentence * 9):
        assert fitted(text, what_to_run).endswith(what_to_run)
        assert len(fitted(text, what_to_run).encode()) <= MAX_NOTE
    assert fitted(sentence) == expected
    assert len(fitted(sentence).encode()) <= MAX_NOTE


async def test_what_a_quota_in_mode_audit_would_refuse_is_a_normal_event_once_an_episode():
    cluster = Cluster()
    for _ in range(3):
        cluster.recent.decided(Report(refusal(verdict=Verdict.ALLOW)._replace(reason="would-refuse")))
    await cluster.events.write()
    (event,) = [one.body for one in cluster.api.writes(EVENTS.collection("team-a")) if one.method == "POST"]
    assert (event["type"], event["reason"]) == ("Normal", "WorkspaceQuotaWouldRefuse")
    assert event["note"].startswith("forbidden: so")
    cluster.recent.decided(Report(refusal(verdict=Verdict.ALLOW)))
    cluster.recent.decided(Report(refusal()))
    await cluster.events.write()
    reasons = [one.body["reason"] for one in cluster.api.writes(EVENTS.collection("team-a")) if one.method == "POST"]
    assert reasons == ["WorkspaceQuotaWouldRefuse", "WorkspaceQuotaExceeded"]
