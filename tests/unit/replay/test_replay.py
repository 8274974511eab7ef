"""A record replayed: under its own quotas, and under others."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any, TypeVar

import pytest

from extauthz.core.decision.policy import Policy
from extauthz.core.kinds import CLAIMS
from extauthz.core.ledger.accounts import Shared
from extauthz.core.model import Observed, Verdict, WorkloadRef
from extauthz.core.objects.workloads import claim_template
from extauthz.core.quota.spec import WorkspaceQuota
from extauthz.core.quota.tree import QuotaTree
from extauthz.tell.record.lines import Load
from extauthz.tell.record.reading import Record
from extauthz.testing import create, owned_by, patch, path, pod, quota, scale, workload
from extauthz.tools.replay.play import NeverOverError, dearer
from extauthz.tools.replay.run import Replay, Result
from tests.support.recording import BEGINS_S, Recorded

ROW = ("acme", "pods")
Kind = TypeVar("Kind")


def limit(pods: int, **how: Any) -> WorkspaceQuota:
    return quota("acme", {"pods": str(pods)}, **how)


def web(replicas: int, version: int = 1, name: str = "web") -> dict[str, Any]:
    return workload(name, replicas, version=str(version))


def events(folder: Path, kind: type[Kind]) -> list[Kind]:
    return [event for event in Record(folder).events() if isinstance(event, kind)]


def lines(folder: Path) -> list[str]:
    return [line for each in sorted(folder.glob("*.gz")) for line in gzip.open(each, "rt")]


def replayed(of: Recorded | Path, *quotas: WorkspaceQuota, **how: Any) -> Result:
    """A gate's record, which ends with that, or the one in a folder."""
    if isinstance(of, Recorded):
        of.close()
        of = of.folder
    return Replay(Record(of), QuotaTree.build(quotas) if quotas else None, **how).run()


def grown(gate: Recorded, to: int, version: int, lands_s: float = 2.0) -> None:
    """Asked, and seen soon after."""
    gate.ask(scale("web", to))
    gate.later(lands_s)
    gate.observe(web(to, version))


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """Beside batch (1 pod) web asks 2 → 4 at 10:00; batch ends at 10:10, web falls to 2 at 10:30."""
    gate = Recorded(tmp_path, [limit(5)], web(2), workload("batch", 1))
    grown(gate, 4, 2, 0.0)
    gate.later(600)
    gate.gone(workload("batch", 1))
    gate.later(1200)
    gate.ask(scale("web", 2))
    gate.observe(web(2, 3))
    gate.later(60)
    gate.ask(scale("web", 2))
    gate.close()
    return tmp_path


def test_under_the_recorded_quotas_every_answer_is_the_same(example: Path):
    found = replayed(example)
    assert (found.asks, found.same, found.exceptions.total(), found.denied_minutes) == (3, 3, 0, 0)


def test_the_example_of_the_docs(example: Path):
    """Refused, then granted at its first ask after 10:10."""
    found = replayed(example, limit(4))
    assert (found.asks, found.same, found.refused_now, found.granted_now) == (3, 2, 1, 0)
    assert (found.denied_minutes, found.free.levels[ROW].peak) == (20.0, 5 * 10**9)
    row = found.under.refused[ROW]
    assert (row.asks, row.more, len(row.workloads), row.longest_s) == (1, 1, 1, 600.0)


def test_the_peak_is_the_smallest_limit_that_refuses_nothing(example: Path):
    assert replayed(example, limit(5)).under.missed == 0
    assert replayed(example, limit(4)).under.missed > 0


def test_percentiles_are_of_time(example: Path):
    level = replayed(example, limit(5)).free.levels[ROW]
    assert [level.percentile(part) for part in (0.5, 0.66, 0.99)] == [n * 10**9 for n in (4, 4, 5)]


