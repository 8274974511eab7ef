"""Events for owners: the same tests against the stand-in of the unit tests and against a real API server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, NamedTuple

import pytest

from extauthz.core.decision.gate import Gate
from extauthz.core.model import Verdict, WorkloadRef
from extauthz.core.queries import Ceiling, Queries
from extauthz.core.quota.problems import Fault, Standing, compact
from extauthz.inputs.cluster.live import DEPLOYMENTS
from extauthz.inputs.kube.connection import Unreachable, connect
from extauthz.tell.observe import kube_events
from extauthz.tell.observe.autoscalers import KINDS, Autoscalers, NeverFits, Subject
from extauthz.tell.observe.ceilings import Ceilings
from extauthz.tell.observe.episodes import UPDATE_S, Episodes, Recent
from extauthz.tell.observe.kube_events import BLOCKED, EVENTS, MAX_NOTE, NEVER, REFUSAL, UNBLOCKED, KubeEvents
from extauthz.tell.observe.observers import Report
from extauthz.tell.observe.quota_status import Facts, status_of
from extauthz.testing import Asker, gate, quota, scale, workload
from tests.support.kubecalls import ScriptedApi

Tree = Any
HPAS = KINDS[0]
NUMBER = count()


class Server(NamedTuple):
    """An API server and a namespace in it."""

    connection: Any
    namespace: str

    async def create(self, resource: Any, obj: Tree) -> Tree:
        return await self.connection.call("POST", resource.collection(self.namespace), body=obj)

    async def events(self, namespace: str = "") -> list[Tree]:
        return (await self.connection.call("GET", EVENTS.collection(namespace or self.namespace)))["items"]

    async def forget_events(self) -> None:
        await self.connection.call("DELETE", EVENTS.collection(self.namespace))


def stand_in() -> Server:
    return Server(ScriptedApi([EVENTS.collection("shop"), EVENTS.collection("default")]), "shop")


@asynccontextmanager
async def real(request: pytest.FixtureRequest) -> AsyncIterator[Server]:
    plane = request.getfixturevalue("plane")
    name = f"events-{next(NUMBER)}"
    plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    async with connect(plane.kubeconfig) as connection:
        yield Server(connection, name)


@pytest.fixture(params=["stand-in", pytest.param("real", marks=pytest.mark.controlplane)])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    if request.param == "stand-in":
        yield stand_in()
        return
    async with real(request) as found:
        yield found


def deployment(namespace: str) -> Tree:
    found = workload("web", 1, namespace=namespace)
    found["spec"]["template"]["metadata"] = {"labels": {"app": "web"}}
    for given in ("uid", "resourceVersion"):
        del found["metadata"][given]
    return found


def hpa(namespace: str, name: str = "web", target: str = "web", kind: str = "Deployment") -> Tree:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": kind, "name": target},
            "minReplicas": 1,
            "maxReplicas": 10,
        },
    }


class Cluster:
    """A Deployment ``web`` of one replica in a quota of two, a gate, and events of its decisions."""

    def __init__(self, server: Any) -> None:
        self.server = server
        self.now_s = 1_800_000_000.0
        self.told: list[str] = []

    async def start(self) -> Cluster:
        namespace = self.server.namespace
        made = await self.server.create(DEPLOYMENTS, deployment(namespace))
        limits = [quota("acme", {"cpu": "2"}, namespaces={})]
        self.gate = gate(limits, made, namespaces={namespace: {}})
        self._ask = Asker(self.gate)
        self.recent = Recent(lambda: self.now_s)
        self.events = KubeEvents(
            self.server.connection,
            Queries(self.gate.ledger),
            {("apps", "deployments"): DEPLOYMENTS},
            self.recent.blocked,
            instance="extauthz-0",
            tell=lambda _level, event, **_: self.told.append(event),
            clock=lambda: self.now_s,
            calls_per_s=1e6,
        )
        return self

    def scale(self, replicas: int, after_s: float = 15.0) -> Verdict:
        self.now_s += after_s
        decision = self._ask(scale("web", replicas, namespace=self.server.namespace))
        self.recent.decided(Report(decision))
        return decision.verdict

    async def written(self) -> list[tuple[str, str, str, int]]:
        """After writing what is due: reason, kind and name of the object, and count of each event, sorted."""
        await self.events.write()
        return sorted(
            (
                one["reason"],
                one["regarding"]["kind"],
                one["regarding"]["name"],
                one.get("series", {}).get("count", 1),
            )
            for one in await self.server.events()
        )


def teller(server: Any, known: Gate, name: str, told: Callable[[str], None] = print) -> KubeEvents:
    """One of several gates. ``told``: of what it logs."""
    return KubeEvents(
        server.connection,
        Queries(known.ledger),
        {},
        Episodes(),
        instance=name,
        tell=lambda _, event, **__: told(event),
        calls_per_s=1e6,
    )


async def test_a_refusal_is_told_on_the_workload_and_on_its_autoscaler(server: Any):
    await server.create(HPAS, hpa(server.namespace))
    await server.create(HPAS, hpa(server.namespace, "other", "other"))
    cluster = await Cluster(server).start()
    assert cluster.scale(5) is Verdict.DENY
    assert await cluster.written() == [
        (BLOCKED, "Deployment", "web", 1),
        (BLOCKED, "HorizontalPodAutoscaler", "web", 1),
    ]
    for event in await server.events():
        assert event["note"] == (
            'deployments.apps "web" is forbidden: exceeded workspace quota: acme, requested: requests.cpu=4, '
            "used: requests.cpu=1, limited: requests.cpu=2; largest allowed replicas: 2; "
            f"see: extauthz explain deployments.apps/web -n {server.namespace}"
        )
        assert event["metadata"]["annotations"] == {REFUSAL: "ExceedsHard"}
        assert (event["type"], event["reportingController"]) == ("Warning", "extauthz.dev/gate")
        assert event["eventTime"] == "2027-01-15T08:00:15.000000Z"
        assert ("related" in event) == (event["regarding"]["kind"] != "Deployment")


async def test_nothing_is_written_for_a_retry_and_the_count_is_kept_in_the_series(server: Any):
    cluster = await Cluster(server).start()
    for _ in range(4):
        cluster.scale(5)
        assert await cluster.written() == [(BLOCKED, "Deployment", "web", 1)]
    cluster.now_s += UPDATE_S
    assert await cluster.written() == [(BLOCKED, "Deployment", "web", 4)]
    (event,) = await server.events()
    assert event["series"]["lastObservedTime"] == "2027-01-15T08:01:00.000000Z"
    assert cluster.events.results == {"created": 1, "updated": 1}


async def test_once_there_is_room_one_event_says_so_and_the_count_is_made_right(server: Any):
    await server.create(HPAS, hpa(server.namespace))
    cluster = await Cluster(server).start()
    cluster.scale(3)
    await cluster.written()
    cluster.scale(3)
    cluster.gate.ledger.usage.set_tree(gate([quota("acme", {"cpu": "9"}, namespaces={})]).ledger.coverage.tree)
    assert cluster.scale(3) is Verdict.ALLOW
    assert await cluster.written() == [
        (BLOCKED, "Deployment", "web", 2),
        (BLOCKED, "HorizontalPodAutoscaler", "web", 2),
        (UNBLOCKED, "Deployment", "web", 1),
        (UNBLOCKED, "HorizontalPodAutoscaler", "web", 1),
    ]
    good = [one for one in await server.events() if one["reason"] == UNBLOCKED]
    assert {one["type"] for one in good} == {"Normal"}
    assert {one["note"] for one in good} == {
        'deployments.apps "web" may grow to 3 replicas: its workspace quota has room again, '
        "after it was refused 2 times"
    }
    cluster.scale(3)
    assert len(await cluster.written()) == 4


async def test_an_event_that_the_api_server_has_forgotten_is_written_anew(server: Any):
    cluster = await Cluster(server).start()
    cluster.scale(5)
    await cluster.written()
    await server.forget_events()
    cluster.scale(5)
    cluster.now_s += UPDATE_S
    assert await cluster.written() == [(BLOCKED, "Deployment", "web", 2)]
    assert cluster.events.results == {"created": 2}


async def test_a_sentence_that_is_too_long_is_cut_and_keeps_how_many_would_fit(server: Any):
    cluster = await Cluster(server).start()
    limits = [quota(f"{'q' * 100}-{n}", {"cpu": "2"}, namespaces={}) for n in range(20)]
    cluster.gate.ledger.usage.set_tree(gate(limits).ledger.coverage.tree)
    cluster.scale(5)
    await cluster.written()
    (event,) = await server.events()
    assert MAX_NOTE - 3 <= len(event["note"].encode()) <= MAX_NOTE
    hint = f"; see: extauthz explain deployments.apps/web -n {server.namespace}"
    assert event["note"].endswith(f"…; largest allowed replicas: 2{hint}")


CIRCLE = "spec.parent: parents run in a circle: team → acme → team; remove parent from one of them"


async def test_a_quota_in_a_circle_of_parents_has_an_event_once_and_again_once_it_is_another_circle(server: Any):
    cluster, name = await Cluster(server).start(), f"team-{server.namespace}"
    there: Tree = None
    for why in (CIRCLE, CIRCLE, "", CIRCLE.replace("acme", "big")):
        fault = Fault.PARENT_CYCLE if why else None
        facts = Facts(Standing(name, "u1", 1, "7", compact(there), 1, fault, why))
        there = status_of(facts, "2026-11-24T00:00:00Z")
        cluster.events.status_written(facts, there)
        await cluster.events.write()
    found = [one for one in await server.events("default") if one["regarding"]["name"] == name]
    assert {(one["type"], one["reason"], one["regarding"]["kind"]) for one in found} == {
        ("Warning", "ParentCycle", "WorkspaceQuota")
    }
    until = "; until then it is enforced by itself, without a parent"
    assert sorted(one["note"] for one in found) == sorted([CIRCLE + until, CIRCLE.replace("acme", "big") + until])


async def test_an_event_on_a_quota_that_cannot_be_written_is_tried_again():
    cluster = await Cluster(stand_in()).start()
    cluster.server.connection.faults = [Unreachable("down")]
    facts = Facts(Standing("team", "u1", 1, "7", compact(None), 1, Fault.PARENT_CYCLE, CIRCLE))
    cluster.events.status_written(facts, status_of(facts, "2026-11-24T00:00:00Z"))
    await cluster.events.write()
    assert (await cluster.server.events("default"), cluster.told) == ([], ["events-not-written"])
    await cluster.events.write()
    assert len(await cluster.server.events("default")) == 1
    await cluster.events.write()
    assert cluster.events.results == {"failed": 1, "created": 1}


async def test_an_autoscaler_whose_maximum_never_fits_has_an_event_once(server: Any):
    """Of a cluster with autoscalers in other namespaces too, of two gates, and after a restart."""
    cluster, namespace = await Cluster(server).start(), server.namespace
    made = await server.create(HPAS, hpa(namespace))
    for name in ("extauthz-0", "extauthz-1"):
        events = teller(server, cluster.gate, name)
        scalers = Autoscalers(server.connection, lambda: cluster.now_s)
        lines = list[str]()
        ceilings = Ceilings(
            scalers,
            cluster.gate,
            clock=lambda: cluster.now_s,
            tell=lambda _, event, **__: lines.append(event),  # noqa: B023 (it is called in this round)
            found=events.never_fits,
        )
        await ceilings.look()
        await events.write()
        assert lines == ["never-fits"]
    (event,) = await server.events()
    assert (event["type"], event["reason"], event["regarding"]["uid"]) == ("Warning", NEVER, made["metadata"]["uid"])
    assert event["note"] == (
        '2 of the 10 replicas that it may ask for would fit: 10 of deployments.apps "web" take requests.cpu=10, and '
        "workspace quota acme can give them 2; lower its maximum to 2, or have the limit raised"
    )


async def test_a_namespace_that_no_quota_covers_has_one_event_of_two_gates(server: Any):
    cluster = await Cluster(server).start()
    for name in ("extauthz-0", "extauthz-1"):
        events = teller(server, cluster.gate, name)
        events.uncovered(server.namespace, "acmee")
        await events.write()
        assert not events.results["failed"]
    (event,) = await server.events()
    regarding = event["regarding"]
    assert (event["type"], event["reason"], regarding["kind"]) == ("Warning", "WorkspaceQuotaMissing", "Namespace")
    assert event["note"] == (
        "no WorkspaceQuota covers this namespace, though it has the label workspace=acmee: correct the label, or "
        "create the quota; until then nothing is limited here"
    )


async def test_of_very_many_autoscalers_some_have_an_event(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kube_events, "MOST_ONCE", 2)
    cluster = await Cluster(stand_in()).start()
    ceiling = Ceiling(2, "acme", "requests.cpu", 10**10, 2 * 10**9)
    for number in range(3):
        about = Subject("autoscaling/v2", "HorizontalPodAutoscaler", "shop", f"w{number}", f"u{number}")
        cluster.events.never_fits(NeverFits(about, WorkloadRef("apps", "deployments", "shop", "web"), 10, ceiling))
    cluster.events.uncovered("shop", "acmee")
    await cluster.events.write()
    assert len(await cluster.server.events()) == 2


async def test_of_two_gates_that_write_the_same_status_one_writes_the_event(server: Any):
    known, told = gate([]), []
    first, second = (teller(server, known, name, told.append) for name in ("extauthz-0", "extauthz-1"))
    facts = Facts(Standing(f"two-{server.namespace}", "u1", 1, "7", compact(None), 1, Fault.PARENT_CYCLE, CIRCLE))
    for events in (first, second):
        events.status_written(facts, status_of(facts, "2026-11-24T00:00:00Z"))
        await events.write()
    found = [one for one in await server.events("default") if one["regarding"]["name"] == facts.standing.name]
    assert (len(found), told) == (1, [])
