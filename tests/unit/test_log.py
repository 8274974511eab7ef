"""The log: a line a decision, levels, both styles, and nothing that holds up or floods the gate."""

from __future__ import annotations

import io
import json
import logging
import threading
import time
from pathlib import Path

import pytest

from extauthz.core.model import Decision, Evidence, Lower, Operation, Shortage, Unspecified, Verdict, WorkloadRef
from extauthz.tell.observe import log as module
from extauthz.tell.observe.log import Bridge, Log
from extauthz.tell.observe.observers import Report
from extauthz.testing import Asker, gate, patch, path, quota, workload

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
        evidence=Evidence((short,), fits=4),
        **more,
    )


def lines_of(stream: io.StringIO) -> list[str]:
    return stream.getvalue().splitlines()


def written(level: str, style: str, *decisions: tuple[Decision, str]) -> list[str]:
    stream = io.StringIO()
    log = Log(stream, level, style, clock=lambda: 1_800_000_000.5)
    for decision, user_agent in decisions:
        log.decided(Report(decision, "", user_agent))
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
        "refusal": "WaitingForRoom",
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


def test_text_reads_like_a_sentence() -> None:
    (line,) = written("info", "text", (Decision("d2", Verdict.ALLOW, "fits", "fits every quota", WEB), "kpa"))
    assert line == (
        "2027-01-15T08:00:00.500Z INFO    allowed deployments.apps/shop/web: fits every quota "
        "(id=d2 reason=fits user_agent=kpa)"
    )


def test_a_refusal_as_text_begins_with_who_and_how_many_and_keeps_what_the_sentence_does_not_say() -> None:
    refused = denied()
    evidence = refused.evidence._replace(audit=(SHORT,))
    sentence = 'deployments.apps "web" is forbidden: so'
    refused = refused._replace(sentence=sentence, evidence=evidence, dry_run=True)
    (line,) = written("info", "text", (refused, "kubectl"))
    begins, ends = line.removeprefix("2027-01-15T08:00:00.500Z WARNING ").split(" (", 1)
    assert begins == 'denied deployments.apps/shop/web 3 → 5: deployments.apps "web" is forbidden: so'
    assert "id=d1 reason=exceeded-quota refusal=WaitingForRoom operation=patch scale=true dry_run=true fits=4" in ends
    assert "quota=big/acme" in ends
    assert "audit=" in ends
    assert ends.endswith("user_agent=kubectl)")


def test_a_clamp_as_text_says_the_count_that_is_asked_for() -> None:
    (line,) = written("info", "text", (denied(todo=Lower(4, "")), ""))
    said = line.removeprefix("2027-01-15T08:00:00.500Z WARNING ")
    assert said.startswith("clamped deployments.apps/shop/web 3 → 5 to 4: it is forbidden (")


def test_what_only_would_be_refused_says_both_as_text() -> None:
    (line,) = written("info", "text", (denied(would=Verdict.DENY)._replace(verdict=Verdict.ALLOW), ""))
    assert "WARNING allowed (else denied) deployments.apps/shop/web 3 → 5: it is forbidden" in line


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"source": "quotas", "quotas": 3}, "happened source=quotas quotas=3"),
        ({"why": "nothing was heard", "growth": "deny"}, "happened growth=deny: nothing was heard"),
        ({"problems": ["a.yaml:3: no", "b.yaml: no"], "source": "q"}, "happened source=q: a.yaml:3: no; b.yaml: no"),
        ({"error": "e\n2027 INFO x", "seconds": 2.5}, "happened seconds=2.5: e\\n2027 INFO x"),
        ({"error": "e", "why": "w w"}, "happened error=e: w w"),
    ],
    ids=["pairs", "why", "problems", "no-forged-line", "one-of-two"],
)
def test_an_event_as_text_ends_with_what_it_says_in_words(fields: dict, said: str) -> None:
    stream = io.StringIO()
    log = Log(stream, "info", "text", clock=lambda: 1_800_000_000.5)
    log.event("info", "happened", **fields)
    log.close()
    assert lines_of(stream) == [f"2027-01-15T08:00:00.500Z INFO    {said}"]


SECRET = "s3cret"


@pytest.mark.parametrize(
    "body",
    [
        {"spec": {"replicas": 2}, "metadata": {"annotations": {"a": SECRET}}},
        {"spec": {"replicas": 99}, "metadata": {"annotations": {"a": SECRET}}},
        {"spec": {"replicas": SECRET[:0]}, "metadata": {"annotations": {"a": SECRET}}},
    ],
    ids=["allowed", "denied", "unreadable"],
)
def test_a_decision_holds_nothing_of_the_query_and_the_body(body: dict) -> None:
    """So neither the log nor anything else that is told of it does."""
    ask = Asker(gate([quota("acme", {"requests.cpu": "9"})], workload("web", 1)))
    target = path("web", sub="scale") + f"?fieldManager={SECRET}"
    decision = ask(patch(target, body)._replace(source="10.0.0.9"))
    assert decision.ref is not None
    assert SECRET not in repr(decision)
    assert written("info", "json", (decision, "kubectl"))


