"""What servers are told that can change a write (mode Clamp), and what observers hear of it."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import pytest

from extauthz.core.decision.gate import Gate
from extauthz.core.intake import admission as reviews
from extauthz.core.intake.counts import Reader, read
from extauthz.core.model import Decision, Fetch, NeedsFetch, Question, WorkloadRef
from extauthz.core.objects.workloads import observe
from extauthz.core.queries import Queries
from extauthz.core.quota.tree import QuotaTree
from extauthz.serve.service.deciding import Clamping, Deciding
from extauthz.tell.observe.log import Log
from extauthz.tell.observe.metrics import Levels, Metrics
from extauthz.tell.observe.observers import Observers
from extauthz.testing import admission, create, gate, put_scale, quota, scale, scale_object, workload
from tests.unit.ledger.houses import House, child, root

WEB = WorkloadRef("apps", "deployments", "team-a", "web")


class World:
    """A gate with one quota in mode Clamp, or another one, and its observers."""

    def __init__(self, *, terse: bool = False, name: str = "acme", there: int = 2, of: Gate | None = None) -> None:
        labels = {"team-a": {"workspace": name}}
        quotas = [quota(name, {"requests.cpu": "4"}, mode="Clamp")]
        self.gate: Gate = of or gate(quotas, workload("web", there, version="5"), namespaces=labels)
        self.stream = io.StringIO()
        self.log = Log(self.stream)
        self.metrics = Metrics(self._levels)
        self.heard: list[Decision] = []
        self.looked: list[WorkloadRef] = []
        told = [self.log.decided, self.metrics.decided, lambda told: self.heard.append(told.decision)]
        self.observers = Observers(told, self.log.event)
        deciding = Deciding(
            self.gate,
            self.observers,
            self.log.event,
            fetch={Fetch.WORKLOAD: self.look},
            clock=lambda: 0.0,
            ids=lambda: "d1",
            read=Reader(),
        )
        self.lower = Clamping(self.gate, deciding, is_terse=terse)

    async def look(self, needs: NeedsFetch) -> None:
        self.looked.append(needs.ref)
        self.gate.observe(*observe(workload("web", 2, version="6")))

    def _levels(self) -> Levels:
        return Levels(list(Queries(self.gate.ledger).quotas()))

    def lines(self) -> list[dict[str, Any]]:
        self.observers.drain()
        self.log.close()
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def counted(self) -> list[str]:
        self.observers.drain()
        text = asyncio.run(self.metrics.scrape("text/plain"))[0].decode()
        return [line for line in text.splitlines() if line.startswith("extauthz_clamps_total{")]


def review(replicas: int, version: str = "5", **more: Any) -> Question:
    new, old = scale_object(replicas=replicas, version=version), scale_object(replicas=2, version=version)
    found = reviews.read(json.dumps(admission(new, old, subresource="scale", **more)).encode())
    return found.question


def test_a_body_is_lowered_and_told_once_to_each_observer():
    world = World()
    request = scale("web", 9)._replace(headers={"content-type": "application/json-patch+json", "user-agent": "kpa"})
    lowered = asyncio.run(world.lower(request))
    assert lowered.replicas == 4
    assert json.loads(lowered.body)[-1] == {"op": "add", "path": "/spec/replicas", "value": 4}
    assert lowered.warning == "replicas lowered from 9 to 4: no more requests.cpu in workspace quota acme"
    (line,) = world.lines()
    told = {key: line[key] for key in ("event", "id", "from", "to", "clamped_to", "user_agent", "workload")}
    assert told == {
        "event": "clamp",
        "id": "d1",
        "from": 2,
        "to": 9,
        "clamped_to": 4,
        "user_agent": "kpa",
        "workload": "deployments.apps/team-a/web",
    }
    assert world.counted() == ['extauthz_clamps_total{quota="acme",resource="requests.cpu"} 1.0']
    assert [one.todo.to for one in world.heard] == [4]
    assert world.gate.ledger.pending_writes == 0, "a question"


def test_an_object_is_lowered_and_the_user_is_told_of():
    world = World()
    lowered = asyncio.run(world.lower(review(9)))
    assert (lowered.replicas, lowered.body) == (4, b"")
    (line,) = world.lines()
    assert line["user"].endswith("horizontal-pod-autoscaler")


def test_nothing_is_lowered_for_whom_no_quota_binds():
    """Neither by the name that an Envoy's configuration gives its client, nor by that of the API server."""
    world = World()
    only = {"include": {"users": ["autoscaler"]}}
    world.gate.load_quotas(QuotaTree.build([quota("acme", {"requests.cpu": "4"}, mode="Clamp", requesters=only)]), 0.0)
    for user, is_lowered in (("autoscaler", True), ("person", False)):
        by_envoy = asyncio.run(world.lower(scale("web", 9)._replace(requester=user)))
        by_webhook = asyncio.run(world.lower(review(9, userInfo={"username": user})))
        assert (by_envoy is not None, by_webhook is not None) == (is_lowered, is_lowered)