def test_a_want_ends_when_fewer_replicas_are_seen(tmp_path: Path):
    gate = Recorded(tmp_path, [limit(9)], web(2))
    grown(gate, 8, 2)
    gate.later(58)
    gate.observe(web(2, 3))
    gate.later(3600)
    gate.ask(scale("web", 2))
    assert replayed(gate, limit(4)).denied_minutes == 6.0


def test_of_a_want_that_shrinks_what_is_left_stays_wanted(tmp_path: Path):
    gate = Recorded(tmp_path, [limit(9)], web(2))
    grown(gate, 8, 2)
    gate.later(58)
    gate.observe(web(5, 3))
    gate.later(60)
    gate.ask(scale("web", 2))
    assert replayed(gate, limit(4)).denied_minutes == 6.0 + 3.0


def test_a_want_ends_with_the_next_ask_and_with_the_workload(tmp_path: Path):
    gate = Recorded(tmp_path, [limit(9)], web(2), web(1, name="other"))
    grown(gate, 8, 2)
    gate.later(58)
    gate.ask(scale("web", 3))
    gate.later(0)
    gate.observe(web(3, 3))
    gate.later(60)
    grown(gate, 8, 4)
    gate.later(58)
    gate.gone(web(8))
    gate.later(600)
    gate.ask(scale("other", 1))
    found = replayed(gate, limit(4))
    assert found.denied_minutes == 6.0 + 5.0


@pytest.mark.parametrize(
    ("asks", "every_s", "minutes"),
    [
        pytest.param(3, 15.0, 4.0, id="an HPA's spike of 45 s"),
        pytest.param(9, 5.0, 4 * 50 / 60, id="often"),
        pytest.param(3, 1.0, 4 * 32 / 60, id="at once by two ways, as if every 15 s"),
        pytest.param(2, 300.0, 4 * 420 / 60, id="seldom, as if every 60 s"),
        pytest.param(1, 15.0, 2.0, id="once, as if every 15 s"),
    ],
)
def test_a_want_that_nobody_repeats_for_two_intervals_has_ended(
    tmp_path: Path, asks: int, every_s: float, minutes: float
):
    """Load falls back, and nobody says so: an HPA writes nothing where it wants what is there."""
    gate = Recorded(tmp_path, [limit(4)], web(2), web(1, name="other"))
    for _ in range(asks):
        gate.ask(scale("web", 6))
        gate.later(every_s)
    gate.later(86400)
    gate.ask(scale("other", 1))
    here, wide = replayed(gate), replayed(gate, limit(9))
    assert (here.same, here.denied_minutes) == (asks + 1, pytest.approx(minutes))
    level = wide.free.levels[ROW]
    assert (wide.under.missed, level.percentile(0.9), level.peak) == (0, 3 * 10**9, 7 * 10**9)


def test_retries_that_other_lines_part_are_repeated_too(tmp_path: Path):
    """Whatever may free room begins a new line: still somebody asks every 20 s."""
    gate = Recorded(tmp_path, [limit(4)], web(2), web(2, name="other"))
    for version in range(2, 5):
        gate.ask(scale("web", 3))
        gate.later(10)
        gate.observe(web(1 + version % 2, version, name="other"))
        gate.observe(web(2, version + 10, name="other"))
        gate.later(10)
    gate.later(600)
    gate.ask(scale("other", 2))
    assert replayed(gate).denied_minutes == pytest.approx(80 / 60)


def test_what_was_refused_last_ends_and_what_was_granted_before_it_stays_wanted(tmp_path: Path):
    gate = Recorded(tmp_path, [limit(6)], web(2))
    grown(gate, 4, 2, 0.0)
    gate.later(60)
    gate.ask(scale("web", 9))
    gate.later(120)
    gate.ask(scale("web", 4))
    assert replayed(gate, limit(3)).denied_minutes == pytest.approx(2 + 7 * 0.5 + 2 * 1.5)


