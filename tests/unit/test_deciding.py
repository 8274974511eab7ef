"""The request path: every decision has an id of its own, is observed once, and a failure of ours is an answer."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import re
import time
from asyncio.selector_events import _SelectorSocketTransport
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest

from extauthz.core.ledger.ledger import Ledger
from extauthz.core.model import (
    COMMIT,
    Decision,
    Evidence,
    Fetch,
    Growth,
    Held,
    NeedsFetch,
    NotAWrite,
    Question,
    Reading,
    Request,
    Requester,
    Verdict,
    WorkloadRef,
)
from extauthz.core.quota.selectors import by_name
from extauthz.core.quota.tree import QuotaTree
from extauthz.inputs.kube.connection import Connection
from extauthz.serve.servers.ext_authz import SERVICE, Checks
from extauthz.serve.service import assembly
from extauthz.serve.service.assembly import Assembly, Decide, Surroundings
from extauthz.serve.service.deciding import Deciding, briefly
from extauthz.serve.service.ids import new_id
from extauthz.serve.service.loading import load
from extauthz.tell.observe.log import Log
from extauthz.tell.observe.metrics import Levels, Metrics
from extauthz.tell.observe.observers import Observer, Observers, Report
from extauthz.testing import quota
from tests.servers.listening import listening

READING = NotAWrite("read", "it reads")
REQUEST = Request("PUT", "/", {"user-agent": "kpa", "x-secret": "hush"}, b"")


def reads(request: Request) -> Reading:
    """Reads every request alike."""
    return READING


class AllowAll:
    ledger = Ledger()

    def decide(self, reading: Reading, decision_id: str, now_s: float, *, charge: bool = True, **_: object) -> Decision:
        assert charge
        assert now_s > 0
        return Decision(decision_id, Verdict.ALLOW, "fits", "fits every quota")


class Broken:
    ledger = Ledger()

    def decide(self, reading: Reading, decision_id: str, now_s: float, *, charge: bool = True, **_: object) -> Decision:
        raise AssertionError("usage is negative")


async def observed(gate, times: int = 1) -> tuple[list[Decision], list[dict], str]:
    stream = io.StringIO()
    log = Log(stream)
    metrics = Metrics(Levels)
    observers = Observers([log.decided, metrics.decided], log.event)
    deciding = Deciding(gate, observers, log.event, read=reads)
    decisions = [deciding(REQUEST) for _ in range(times)]
    observers.drain()
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


async def test_a_failure_of_ours_refuses_nothing_where_the_gate_only_audits() -> None:
    asked, log, stream = deciding(Broken(), audits=True)
    decision = asked(REQUEST)
    log.close()
    assert (decision.verdict, decision.would) == (Verdict.ALLOW, Verdict.UNAVAILABLE)
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["internal-error", "decision"]


async def test_a_failure_of_ours_refuses_nothing_where_all_quotas_only_audit() -> None:
    gate = Broken()
    gate.ledger = Ledger()
    gate.ledger.usage.set_tree(QuotaTree.build([quota("acme", {"pods": "1"}, mode="Audit")]))
    asked, log, _ = deciding(gate)
    decision = asked(REQUEST)
    log.close()
    assert (decision.verdict, decision.would) == (Verdict.ALLOW, Verdict.UNAVAILABLE)


@pytest.mark.parametrize("headers", [{}, {"user-agent": ""}], ids=["none", "empty"])
async def test_a_request_without_a_user_agent_is_decided(headers) -> None:
    asked, log, stream = deciding(AllowAll())
    decision = asked(REQUEST._replace(headers=headers))
    log.close()
    assert decision.verdict is Verdict.ALLOW
    assert "user_agent" not in json.loads(stream.getvalue())


WEB = WorkloadRef("apps", "deployments", "shop", "web")
WORKLOAD, COUNT = NeedsFetch(Fetch.WORKLOAD, WEB), NeedsFetch(Fetch.COUNT, WEB)


class Holds:
    """A policy does not let the write go."""

    ledger = Ledger()

    def decide(self, reading: Reading, decision_id: str, *args: object, **how: object) -> Decision:
        growth = Growth(decision_id, WEB, "patch", 1, 2, {}, None, (), None, 0.0, 0.0)
        return Decision(decision_id, Verdict.DENY, "policy-not-yet", "later", WEB, todo=Held(growth))


async def test_what_is_held_is_not_in_what_observers_keep() -> None:
    told: list[Report] = []
    asked, log, _ = deciding(Holds(), told.append)
    answer = asked(REQUEST)
    log.close()
    (one,) = told
    assert one.held is not None
    assert one.held.ref == WEB
    assert (answer.todo, one.decision.todo) == (None, None), "it may be large, and they keep decisions"


class Knowing:
    """Knows a workload once it was looked at."""

    ledger = Ledger()

    def __init__(self, needs: NeedsFetch | None = WORKLOAD) -> None:
        self.seen = False
        self.asked: list[str] = []
        self._needs = needs

    def decide(self, reading: Reading, decision_id: str, now_s: float, *, charge: bool = True, **_: object) -> Decision:
        self.asked.append(decision_id)
        if self.seen:
            return Decision(decision_id, Verdict.ALLOW, "fits", "fits every quota", WEB)
        return Decision(decision_id, Verdict.UNAVAILABLE, "unknown-workload", "not seen", WEB, todo=self._needs)

    async def look(self, needs: NeedsFetch) -> None:
        assert needs.ref == WEB
        await asyncio.sleep(0)
        self.seen = True


class Closing(Log):
    """Has all of it told before it closes."""

    def __init__(self, stream: io.StringIO, *observers: Observer) -> None:
        super().__init__(stream)
        self.observers = Observers([self.decided, *observers], self.event)

    def close(self) -> None:
        self.observers.drain()
        super().close()


def deciding(gate, *observers: Observer, **more) -> tuple[Deciding, Closing, io.StringIO]:
    stream = io.StringIO()
    log = Closing(stream, *observers)
    return Deciding(gate, log.observers, log.event, **({"read": reads} | more)), log, stream


@pytest.mark.parametrize("waits", [False, True], ids=["at-once", "fetched-first"])
async def test_an_answer_is_written_before_observers_are_told_in_their_order(monkeypatch, waits: bool) -> None:
    """Over a real socket, as often as somebody asks."""
    happened: list[str] = []
    gate, count = Knowing(), itertools.count()
    gate.seen = not waits
    observers = [lambda told, name=name: happened.append(f"{name} {told.decision.id}") for name in ("log", "metrics")]
    asked, log, _ = deciding(gate, *observers, fetch={Fetch.WORKLOAD: gate.look}, ids=lambda: f"d{next(count):015}")
    write = _SelectorSocketTransport.write

    def written(transport: asyncio.Transport, data: bytes) -> None:
        happened.extend(f"answer {one.decode()}" for one in re.findall(rb"d\d{15}", data))
        write(transport, data)

    monkeypatch.setattr(_SelectorSocketTransport, "write", written)
    async with listening(Checks(asked).methods()) as (_, address), grpc.aio.insecure_channel(address) as channel:
        check = channel.unary_unary(f"/{SERVICE}/Check", request_serializer=bytes)
        for number in range(3):
            await check(b"")
            while len(happened) < 3 * (number + 1):  # noqa: ASYNC110 (it waits for turns of the loop)
                await asyncio.sleep(0)
    log.close()
    assert happened == [f"{what} d{number:015}" for number in range(3) for what in ("answer", "log", "metrics")]


async def test_an_observer_that_fails_is_logged_and_the_others_are_told() -> None:
    def fails(told: Report) -> None:
        raise RuntimeError("oh")

    told: list[Report] = []
    asked, log, stream = deciding(AllowAll(), fails, told.append)
    decision = asked(REQUEST)
    log.close()
    assert [one.decision.id for one in told] == [decision.id]
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line["event"], line["id"]) for line in lines] == [
        ("decision", decision.id),
        ("observer-failed", decision.id),
    ]
    assert "RuntimeError: oh" in lines[1]["traceback"]


# What waits.


async def test_what_was_not_seen_is_looked_at_and_then_decided_once() -> None:
    gate = Knowing()
    told: list[Report] = []
    asked, log, stream = deciding(gate, told.append, fetch={Fetch.WORKLOAD: gate.look})
    decision = await asked(REQUEST)
    log.close()
    assert (decision.verdict, decision.reason) == (Verdict.ALLOW, "fits")
    assert gate.asked == [decision.id, decision.id]
    assert [json.loads(line)["id"] for line in stream.getvalue().splitlines()] == [decision.id]
    assert [one.decision for one in told] == [decision]


async def test_a_look_that_takes_too_long_ends_in_what_is_known(monkeypatch) -> None:
    monkeypatch.setattr("extauthz.serve.service.deciding.LOOK_WITHIN_S", 0.01)

    async def look(needs: NeedsFetch) -> None:
        await asyncio.Event().wait()

    asked, log, stream = deciding(Knowing(), fetch={Fetch.WORKLOAD: briefly(look)})
    decision = await asked(REQUEST)
    log.close()
    assert decision.reason == "unknown-workload"
    assert len(stream.getvalue().splitlines()) == 1


@pytest.mark.parametrize("needs", [None, COUNT], ids=["nothing", "something-else"])
async def test_nothing_is_looked_at_where_it_would_not_help(needs) -> None:
    gate = Knowing(needs)
    asked, log, _ = deciding(gate, fetch={Fetch.WORKLOAD: gate.look})
    assert isinstance(asked(REQUEST), Decision)
    log.close()
    assert not gate.seen


class Asking:
    """Knows a workload once it was looked at, and what quotas have in use once that was counted."""

    ledger = Ledger()

    def __init__(self, *, seen: bool = True) -> None:
        self.seen, self.learnt, self.uncovered = seen, False, False

    def decide(self, reading: Reading, decision_id: str, now_s: float, *, charge: bool = True, **_: object) -> Decision:
        if not self.seen:
            return Decision(decision_id, Verdict.UNAVAILABLE, "unknown-workload", "not seen", WEB, todo=WORKLOAD)
        if not self.learnt:
            return Decision(decision_id, Verdict.UNAVAILABLE, "unsynced", "not counted", WEB, todo=COUNT)
        return Decision(
            decision_id,
            Verdict.ALLOW,
            "fits",
            "fits every quota",
            WEB,
            pending_write=decision_id if charge else None,
            evidence=Evidence(afterwards=self.uncovered),
            todo=COMMIT,
        )

    async def look(self, needs: NeedsFetch) -> None:
        self.seen = True

    async def count(self, needs: NeedsFetch) -> None:
        assert needs.ref == WEB
        self.learnt = True


async def agree(reading: Reading, source: str, decision: Decision, *_: Any) -> Decision:
    assert reading is READING
    assert decision.pending_write is None, "nothing is recorded before it is agreed upon"
    return decision._replace(reason="agreed")


@pytest.mark.parametrize("seen", [True, False], ids=["seen", "looked-at-first"])
@pytest.mark.parametrize("commit", [None, agree], ids=["alone", "shared"])
async def test_what_has_to_be_asked_is_asked_and_then_decided_once(seen, commit) -> None:
    gate = Asking(seen=seen)
    asked, log, stream = deciding(gate, fetch={Fetch.WORKLOAD: gate.look, Fetch.COUNT: gate.count}, commit=commit)
    decision = await asked(REQUEST)
    log.close()
    assert (decision.verdict, decision.reason) == (Verdict.ALLOW, "fits" if commit is None else "agreed")
    assert len(stream.getvalue().splitlines()) == 1
    known = asked(REQUEST)
    assert isinstance(known, Decision) or commit is not None, "what is known costs no wait"
    if commit is not None:
        await known


@pytest.mark.parametrize(
    "question", [REQUEST._replace(timeout_s=7.0), Question(READING, timeout_s=7.0)], ids=["envoy", "webhook"]
)
async def test_other_gates_are_waited_for_as_long_as_the_asker_waits(question) -> None:
    """What was fetched before has taken its time of that."""
    told: list[float | None] = []
    now_s = 1000.0

    async def commit(
        reading: Reading, source: str, decision: Decision, by: Requester | None, timeout_s: float | None
    ) -> Decision:
        told.append(timeout_s)
        return decision

    gate = Asking(seen=False)
    gate.learnt = True

    async def look(needs: NeedsFetch) -> None:
        nonlocal now_s
        now_s += 0.75
        await gate.look(needs)

    asked, log, _ = deciding(gate, fetch={Fetch.WORKLOAD: look}, commit=commit, clock=lambda: now_s)
    await asked(question)
    await asked(question)
    log.close()
    assert told == [6.25, 7.0]


async def test_a_write_that_no_quota_may_cover_is_recorded_and_answered_at_once() -> None:
    gate = Asking()
    gate.learnt = gate.uncovered = True
    asked, log, _ = deciding(gate, commit=agree)
    decision = asked(REQUEST)
    log.close()
    assert isinstance(decision, Decision)
    assert (decision.reason, decision.pending_write) == ("fits", decision.id)


async def test_a_failure_while_others_are_asked_is_refused_by_name() -> None:
    async def fails(reading: Reading, source: str, decision: Decision, *_: Any) -> Decision:
        raise AssertionError("the ledger is negative")

    gate = Asking()
    gate.learnt = True
    asked, log, stream = deciding(gate, commit=fails)
    decision = await asked(REQUEST)
    log.close()
    assert (decision.verdict, decision.reason) == (Verdict.UNAVAILABLE, "internal-error")
    assert "the ledger is negative" in stream.getvalue()


def test_ids_are_not_to_be_guessed() -> None:
    ids = {new_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert {len(one) for one in ids} == {16}


async def test_a_failure_to_read_at_once_is_refused_by_name() -> None:
    def broken(request: Request) -> Reading:
        raise OSError("no bytes")

    asked, log, _ = deciding(AllowAll(), read=broken)
    assert asked(REQUEST).reason == "internal-error"
    log.close()


@pytest.mark.parametrize(
    ("question", "requester"),
    [
        (REQUEST, None),
        (REQUEST._replace(requester="system:serviceaccount:keda:op"), by_name("system:serviceaccount:keda:op")),
        (Question(READING, "olga", Requester("olga", ("owners",))), Requester("olga", ("owners",))),
    ],
    ids=["nobody-says", "the-listener-says", "the-api-server-says"],
)
async def test_a_decision_knows_who_asks_as_the_way_says(question, requester) -> None:
    """What its server has read is not read again, and comes from that user."""
    seen = []

    class Noting(AllowAll):
        def decide(self, reading, decision_id, now_s, *, source="", charge=True, requester=None):
            seen.append((reading, source, requester))
            return super().decide(reading, decision_id, now_s, source=source, charge=charge, requester=requester)

    def once(request: Request) -> Reading:
        assert isinstance(question, Request)
        return READING

    asked, log, stream = deciding(Noting(), read=once)
    asked(question)
    log.close()
    assert seen == [(READING, question.user if isinstance(question, Question) else "", requester)]
    line = json.loads(stream.getvalue())
    assert line.get("user") == (requester.user if requester is not None else None)
    assert ("user_agent" in line) == isinstance(question, Request)


class WithClock:
    """A connection that knows how far the clock is off."""

    def __init__(self) -> None:
        self.clock = SimpleNamespace(off_s=0.0)


async def test_a_clock_that_is_off_is_told_and_one_that_is_far_off_ends_growth_under_overrides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "TICK_S", 0.001)
    for name in ("quotas", "state"):
        (tmp_path / f"{name}.yaml").write_text("{apiVersion: v1, kind: List, items: []}")
    words = {name: str(tmp_path / f"{name}.yaml") for name in ("quotas", "state")}
    stream, connection = io.StringIO(), WithClock()
    log, metrics = Log(stream), Metrics(lambda: Levels((), 0, 0, 0, 0, True, 0))
    gate = Assembly(load(words, {}, None), Surroundings(log, metrics, time.monotonic, lambda: "d"))
    told: list[tuple[float, str, str | None]] = []

    async def serve(_: Decide) -> None:
        for off_s in (2.0, 2.5, 5.0, -5.5, -3.0, 0.0):
            connection.clock.off_s = off_s
            await asyncio.sleep(0.05)
            notes = [note for note in gate.notes() if "clock" in note]
            told.append((off_s, "".join(notes), gate.gate.clock_why))

    await gate.run(cast("Connection", connection), asyncio.Event(), serve)
    log.close()
    behind = "its clock is at least 5.5 s behind the API server's; have NTP keep both"
    assert [why for *_, why in told] == [None, None, None, behind, None, None]
    assert [note for _, note, _ in told] == [
        "",
        "its clock is at least 2.5 s ahead of the API server's; have NTP keep both",
        "its clock is at least 5.0 s ahead of the API server's; have NTP keep both",
        f"{behind}; growth under quotas with overrides: deny",
        "its clock is at least 3.0 s behind the API server's; have NTP keep both",
        "",
    ]
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(one["level"], one.get("seconds")) for one in lines if one["event"].startswith("clock-")] == [
        ("warning", 2.5),
        ("error", -5.5),
        ("info", None),
    ]


async def test_a_stop_tells_what_waits(tmp_path: Path) -> None:
    """Whatever the last answer was, even where no turn of the loop is left."""
    quotas, state = tmp_path / "quotas.yaml", tmp_path / "state.yaml"
    quotas.write_text("{apiVersion: v1, kind: List, items: []}")
    state.write_text("{apiVersion: v1, kind: List, items: []}")
    settings = load({"quotas": str(quotas), "state": str(state)}, {}, None)
    stream = io.StringIO()
    log = Log(stream)
    metrics = Metrics(Levels)
    gate = Assembly(settings, Surroundings(log, metrics, time.monotonic, lambda: "the last"))

    async def serve(decide: Decide) -> None:
        assert isinstance(decide(Question(READING)), Decision)
        raise OSError("and whatever ends it")

    with pytest.raises(OSError, match="whatever"):
        await gate.run(None, asyncio.Event(), serve)
    log.close()
    assert json.loads(stream.getvalue().splitlines()[-1])["id"] == "the last"