def test_a_dry_run_is_lowered_and_not_counted():
    world = World()
    lowered = asyncio.run(world.lower(review(9, dryRun=True)))
    assert lowered is not None
    assert world.counted() == []
    (line,) = world.lines()
    assert (line["dry_run"], line["clamped_to"]) == (True, 4)


ODD = put_scale("web", 9, "5")


@pytest.mark.parametrize(
    ("there", "asked"),
    [
        pytest.param(2, scale("web", 4), id="it-fits"),
        pytest.param(2, review(3), id="the-object-fits"),
        pytest.param(4, scale("web", 9), id="nothing-fits"),
        pytest.param(
            2, ODD._replace(body=json.dumps(json.loads(ODD.body) | {"x": 1.5}).encode()), id="it-cannot-be-written-anew"
        ),
        pytest.param(2, create(workload("web", 9)), id="more-than-a-count"),
    ],
)
def test_what_is_left_alone_is_told_to_nobody(there: int, asked: Any):
    world = World(there=there)
    assert asyncio.run(world.lower(asked)) is None
    assert (world.heard, world.counted(), world.lines()) == ([], [], [])


def test_a_version_that_was_not_seen_yet_is_looked_up():
    world = World()
    lowered = asyncio.run(world.lower(review(9, "6")))
    assert world.looked == [WEB]
    assert lowered.replicas == 4


def test_terse_warnings_name_no_quota():
    lowered = asyncio.run(World(terse=True).lower(scale("web", 9)))
    assert lowered.warning == "replicas lowered from 9 to 4: a workspace quota has no more room (decision d1)"


@pytest.mark.parametrize(
    ("terse", "why"),
    [
        (False, "2nd in line for workspace quota root"),
        (True, "others come first in a workspace quota (decision d1)"),
    ],
)
def test_where_others_come_first_the_warning_says_so(terse: bool, why: str):
    house = House([root(10, mode="Clamp"), child("a"), child("b"), child("c")], {"a": 4, "b": 1, "c": 5})
    house.wants("b", 9)
    house.has("c", 2)
    lowered = asyncio.run(World(terse=terse, of=house.gate).lower(put_scale("c", 5, "2", namespace="c")))
    assert lowered.warning == f"replicas lowered from 5 to 4: {why}"


def test_a_warning_is_as_long_as_an_api_server_advises():
    lowered = asyncio.run(World(name="a" * 63).lower(scale("web", 9)))
    assert len(lowered.warning) == 120
    assert lowered.warning.startswith("replicas lowered from 9 to 4: no more requests.cpu in workspace quota aaa")


def test_what_goes_wrong_is_logged_and_the_write_goes_on(monkeypatch: pytest.MonkeyPatch):
    world = World()

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("oh")

    monkeypatch.setattr(world.gate, "clamp", broken)
    assert asyncio.run(world.lower(scale("web", 9))) is None
    assert asyncio.run(world.lower(review(9))) is None
    lines = world.lines()
    assert [line["event"] for line in lines] == ["clamp-failed", "clamp-failed"]
    assert "RuntimeError: oh" in lines[0]["traceback"]


def test_a_quota_that_has_gone_is_counted_no_longer():
    world = World()
    asyncio.run(world.lower(scale("web", 9)))
    world.gate.load_quotas(gate([]).ledger.coverage.tree, 1.0)
    assert world.counted() == []


@pytest.mark.parametrize(
    ("mode", "replicas", "verdict", "reason"),
    [
        ("Clamp", 9, "allow", "clamped"),
        ("Clamp", 3, "allow", "fits"),
        ("Enforce", 9, "deny", "exceeded-quota"),
    ],
)
def test_a_question_is_answered_with_what_the_write_would_come_to(mode: str, replicas: int, verdict: str, reason: str):
    quotas = [quota("acme", {"requests.cpu": "4"}, mode=mode)]
    asked = gate(quotas, workload("web", 2, version="5"), namespaces={"team-a": {"workspace": "acme"}})
    found = asked.asked(read(scale("web", replicas)), "d1", 0.0)
    assert (found.verdict.value, found.reason) == (verdict, reason)
    assert ("asked for 9 replicas and may have 4: exceeded workspace quota: acme" in found.sentence) is (
        reason == "clamped"
    )
    assert not list(Queries(asked.ledger).pending()), "nothing is charged"