def test_what_was_refused_before_it_was_granted_is_asked_again_at_its_interval(tmp_path: Path):
    """And each retry after the grant is one that the record has refused."""
    gate = Recorded(tmp_path, [limit(4)], web(2), workload("batch", 2))
    for _ in range(5):
        gate.ask(scale("web", 4))
        gate.later(20)
    gate.close()
    here = replayed(tmp_path)
    assert (here.asks, here.same, here.denied_minutes) == (5, 5, 160 / 60)
    wide = replayed(tmp_path, limit(6))
    assert (wide.same, wide.granted_now, wide.under.missed) == (0, 5, 0)


def test_a_retry_is_counted_once(tmp_path: Path):
    gate = Recorded(tmp_path, [limit(4)], web(2), workload("batch", 2))
    for _ in range(3):
        gate.ask(scale("web", 4))
        gate.later(15)
    gate.ask(scale("batch", 1))
    found = replayed(gate, limit(3))
    assert (found.asks, found.under.refused[ROW].asks, len(found.under.refused[ROW].workloads)) == (4, 3, 1)
    assert found.denied_minutes == 1.5


def test_a_quota_in_mode_clamp_grants_what_fits_and_the_rest_stays_wanted(tmp_path: Path):
    """Of six that were granted then, four fit at once, and five once ``batch`` is gone; it asks again every 15 s."""
    gate = Recorded(tmp_path, [limit(9)], web(2), workload("batch", 1))
    grown(gate, 6, 2, 1.0)
    gate.later(59)
    gate.gone(workload("batch", 1))
    gate.later(60)
    gate.ask(scale("web", 6))
    gate.close()
    found = replayed(tmp_path, limit(5, mode="Clamp"))
    (want,) = (want for _, _, want in found.under.wants)
    assert (want.first, want.ask.to, found.denied_minutes) == (2, 6, pytest.approx((60 * 2 + 60 * 1) / 60))
    assert replayed(tmp_path, limit(5)).denied_minutes == pytest.approx(120 * 4 / 60)


def test_a_landing_of_what_is_refused_here_does_not_happen(tmp_path: Path):
    """So others have the room that it does not take."""
    gate = Recorded(tmp_path, [limit(9)], web(2), web(1, name="other"))
    grown(gate, 6, 2)
    gate.later(60)
    gate.ask(scale("other", 2))
    found = replayed(gate, limit(4))
    assert (found.refused_now, found.same) == (1, 1)


def test_what_is_granted_here_alone_lands_and_takes_room(tmp_path: Path):
    gate = Recorded(tmp_path, [limit(3)], web(2), web(1, name="other"))
    gate.ask(scale("web", 4))
    gate.later(20)
    gate.ask(scale("other", 3))
    found = replayed(gate, limit(6))
    assert (found.granted_now, found.same) == (1, 1)


def test_growth_past_the_gate_counts(tmp_path: Path):
    gate = Recorded(tmp_path, [limit(9)], web(2), web(1, name="other"))
    gate.later(10)
    gate.observe(web(5, 2))
    gate.later(10)
    gate.ask(scale("other", 2))
    found = replayed(gate, limit(6))
    assert (found.refused_now, found.free.levels[ROW].peak) == (1, 7 * 10**9)


def test_growth_past_the_gate_of_what_was_refused_here_counts(tmp_path: Path):
    gate = Recorded(tmp_path, [limit(9)], web(2))
    grown(gate, 4, 2)
    gate.later(60)
    gate.observe(web(7, 3))
    gate.later(60)
    gate.ask(scale("web", 7))
    found = replayed(gate, limit(3))
    assert (found.refused_now, found.denied_minutes) == (1, 62 * 2 / 60)


def test_an_object_that_is_refused_here_is_not_made(tmp_path: Path):
    gate = Recorded(tmp_path, [limit(9)], web(2))
    gate.ask(create(workload("new", 3)))
    gate.later(1)
    gate.observe(workload("new", 3))
    gate.later(60)
    gate.ask(scale("web", 4))
    found = replayed(gate, limit(4))
    assert (found.refused_now, found.same) == (1, 1)


