"""When there is something to tell, to whom, and what the notice says."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from extauthz.core.decision.gate import Gate
from extauthz.core.ledger.accounts import UsageRow
from extauthz.core.model import COMMIT, Decision, Evidence, Lower, Operation, Shortage, Verdict, WorkloadRef
from extauthz.core.queries import Ceiling, Queries
from extauthz.core.quota.problems import Standing, compact
from extauthz.core.quota.tree import QuotaTree
from extauthz.tell.notify.receivers import Notice, Receiver
from extauthz.tell.observe import notices as module
from extauthz.tell.observe.autoscalers import NeverFits, Subject
from extauthz.tell.observe.episodes import MAX_OPEN, SILENCE_S, UPDATE_S
from extauthz.tell.observe.notices import Notices
from extauthz.tell.observe.observers import Report
from extauthz.tell.observe.quota_status import Facts, status_of
from extauthz.testing import Asker, gate, quota, scale, workload

PAGE = Path(__file__).parents[3] / "docs" / "notices.md"
WEB = WorkloadRef("apps", "deployments", "team-a", "web")
NANO = 10**9
SHORT = Shortage("acme", ("corp", "acme"), "requests.cpu", 6 * NANO, 2 * NANO, 0, 4 * NANO)
DENIED = Decision(
    "d1",
    Verdict.DENY,
    "exceeded-quota",
    "forbidden: exceeded",
    WEB,
    Operation.UPDATE,
    True,
    False,
    8,
    2,
    evidence=Evidence((SHORT,), fits=4),
)
GRANTED = Decision(
    "d2",
    Verdict.ALLOW,
    "fits",
    "fits every quota",
    WEB,
    Operation.UPDATE,
    True,
    False,
    8,
    2,
    evidence=Evidence(grows=True),
    todo=COMMIT,
)
LOWERED = DENIED._replace(todo=Lower(4, ""), sentence="asked for 8 and may have 4")
OPS, TEAM, ALL = (
    Receiver("ops", "https://a/"),
    Receiver("team", "https://b/", named=True),
    Receiver("all", "https://c/", grants=True),
)


def schema() -> Any:
    """Of ``data`` in a notice."""
    return json.loads(PAGE.with_name("notice.schema.json").read_text())


VALIDATOR = jsonschema.Draft202012Validator(schema())


class Desk:
    """A gate with ``web`` in ``acme`` below ``corp``, and what is told."""

    def __init__(self, *quotas: Any, receivers: Iterable[Receiver] = (OPS, TEAM, ALL), version: str = "1") -> None:
        self.now_s = 1_795_000_000.0
        self.put: list[tuple[Notice, tuple[str, ...]]] = []
        self.lines: list[dict[str, Any]] = []
        self.is_known = True
        self.more = asyncio.Event()
        acme = quota("acme", {"cpu": "4"}, parent="corp")
        self.gate: Gate = gate(
            quotas or [quota("corp", {"cpu": "9"}, namespaces={}), acme],
            workload("web", 2, version=version),
            namespaces={"team-a": {"workspace": "acme"}},
        )
        self.notices = Notices(
            Queries(self.gate.ledger),
            receivers,
            self._put,
            tell=lambda level, event, **fields: self.lines.append({"event": event, **fields}),
            is_known=lambda: self.is_known,
            sweeps=True,
            clock=lambda: self.now_s,
        )

    def _put(self, notice: Notice, names: Iterable[str]) -> None:
        if len(self.put) < 100:  # it takes its time
            VALIDATOR.validate(json.loads(json.dumps(notice.data)))
        self.more.set()
        self.put.append((notice, tuple(names)))

    async def told(self, *decisions: Decision, user: str = "", agent: str = "") -> list[tuple[str, tuple[str, ...]]]:
        """Kinds and receivers of all notices, after these decisions too."""
        for decision in decisions:
            self.notices.decided(Report(decision, user, agent))
        await self.notices.tell()
        return [(notice.kind.value, names) for notice, names in self.put]

    @property
    def last(self) -> Notice:
        return self.put[-1][0]


async def test_a_refusal_is_told_once_however_often_and_how_long_it_is_asked_again():
    desk = Desk()
    assert await desk.told(DENIED, DENIED) == [("refused", ("all", "ops"))]
    for _ in range(200):
        desk.now_s += UPDATE_S / 4
        assert len(await desk.told(DENIED)) == 1
    notice = desk.put[0][0]
    assert notice.subject == "deployments.apps/team-a/web"
    assert notice.data == {
        "sentence": "forbidden: exceeded",
        "workspaces": ["acme"],
        "workload": {"resource": "deployments.apps", "namespace": "team-a", "name": "web"},
        "reason": "exceeded-quota",
        "refusal": "WaitingForRoom",
        "replicas": {"from": 2, "asked": 8, "fits": 4},
        "shortages": [
            {
                "quota": "corp/acme",
                "resource": "requests.cpu",
                "requested": "6",
                "used": "2",
                "reserved": "0",
                "hard": "4",
            }
        ],
    }


async def test_a_count_that_was_lowered_is_told_and_the_refusals_after_it_are_not():
    desk = Desk()
    assert await desk.told(LOWERED, DENIED) == [("clamped", ("all", "ops"))]
    desk = Desk()
    await desk.told(LOWERED)
    assert desk.last.data["replicas"] == {"from": 2, "asked": 8, "to": 4}


async def test_what_mode_audit_would_refuse_is_told_once():
    desk = Desk(quota("acme", {"cpu": "4"}, mode="Audit"))
    allowed = Asker(desk.gate)(scale("web", 9))
    assert allowed.reason == "would-refuse"
    told = await desk.told(allowed, allowed)
    assert [kind for kind, _ in told] == ["would-refuse"]
    assert desk.last.data["shortages"][0]["quota"] == "acme"
    assert "refusal" not in desk.last.data


async def test_room_is_told_with_the_count_that_fits_now():
    desk = Desk(receivers=[OPS])
    await desk.told(DENIED, DENIED)
    desk.now_s += 60
    assert [kind for kind, _ in await desk.told(GRANTED)] == ["refused", "room"]
    assert desk.last.data["replicas"] == {"from": 2, "asked": 8, "fits": 4}
    assert (desk.last.data["times"], desk.last.data["since"]) == (2, "2026-11-18T11:06:40.000Z")
    assert desk.last.data["sentence"].endswith("after it was refused 2 times; up to 4 replicas fit now")
    assert desk.last.time_s == desk.now_s
    await desk.told(DENIED)
    assert await desk.told(GRANTED) == [(kind, ("ops",)) for kind in ("refused", "room")] * 2
    ids = [notice.id for notice, _ in desk.put if notice.kind == "room"]
    assert len(set(ids)) == 2, "two episodes are two notices"


async def test_where_no_quota_sets_a_bound_that_is_said():
    desk = Desk(receivers=[OPS])
    await desk.told(DENIED)
    desk.gate.load_quotas(QuotaTree.build([]), 0.0)
    await desk.told(GRANTED)
    assert desk.last.data["replicas"]["fits"] is None
    assert desk.last.data["sentence"].endswith("; no quota sets a bound now")
    assert desk.last.data["workspaces"] == []


async def test_an_episode_that_nobody_asks_about_any_more_ends_without_a_word():
    desk = Desk()
    await desk.told(DENIED)
    desk.now_s += SILENCE_S
    assert len(await desk.told()) == 1
    assert [kind for kind, _ in await desk.told(DENIED)] == ["refused", "refused"]


async def test_what_was_over_before_it_could_be_told_is_not_told():
    desk = Desk(receivers=[OPS])
    assert await desk.told(DENIED, GRANTED) == []


# Ids.


async def test_two_gates_that_refuse_the_same_version_tell_it_with_one_id():
    here, there = Desk(), Desk()
    there.now_s += 120
    await here.told(DENIED)
    await there.told(DENIED._replace(id="d9", replicas=9, replicas_before=2))
    assert here.last.id == there.last.id
    later = Desk()
    later.now_s += 3600
    await later.told(DENIED)
    assert later.last.id != here.last.id, "another hour is another notice"
    changed = Desk(version="2")
    await changed.told(DENIED)
    assert changed.last.id != here.last.id, "and so is another version"
    lowered = Desk()
    await lowered.told(LOWERED)
    assert lowered.last.id != here.last.id, "and another type"


async def test_of_what_has_no_version_each_episode_has_an_id_of_its_own():
    gone = DENIED._replace(ref=WEB._replace(name="gone"))
    here, there = Desk(), Desk()
    there.now_s += 0.5
    await here.told(gone)
    await there.told(gone)
    assert here.last.id != there.last.id


# Grants.


async def test_growth_that_was_granted_is_told_to_those_who_want_it():
    desk = Desk()
    assert await desk.told(GRANTED, user="system:serviceaccount:kube-system:hpa", agent="kcm/1") == [
        ("granted", ("all",))
    ]
    assert desk.last.data["replicas"] == {"from": 2, "to": 8}
    assert desk.last.data["by"] == {"user": "system:serviceaccount:kube-system:hpa", "userAgent": "kcm/1"}
    assert "may grow from 2 to 8 replicas, as system:serviceaccount:kube-system:hpa asked" in desk.last.data["sentence"]


async def test_a_growth_that_both_ways_ask_about_is_told_once():
    desk = Desk()
    assert len(await desk.told(GRANTED, GRANTED._replace(id="d3"))) == 1
    assert len(await desk.told(GRANTED._replace(id="d4"))) == 1
    assert len(await desk.told(GRANTED._replace(id="d5", replicas=9))) == 2
    there = Desk()
    await there.told(GRANTED._replace(id="d9"), user="somebody")
    assert there.last.id == desk.put[0][0].id, "another gate has the same id for it"
    unknown = GRANTED._replace(ref=WEB._replace(name="gone"))
    assert len(await there.told(unknown, unknown._replace(id="d10"))) == 3, "of what has no version, each is its own"
    assert len({notice.id for notice, _ in there.put}) == 3


@pytest.mark.parametrize(
    "change",
    [
        {"dry_run": True},
        {"would": Verdict.DENY},
        {"evidence": Evidence()},
        {"replicas": 2},
        {"replicas": 1},
        {"replicas": None},
        {"replicas_before": None},
        {"verdict": Verdict.UNAVAILABLE},
    ],
    ids=str,
)
async def test_what_is_no_granted_growth_is_not_told(change: dict[str, Any]):
    assert await Desk().told(GRANTED._replace(**change)) == []


async def test_without_a_receiver_that_wants_them_grants_are_not_kept():
    desk = Desk(receivers=[OPS])
    assert await desk.told(GRANTED) == []


# Who is told.


@pytest.mark.parametrize(
    ("corp", "acme", "names"),
    [
        (None, None, ("all", "ops")),
        (["team"], None, ("team",)),
        (["team"], ["ops"], ("ops",)),
        (["team"], [], ()),
        (None, ["team", "all"], ("all", "team")),
        (None, ["team", "nobody", "https://evil.example/"], ("team",)),
        (["nobody"], None, ()),
    ],
    ids=["default", "inherited", "its own", "nobody", "two", "unknown", "unknown above"],
)
async def test_the_workspace_names_who_is_told_or_one_above_does(corp: Any, acme: Any, names: tuple[str, ...]):
    tree = [
        quota("corp", {"cpu": "9"}, namespaces={}, notify=corp),
        quota("acme", {"cpu": "4"}, parent="corp", notify=acme),
    ]
    assert await Desk(*tree).told(DENIED) == [("refused", names)]


async def test_who_is_in_two_workspaces_is_told_for_both():
    tree = [
        quota("acme", {"cpu": "4"}, notify=["team"]),
        quota("gpus", {"pods": "4"}, namespaces={"workspace": "acme"}, notify=["ops"]),
    ]
    desk = Desk(*tree)
    assert await desk.told(DENIED) == [("refused", ("ops", "team"))]
    assert desk.last.data["workspaces"] == ["acme", "gpus"]


# Quotas that are over.


def over(desk: Desk, cpu: str, notify: Any = None) -> None:
    desk.gate.load_quotas(QuotaTree.build([quota("acme", {"cpu": cpu, "pods": "5"}, notify=notify)]), 0.0)


async def test_a_quota_that_is_over_is_told_once_until_it_is_within_its_limits():
    desk = Desk()
    await desk.notices.look()
    assert desk.put == []
    over(desk, "1", ["team"])
    await desk.notices.look()
    over(desk, "500m", ["team"])
    await desk.notices.look()
    (told,) = desk.put
    assert told[1] == ("team",)
    assert told[0].subject == "workspacequotas.extauthz.dev/acme"
    assert told[0].data == {
        "sentence": "workspace quota acme has more in use than its limits: requests.cpu: used 2, hard 1",
        "workspaces": ["acme"],
        "amounts": [{"resource": "requests.cpu", "used": "2", "hard": "1"}],
    }
    over(desk, "3")
    await desk.notices.look()
    over(desk, "1")
    desk.now_s += 1
    await desk.notices.look()
    assert len({notice.id for notice, _ in desk.put}) == 2


async def test_what_may_be_outdated_is_not_told():
    desk = Desk()
    over(desk, "1")
    desk.is_known = False
    await desk.notices.look()
    assert desk.put == []


def facts(used: int, status: Any = None) -> Facts:
    standing = Standing("acme", "u1", 2, "41", compact(status), 2)
    return Facts(standing, (UsageRow("acme", "pods", used * NANO, 0, 4 * NANO),))


async def test_the_gate_that_writes_that_a_quota_is_over_tells_it():
    """Others find it written, and so does this one after a restart."""
    desk = Desk()
    within = status_of(facts(3), "2026-11-22T09:00:00Z")
    begins = facts(5, within)
    is_over = status_of(begins, "2026-11-22T09:30:00Z")
    desk.notices.status_written(facts(3), within)
    desk.notices.status_written(begins, is_over)
    desk.notices.status_written(facts(6, is_over), status_of(facts(6, is_over), "2026-11-22T09:31:00Z"))
    assert [kind for kind, _ in await desk.told()] == ["over"]
    assert desk.last.data["amounts"] == [{"resource": "pods", "used": "5", "hard": "4"}]
    first = desk.last.id
    desk.notices.status_written(begins, status_of(begins, "2026-11-22T11:00:00Z"))
    await desk.told()
    assert desk.last.id != first, "another time it is another notice"


async def test_a_quota_that_is_gone_by_then_is_not_told():
    desk = Desk()
    desk.notices.status_written(facts(5), status_of(facts(5), "2026-11-22T09:30:00Z"))
    desk.gate.load_quotas(QuotaTree.build([]), 0.0)
    assert await desk.told() == []


# Before anything is refused.


NEVER = NeverFits(
    Subject("autoscaling/v2", "HorizontalPodAutoscaler", "team-a", "web", "u7"),
    WEB,
    24,
    Ceiling(4, "acme", "requests.cpu", 24 * NANO, 4 * NANO),
)


def ahead(used: int, status: Any = None, *never: NeverFits) -> tuple[Facts, Any]:
    found = facts(used, status)._replace(never_fit=never)
    return found, status_of(found, "2026-11-22T09:30:00Z")


async def test_the_gate_that_writes_that_a_maximum_never_fits_tells_it_once_until_the_numbers_are_others():
    desk = Desk()
    begins, told = ahead(1, None, NEVER)
    desk.notices.status_written(begins, told)
    desk.notices.status_written(*ahead(2, told, NEVER))
    assert await desk.told() == [("never-fits", ("all", "ops"))]
    assert desk.last.subject == "deployments.apps/team-a/web"
    assert desk.last.data == {
        "sentence": f"HorizontalPodAutoscaler team-a/web: {NEVER.sentence}",
        "workspaces": ["acme"],
        "workload": {"resource": "deployments.apps", "namespace": "team-a", "name": "web"},
        "autoscaler": {"kind": "HorizontalPodAutoscaler", "name": "web"},
        "replicas": {"asked": 24, "fits": 4},
        "shortages": [
            {
                "quota": "acme",
                "resource": "requests.cpu",
                "requested": "24",
                "used": "0",
                "reserved": "0",
                "hard": "4",
            }
        ],
    }
    desk.notices.status_written(*ahead(2, told, NEVER._replace(asked=30)))
    await desk.told()
    assert len({notice.id for notice, _ in desk.put}) == 2
    there = Desk()
    there.notices.status_written(begins, told)
    await there.told()
    assert there.last.id == desk.put[0][0].id, "a gate that wrote at the same moment has the same id for it"


async def test_where_nobody_writes_statuses_a_look_tells_it_once():
    desk = Desk()
    await desk.notices.look()
    assert desk.put == [], "nobody knows yet what autoscalers may ask for"
    desk.notices.ceilings = lambda: {"acme": (NEVER,)}
    for _ in range(2):
        await desk.notices.look()
    assert [notice.kind.value for notice, _ in desk.put] == ["never-fits"]
    desk.notices.ceilings = dict
    await desk.notices.look()
    desk.notices.ceilings = lambda: {"acme": (NEVER,)}
    await desk.notices.look()
    assert [notice.kind.value for notice, _ in desk.put] == ["never-fits", "never-fits"], "it was gone in between"


# What goes wrong.


async def test_too_many_at_once_are_dropped_loudly(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MOST_GRANTS", 3)
    desk = Desk()
    for number in range(MAX_OPEN + 2):
        desk.notices.decided(Report(DENIED._replace(ref=WEB._replace(name=f"web-{number}"))))
    for number in range(5):
        desk.notices.decided(Report(GRANTED._replace(replicas=10 + number)))
    await desk.told()
    (line,) = desk.lines
    assert (line["event"], line["receiver"], line["notices"]) == ("notice-dropped", "-", 4)
    assert desk.notices.dropped == 4
    await desk.told()
    assert len(desk.lines) == 1


async def test_a_fault_of_ours_ends_one_notice_and_nothing_else():
    desk = Desk(receivers=[ALL])
    bad = DENIED._replace(evidence=Evidence((SHORT._replace(hard=None),)))  # type: ignore[arg-type]
    assert await desk.told(bad, GRANTED._replace(ref=WEB._replace(name="api"))) == [("granted", ("all",))]
    (line,) = desk.lines
    assert line["event"] == "notice-failed"
    assert "Traceback" in line["traceback"]


async def test_the_task_tells_a_refusal_at_once_and_looks_which_quotas_are_over(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "SWEEP_S", 0.001)
    monkeypatch.setattr(module, "TICK_S", 3600.0)
    desk = Desk()
    over(desk, "1")
    running = asyncio.create_task(desk.notices.run())
    async with asyncio.timeout(20):
        await desk.more.wait()
        desk.more.clear()
        desk.notices.decided(Report(DENIED))
        await desk.more.wait()
    running.cancel()
    assert [notice.kind.value for notice, _ in desk.put] == ["over", "refused"]


def test_the_example_of_the_page_has_the_schema_of_the_page():
    blocks = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)]
    (example,) = [block for block in blocks if "specversion" in block]
    VALIDATOR.validate(example["data"])