def test_lines_keep_their_order_and_are_all_written_at_close() -> None:
    lines = written("info", "json", *((Decision(str(n), Verdict.ALLOW, "r", "s"), "") for n in range(500)))
    assert [json.loads(line)["id"] for line in lines] == [str(n) for n in range(500)]


class Stalled(io.StringIO):
    """A reader that takes nothing until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def write(self, text: str) -> int:
        self.go.wait(timeout=30)
        return super().write(text)


def test_a_reader_that_is_too_slow_costs_lines_and_not_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts is bytes in memory: a few long lines cost as much as many short ones."""
    monkeypatch.setattr(module, "MAX_QUEUED_BYTES", 100_000)
    stream = Stalled()
    log = Log(stream)
    for number in range(50):
        log.event("info", "n", number=number, problem="x" * 9_000)
    assert 80_000 < log.queued_bytes <= 100_000
    assert 35 < log.dropped < 45
    stream.go.set()
    log.close()
    lines = [json.loads(line)["number"] for line in lines_of(stream)]
    assert lines == list(range(len(lines)))
    assert log.dropped == 50 - len(lines)
    assert log.queued_bytes == 0


def test_what_is_being_written_counts_as_queued_until_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_S", 0.0)
    stream = Stalled()
    log = Log(stream)
    log.event("info", "n")
    while log._lines.qsize():
        time.sleep(0.001)
    assert log.queued_bytes > 0
    stream.go.set()
    log.close()
    assert log.queued_bytes == 0


def test_a_batch_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_BYTES", 20_000)
    sizes: list[int] = []
    stream = Stalled()
    monkeypatch.setattr(stream, "write", lambda text: sizes.append(len(text)))
    log = Log(stream)
    for _ in range(50):
        log.event("info", "n", problem="x" * 9_000)
    log.close()
    assert len(sizes) > 10
    assert max(sizes) < 40_000


LONG = "n" * 100_000


@pytest.mark.parametrize("style", ["json", "text"])
def test_what_a_client_sends_is_cut_and_marked(style: str) -> None:
    ref = WorkloadRef(LONG, LONG, LONG, LONG)
    decision = Decision("d", Verdict.DENY, "r", f"{LONG} is forbidden", ref)
    (line,) = written("info", style, (decision, LONG))
    assert len(line) < 3_000
    if style == "json":
        fields = json.loads(line)
        assert len(fields["sentence"]) == 1024
        assert fields["sentence"].endswith("n…")
        assert [len(part) for part in fields["workload"].split("/")] == [256, 256, 256]
        assert len(fields["user_agent"]) == module.MAX_USER_AGENT
        assert fields["user_agent"].endswith("n…")


@pytest.mark.parametrize("style", ["json", "text"])
def test_what_libraries_and_events_say_is_cut_too(style: str) -> None:
    stream = io.StringIO()
    log = Log(stream, style=style)
    log.event("error", "library", message="m" * 10**6, problems=["p" * 10**6, *("q" for _ in range(10**5))])
    log.close()
    (line,) = lines_of(stream)
    assert len(line) < 3 * module.MAX_TEXT


CONTROLS = ["\x00", "\x1b", "\x7f", "\x80", "\x85", "\x9b", "\x9f", "\u061c", "\u200e", "\u200f", "\u2028", "\u2029"]
CONTROLS += [chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF, 0xD800, 0xDFFF)]


@pytest.mark.parametrize("style", ["json", "text"])
@pytest.mark.parametrize("character", CONTROLS, ids=lambda one: f"U+{ord(one):04X}")
def test_what_a_terminal_or_a_reader_of_lines_may_obey_is_escaped(style: str, character: str) -> None:
    ref = WorkloadRef("apps", "deployments", "shop", f"we{character}b")
    (line,) = written("info", style, (Decision("d", Verdict.ALLOW, "r", f"é{character}", ref), f"a{character}"))
    assert character not in line
    assert line.count(f"\\u{ord(character):04x}") == 3
    if style == "json":
        assert json.loads(line)["sentence"] == f"é{character}"


def test_other_letters_stay_as_they_are_in_json() -> None:
    (line,) = written("info", "json", (Decision("d", Verdict.ALLOW, "r", "größer 更大"), ""))
    assert "größer 更大" in line


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


def test_what_pods_have_to_state_is_logged_with_the_containers_that_do_not() -> None:
    path = ("big", "acme")
    refused = Unspecified("acme", path, "requests.cpu", ("main", "proxy"))
    (line,) = written(
        "warning",
        "json",
        (denied()._replace(evidence=Evidence(unspecified=(refused, refused._replace(audits=True)))), ""),
    )
    row = {"quota": "big/acme", "resource": "requests.cpu", "containers": ["main", "proxy"]}
    assert json.loads(line)["unspecified"] == [row, row | {"audit": True}]