CPU = ("acme", "requests.cpu")


def cpus(amount: int) -> WorkspaceQuota:
    return quota("acme", {"requests.cpu": str(amount), "requests.storage": "100Gi"})


def test_an_object_that_may_still_land_makes_each_replica_dearer(tmp_path: Path):
    """Also once the record has said something else of the workload."""
    gate = Recorded(tmp_path, [cpus(5), quota("calm", {"requests.cpu": "5"})], web(1))
    assert gate.ask(patch(path(), {"spec": {"template": pod({"cpu": "2"})}})).verdict is Verdict.ALLOW
    gate.later(1)
    gate.gate.observe_namespace("team-a", {"workspace": "calm"})
    gate.later(1)
    assert gate.ask(scale("web", 3)).verdict is Verdict.DENY
    gate.close()
    assert [load.may for load in events(tmp_path, Load)][-1]["requests.cpu"] == 2 * 10**9
    found = replayed(tmp_path)
    assert (found.same, found.asks) == (2, 2)
    rows = [row for row in lines(tmp_path) if '"from":1,"to":1' not in row]
    (later := tmp_path / "later").mkdir()
    (later / "g.jsonl.gz").write_bytes(gzip.compress("".join(rows).encode()))
    assert (replayed(later).same, replayed(later).asks) == (1, 1)


def test_a_template_that_is_replaced_may_run_for_a_while(tmp_path: Path):
    """So a cheaper one with more replicas costs what as many of the old one do."""
    gate = Recorded(tmp_path, [cpus(4)], web(1))
    cheaper = {"spec": {"replicas": 5, "template": pod({"cpu": "500m"})}}
    assert gate.ask(patch(path(), cheaper)).verdict is Verdict.DENY
    found = replayed(gate)
    assert (found.same, found.asks) == (1, 1)


def test_a_count_is_no_retry_of_an_object(tmp_path: Path):
    gate = Recorded(tmp_path, [cpus(4)], web(2))
    dearer = {"spec": {"replicas": 3, "template": pod({"cpu": "2"})}}
    assert gate.ask(patch(path(), dearer)).verdict is Verdict.DENY
    gate.later(1)
    assert gate.ask(scale("web", 3)).verdict is Verdict.ALLOW
    found = replayed(gate)
    assert (found.same, found.asks) == (2, 2)


def test_an_object_that_waits_is_asked_again_with_what_it_brings(tmp_path: Path):
    gate = Recorded(tmp_path, [cpus(9)], web(2), workload("batch", 3))
    dearer = {"spec": {"template": pod({"cpu": "2"})}}
    assert gate.ask(patch(path(), dearer)).verdict is Verdict.ALLOW
    gate.later(60)
    gate.observe(workload("batch", 2, version="2"))
    gate.later(60)
    gate.gone(workload("batch", 2))
    gate.later(60)
    gate.ask(scale("web", 2))
    gate.close()
    found = replayed(tmp_path, cpus(5))
    assert found.refused_now == 1
    assert round(found.under.refused[CPU].longest_s) == 120


def database(replicas: int, version: int = 1) -> dict[str, Any]:
    made = workload("db", replicas, kind="StatefulSet", version=str(version))
    claim = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    made["spec"] |= {"serviceName": "db", "volumeClaimTemplates": [claim]}
    return made


def claim(number: int) -> tuple[WorkloadRef, Observed]:
    made = claim_template({"spec": {"resources": {"requests": {"storage": "2Gi"}}}})
    return WorkloadRef(*CLAIMS, "team-a", f"data-db-{number}"), Observed(1, made, "app=db")


