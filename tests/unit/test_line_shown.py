"""Who waits in line, as the API, ``top``, the metrics and events show it."""

from __future__ import annotations

import argparse
import json
from typing import Any

import pytest

from extauthz.cli import asking_server, explain_quota, top
from extauthz.cli.asking_files import Files
from extauthz.cli.explain_quota import sentence as of_quota
from extauthz.core.model import Decision, Verdict
from extauthz.core.queries import Queries
from extauthz.explain.objects import Objects
from extauthz.serve.servers.api import rights, shown
from extauthz.serve.servers.api.answers import Answers
from extauthz.serve.servers.api.rights import Problem
from extauthz.tell.observe.episodes import Episodes
from extauthz.tell.observe.metrics import Levels, Metrics
from tests.unit.ledger.houses import GPU, House, full


@pytest.fixture
def house() -> House:
    """B waits for four GPUs for ten seconds, and c for one."""
    made = full()
    made.wants("b", 5)
    made.passes(10)
    made.has("c", 3)
    made.wants("c", 4)
    return made


@pytest.fixture
def answers(house: House) -> Answers:
    return Answers(Queries(house.gate.ledger), lambda reading: pytest.fail("decides"), lambda: house.ask.now_s)


def test_the_api_shows_who_waits(answers: Answers):
    found = answers.line("root")
    assert found["total"] == 2
    assert found["items"][0] == {
        "namespace": "b",
        "resource": "deployments.apps",
        "name": "b",
        "place": 1,
        "waitsSeconds": 10,
        "replicas": 5,
        "needs": {GPU: "4"},
        "asksEverySeconds": 30,
    }
    assert [one["name"] for one in answers.line("root", visible={"c"})["items"]] == ["c"]
    assert answers.line("root", limit=1)["items"] == found["items"][:1]
    assert answers.line("a")["items"] == []
    with pytest.raises(Problem, match="there is no quota"):
        answers.line("none")


def test_a_quota_says_how_many_wait(house: House, answers: Answers):
    assert [answers.quota(name)["waiting"] for name in ("root", "a")] == [2, 0]
    plain = Queries(full(turn_s=None).gate.ledger)
    assert next(plain.quotas()).waiting is None
    house.wants("b", 0)
    assert answers.quota("root")["waiting"] == 1


def refused(house: House) -> Decision:
    house.passes(2)
    found = house.wants("c", 4)
    assert found.reason == "not-its-turn"
    return found


def test_a_decision_says_whose_turn_it_is_not_and_hides_a_quota_that_one_may_not_see(house: House):
    found = shown.decision(refused(house))
    assert found["turn"] == {"quota": "root", "place": 2, "againSeconds": 30}
    assert rights.named(found) == {"root"}
    assert rights.over(found, {"root"}) == found
    covered = rights.over(found, {"c"})
    assert covered["turn"] == {"quota": None, "place": None, "againSeconds": 30}
    assert "root" not in json.dumps(covered)
    assert shown.refusing(refused(house)) == {"root"}
    assert shown.turn(house.wants("a", 1)) is None


class Source:
    """As a gate that runs."""

    def __init__(self, answers: Answers) -> None:
        self.line = answers.line
        self.quota = answers.quota

    def workloads(self, quota: str, sort: str | None, limit: int) -> dict[str, Any]:
        return {"items": [], "total": 0}


def test_top_of_a_quota_shows_its_line(answers: Answers):
    asked = type("Asked", (), {"quota": "root", "sort": None, "output": "text"})()
    source: Any = Source(answers)
    lines = [" ".join(line.split()) for line in top._workloads_shown(asked, source).splitlines()]
    assert lines[1:] == [
        "",
        "IN LINE WORKLOAD WANTS WAITS ASKS AGAIN IN",
        "1st deployments.apps b/b 5 10 s 30 s",
        "2nd deployments.apps c/c 4 0 s 30 s",
    ]


async def test_a_metric_says_how_many_wait(house: House):
    queries = Queries(house.gate.ledger)
    text, _ = await Metrics(lambda: Levels(list(queries.quotas()))).scrape("")
    assert 'extauthz_line_waiting{quota="root"} 2' in text.decode()
    assert 'extauthz_line_waiting{quota="a"} 0' in text.decode()


def test_an_event_says_that_its_turn_came(house: House):
    episodes = Episodes()
    episodes.decided(refused(house), 0.0)
    house.wants("b", 0)
    granted = house.wants("c", 4)
    assert granted.verdict is Verdict.ALLOW
    episodes.decided(granted, 1.0)
    (ended,) = episodes.ended
    assert (
        ended.good_news == 'deployments.apps "c" may grow to 4 replicas: its turn has come, after it was refused once'
    )


def explained(house: House, monkeypatch: pytest.MonkeyPatch, name: str, replicas: int) -> str:
    """What ``explain --server`` adds, where an autoscaler wants so many replicas and may ask for a hundred."""
    monkeypatch.setattr(asking_server, "asked", lambda arguments: Files(house.gate))
    asked = explain_quota.Asked(argparse.Namespace(server="http://gate", quotas=None), Objects([]), 0.0)
    ref = house.ref(name)
    scales = {"metadata": {"namespace": ref.namespace}, "spec": {"scaleTargetRef": {"name": ref.name}}}
    found = explain_quota.said(asked, scales, replicas, 100)
    return of_quota(found, wants_more=True)


def test_explain_says_where_it_stands_and_when_it_asks_again(house: House, monkeypatch: pytest.MonkeyPatch):
    assert refused(house).evidence.turn is not None
    assert explained(house, monkeypatch, "c", 4) == (
        " The quota does not allow it yet: 2nd in line for workspace quota root; asks again in 2 s."
    )
    assert explained(house, monkeypatch, "b", 5) == (
        " The quota does not allow it: 3 of the 100 replicas that it may ask for would fit."
        " It stands 1st in line for workspace quota root; asks again in 30 s."
    )
    assert "line" not in explained(house, monkeypatch, "a", 9), "it has not asked"
    assert explained(full(turn_s=None), monkeypatch, "b", 5).endswith("would fit.")


@pytest.mark.parametrize(
    ("turn", "wanted"),
    [
        ({"quota": None, "place": None, "againSeconds": 30}, " yet: others come first; asks again in 30 s."),
        (None, ": 4 replicas at most."),
    ],
)
def test_explain_hides_a_quota_that_one_may_not_see(turn: dict[str, Any] | None, wanted: str):
    decision = {"verdict": "deny", "turn": turn}
    quota = {"headroom": {"replicas": 4}, "mayAskFor": None, "decision": decision, "line": turn}
    assert of_quota(quota, wants_more=True) == f" The quota does not allow it{wanted}"
