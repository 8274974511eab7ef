"""The log: a line a decision, levels, both styles, and nothing that holds up or floods the gate."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path

import pytest

from extauthz.core.model import Decision, Operation, Shortage, Verdict, WorkloadRef
from extauthz.observe import log as module
from extauthz.observe.log import Bridge, Log

WEB = WorkloadRef("apps", "deployments", "shop", "web")
SHORT = Shortage("acme", ("big", "acme"), "requests.memory", 2 << 30, 3 << 30, 0, 4 << 30)
NANOS = 10**9


def denied(**more) -> Decision:
    short = SHORT._replace(requested=2 * 2**30 * NANOS, used=3 * 2**30 * NANOS, hard=4 * 2**30 * NANOS)
    return Decision(
        "d1",
        Verdict.DENY,
        "exceeded-quota",
        "it is forbidden",
        WEB,
        Operation.PATCH,
        scale=True,
        replicas=5,
        replicas_before=3,
        shortages=(short,),
        fits=4,
        **more,
    )


def lines_of(stream: io.StringIO) -> list[str]:
    return stream.getvalue().splitlines()


def written(level: str, style: str, *decisions: tuple[Decision, str]) -> list[str]:
    stream = io.StringIO()
    log = Log(stream, level, style, clock=lambda: 1_800_000_000.5)
    for decision, user_agent in decisions:
        log.decision(decision, user_agent)
    log.close()
    return lines_of(stream)


def test_a_decision_is_one_json_line_with_its_evidence() -> None:
    (line,) = written("info", "json", (denied(), "kube-controller-manager/v1.36"))
    assert json.loads(line) == {
        "time": "2027-01-15T08:00:00.500Z",
        "level": "warning",
        "event": "decision",
        "id": "d1",
        "verdict": "deny",
        "reason": "exceeded-quota",
        "workload": "deployments.apps/shop/web",
        "operation": "patch",
        "scale": True,
        "from": 3,
        "to": 5,
        "fits": 4,
        "shortages": [
            {
                "quota": "big/acme",
                "resource": "requests.memory",
                "requested": "2Gi",
                "used": "3Gi",
                "reserved": "0",
                "hard": "4Gi",
            }
        ],
        "user_agent": "kube-controller-manager/v1.36",
        "sentence": "it is forbidden",
    }


def test_what_a_decision_does_not_know_is_left_out() -> None:
    (line,) = written("info", "json", (Decision("d2", Verdict.ALLOW, "read", "no write"), ""))
    assert set(json.loads(line)) == {"time", "level", "event", "id", "verdict", "reason", "sentence"}


@pytest.mark.parametrize(("level", "ids"), [("debug", "adu"), ("info", "adu"), ("warning", "du"), ("error", "")])
def test_allowed_requests_are_info_and_refused_ones_warnings(level: str, ids: str) -> None:
    decisions = [Decision(verdict.value[0], verdict, "r", "s") for verdict in Verdict]
    lines = written(level, "json", *((decision, "") for decision in decisions))
    assert "".join(json.loads(line)["id"] for line in lines) == ids


def test_no_value_can_forge_a_line_in_either_style() -> None:
    agent = 'a\n2027-01-15 INFO forged="1" \ud800'
    for style in ("json", "text"):
        (line,) = written("info", style, (denied(), agent))
        assert json.dumps(agent) in line


def test_text_is_for_people() -> None:
    (line,) = written("info", "text", (Decision("d2", Verdict.ALLOW, "fits", "fits every quota", WEB), "kpa"))
    assert line == (
        "2027-01-15T08:00:00.500Z INFO    decision id=d2 verdict=allow reason=fits "
        'workload=deployments.apps/shop/web user_agent=kpa sentence="fits every quota"'
    )


def test_a_long_user_agent_is_cut() -> None:
    (line,) = written("info", "json", (denied(), "x" * 5000))
    assert len(json.loads(line)["user_agent"]) == module.MAX_USER_AGENT


def test_lines_keep_their_order_and_are_all_written_at_close() -> None:
    lines = written("info", "json", *((Decision(str(n), Verdict.ALLOW, "r", "s"), "") for n in range(500)))
    assert [json.loads(line)["id"] for line in lines] == [str(n) for n in range(500)]


def test_a_reader_that_is_too_slow_costs_lines_and_not_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_QUEUED_LINES", 3)
    stream = io.StringIO()
    log = Log(stream)
    for number in range(10):
        log.event("info", "n", number=number)
    log.close()
    assert 3 <= len(lines_of(stream)) <= 4
    assert log.dropped == 10 - len(lines_of(stream))


def test_a_reader_that_has_gone_is_no_reason_to_fail(tmp_path: Path) -> None:
    stream = (tmp_path / "log").open("w")
    stream.close()
    log = Log(stream)
    log.event("info", "one")
    log.close()
    assert log.dropped == 1


def test_what_libraries_log_comes_in_the_same_form() -> None:
    stream = io.StringIO()
    log = Log(stream)
    logger = logging.Logger("asyncio")
    logger.addHandler(Bridge(log))
    logger.critical("bad %s", "thing")
    try:
        raise ValueError("why")
    except ValueError:
        logger.exception("worse")
    log.close()
    bad, worse = map(json.loads, lines_of(stream))
    assert (bad["level"], bad["event"], bad["logger"], bad["message"]) == ("error", "library", "asyncio", "bad thing")
    assert worse["traceback"].endswith("ValueError: why")


def test_what_is_allowed_only_for_audit_says_what_it_would_have_been_as_loud_as_a_refusal() -> None:
    audited = denied(would=Verdict.DENY)._replace(verdict=Verdict.ALLOW)
    (line,) = written("warning", "json", (audited, ""))
    fields = json.loads(line)
    assert (fields["level"], fields["verdict"], fields["would"]) == ("warning", "allow", "deny")
    assert fields["shortages"][0]["quota"] == "big/acme"