def test_claims_that_are_there_are_taken_up_by_the_next_replicas(tmp_path: Path):
    stored = quota("acme", {"requests.storage": "9Gi", "requests.cpu": "5"})
    gate = Recorded(tmp_path, [stored], database(1))
    for number in range(4):
        gate.gate.observe(*claim(number))
    assert gate.ask(scale("db", 3, resource="statefulsets")).verdict is Verdict.ALLOW
    gate.later(1)
    gate.observe(database(3, 2))
    gate.later(1)
    assert gate.ask(scale("db", 5, resource="statefulsets")).verdict is Verdict.DENY
    found = replayed(gate)
    assert (found.same, found.asks) == (2, 2)
    assert found.free.levels["acme", "requests.storage"].peak == 10 * 2**30 * 10**9


def test_pods_beyond_a_count_that_grows_again_cost_once(tmp_path: Path):
    owned = workload("web-1", 4, kind="ReplicaSet", ownerReferences=owned_by("web"), labels={"app": "web"})
    gate = Recorded(tmp_path, [limit(4)], web(0), owned)
    assert gate.ask(scale("web", 3)).verdict is Verdict.ALLOW
    gate.later(1)
    assert gate.ask(scale("web", 5)).verdict is Verdict.DENY
    gate.close()
    found = replayed(tmp_path)
    assert (found.same, found.asks, found.free.levels[ROW].peak) == (2, 2, 5 * 10**9)


def test_what_was_refused_and_is_not_there_is_wanted_until_nobody_asks_any_more(tmp_path: Path):
    gate = Recorded(tmp_path, [limit(4)], web(2))
    for _ in range(3):
        gate.ask(create(workload("new", 3)))
        gate.later(10)
    gate.later(970)
    gate.ask(scale("web", 2))
    found = replayed(gate)
    assert (found.same, found.denied_minutes) == (4, pytest.approx(3 * 40 / 60))
    level = found.free.levels[ROW]
    assert (level.percentile(0.9), level.peak) == (2 * 10**9, 5 * 10**9)
    assert replayed(gate, limit(5)).under.missed == 0


def test_answers_that_no_quota_has_given_are_taken_as_recorded(tmp_path: Path):
    silent = workload("silent", 1, {"memory": "1Gi"})
    gate = Recorded(tmp_path, [quota("acme", {"requests.cpu": "9"})], silent)
    gate.ask(scale("silent", 3))
    found = replayed(gate, quota("acme", {"requests.cpu": "1"}))
    assert (found.asks, found.taken, found.same) == (1, 1, 1)


def test_time_in_a_gap_counts_for_nothing(tmp_path: Path):
    gate = Recorded(tmp_path, [limit(4)], web(2))
    gate.ask(scale("web", 6))
    gate.later(60)
    gate.ask(scale("web", 6))
    gate.close()
    again = Recorded(tmp_path, [limit(4)], web(2), at_s=BEGINS_S + 1060)
    again.later(60)
    again.ask(scale("web", 2))
    again.close()
    found = replayed(tmp_path)
    assert (found.gaps, found.gap_s, found.counted_s) == (1, 1000.0, 120.0)
    assert found.denied_minutes == pytest.approx(4)  # nobody asks in the gap, so nobody wants it after that
    assert sum(found.free.levels[ROW].seconds.values()) == 120.0


def test_what_went_in_a_gap_is_gone_after_it(tmp_path: Path):
    gate = Recorded(tmp_path, [limit(9), quota("calm", {"pods": "1"}, namespaces={})], web(2), workload("batch", 5))
    gate.close()
    again = Recorded(tmp_path, [limit(9)], web(2), at_s=BEGINS_S + 100)
    again.ask(scale("web", 8))
    again.close()
    assert (replayed(tmp_path, limit(9)).same, replayed(tmp_path).same) == (1, 1)


