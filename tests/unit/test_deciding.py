"""The request path: every decision has an id of its own, is observed once, and a failure of ours is an answer."""

from __future__ import annotations

import io
import json

import pytest

from extauthz.core.model import Decision, Request, Verdict
from extauthz.observe.log import Log
from extauthz.observe.metrics import Levels, Metrics
from extauthz.service.deciding import Deciding

REQUEST = Request("PUT", "/", {"user-agent": "kpa", "x-secret": "hush"}, b"")


class AllowAll:
    def decide(self, request: Request, decision_id: str, now_s: float, *, charge: bool = True) -> Decision:
        assert charge
        assert now_s > 0
        return Decision(decision_id, Verdict.ALLOW, "fits", "fits every quota")


class Broken:
    def decide(self, request: Request, decision_id: str, now_s: float, *, charge: bool = True) -> Decision:
        raise AssertionError("usage is negative")


async def observed(gate, times: int = 1) -> tuple[list[Decision], list[dict], str]:
    stream = io.StringIO()
    log = Log(stream)
    metrics = Metrics(lambda: Levels((), 0, 0, 0, 0, True, 0))
    deciding = Deciding(gate, metrics, log)
    decisions = [deciding(REQUEST) for _ in range(times)]
    log.close()
    body, _ = await metrics.scrape("")
    return decisions, [json.loads(line) for line in stream.getvalue().splitlines()], body.decode()


async def test_each_decision_has_its_own_id_and_is_logged_and_counted_once() -> None:
    decisions, lines, exposition = await observed(AllowAll(), times=100)
    assert len({decision.id for decision in decisions}) == 100
    assert [line["id"] for line in lines] == [decision.id for decision in decisions]
    assert 'extauthz_decisions_total{reason="fits",verdict="allow"} 100.0' in exposition
    assert "extauthz_check_seconds_count 100.0" in exposition


async def test_only_the_user_agent_of_all_headers_is_logged() -> None:
    _, lines, exposition = await observed(AllowAll())
    assert lines[0]["user_agent"] == "kpa"
    assert "hush" not in json.dumps(lines) + exposition


async def test_a_failure_of_ours_is_refused_by_name_and_logged_with_its_traceback() -> None:
    (decision,), (failure, line), exposition = await observed(Broken())
    assert (decision.verdict, decision.reason) == (Verdict.UNAVAILABLE, "internal-error")
    assert decision.id in decision.sentence
    assert "quota:" not in decision.sentence
    assert (failure["event"], failure["id"]) == ("internal-error", decision.id)
    assert "usage is negative" in failure["traceback"]
    assert line["id"] == decision.id
    assert 'extauthz_decisions_total{reason="internal-error",verdict="unavailable"} 1.0' in exposition


@pytest.mark.parametrize("headers", [{}, {"user-agent": ""}], ids=["none", "empty"])
def test_a_request_without_a_user_agent_is_decided(headers) -> None:
    stream = io.StringIO()
    log = Log(stream)
    decision = Deciding(AllowAll(), Metrics(lambda: Levels((), 0, 0, 0, 0, True, 0)), log)(
        REQUEST._replace(headers=headers)
    )
    log.close()
    assert decision.verdict is Verdict.ALLOW
    assert "user_agent" not in json.loads(stream.getvalue())