def test_only_what_lies_between_two_times_is_measured(example: Path):
    found = replayed(example, limit(4), since_s=BEGINS_S + 300, until_s=BEGINS_S + 900)
    assert (found.asks, found.denied_minutes, found.counted_s) == (0, 10.0, 600.0)


def test_a_change_of_quotas_is_replayed_too(tmp_path: Path):
    gate = Recorded(tmp_path, [limit(3)], web(2))
    gate.ask(scale("web", 5))
    gate.later(30)
    gate.limit(limit(6))
    gate.later(30)
    gate.ask(scale("web", 5))
    found = replayed(gate)
    assert (found.same, found.asks, found.denied_minutes) == (2, 2, pytest.approx(1.5))


def test_labels_of_namespaces_move_workloads_between_quotas(tmp_path: Path):
    gate = Recorded(tmp_path, [limit(3), quota("calm", {"pods": "9"})], web(2))
    gate.ask(scale("web", 5))
    gate.later(30)
    gate.gate.observe_namespace("team-a", {"workspace": "calm"})
    gate.later(30)
    gate.ask(scale("web", 5))
    found = replayed(gate)
    assert (found.same, found.asks) == (2, 2)
    assert found.free.levels["calm", "pods"].peak == 5 * 10**9


def test_files_of_several_gates_are_one_record(tmp_path: Path):
    one = Recorded(tmp_path, [limit(9)], web(2), name="a")
    other = Recorded(tmp_path, [limit(9)], web(2), name="b")
    one.ask(scale("web", 4))
    for gate in (one, other):
        gate.later(2)
        gate.observe(web(4, 2))
        gate.later(10)
    other.ask(scale("web", 6))
    for gate in (one, other):
        found = replayed(gate, limit(4))
    assert (found.asks, found.same, found.refused_now, found.gaps) == (2, 1, 1, 0)


def test_a_gate_that_is_behind_takes_nothing_back(tmp_path: Path):
    one = Recorded(tmp_path, [limit(9)], web(2), name="a")
    other = Recorded(tmp_path, [limit(9)], web(2), name="b")
    one.observe(web(4, 20))
    for gate in (one, other):
        gate.later(10)
    other.observe(web(3, 15))
    for gate in (one, other):
        gate.later(10)
    one.ask(scale("web", 8))
    for gate in (one, other):
        assert replayed(gate, limit(9)).free.levels[ROW].percentile(0.99) == 4 * 10**9


def test_a_record_in_mode_audit_grants_and_says_what_enforce_would(tmp_path: Path):
    gate = Recorded(tmp_path, [limit(3)], web(2), policy=Policy(mode="audit"))
    grown(gate, 5, 2)
    gate.later(60)
    gate.ask(scale("web", 3))
    assert replayed(gate).same == 2
    enforced = replayed(gate, limit(3))
    assert (enforced.refused_now, enforced.denied_minutes) == (1, 62 * 3 / 60)


def test_guarantees_and_overrides_of_the_record_hold(tmp_path: Path):
    kept = [
        quota("acme", {"pods": "6"}),
        quota("a", {"pods": "6"}, parent="acme", namespaces={}, workloads={"app": "other"}, guaranteed={"pods": "3"}),
    ]
    gate = Recorded(tmp_path, kept, web(2))
    gate.ask(scale("web", 4))
    gate.ask(scale("web", 3))
    assert replayed(gate).same == 2


def test_a_grant_above_a_limit_is_a_bug_that_is_told(example: Path, monkeypatch: pytest.MonkeyPatch):
    from extauthz.core.ledger.accounts import Account

    monkeypatch.setattr(Account, "available", lambda *_: 10**15)
    with pytest.raises(NeverOverError, match="takes pods above its limit"):
        replayed(example, limit(4))


def test_the_same_amounts_give_one_object():
    one, other = Shared({"cpu": 1}), Shared({"memory": 2})
    assert dearer(one, other) is dearer(one, other)
    assert dict(dearer(one, other)) == {"cpu": 1, "memory": 2}
