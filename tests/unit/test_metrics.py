"""Metrics: the documented series, with the numbers that were told."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from extauthz.core.ledger.accounts import UsageRow
from extauthz.core.model import Decision, Evidence, Lower, PolicyAnswer, Shortage, Unspecified, Verdict
from extauthz.core.queries import QuotaUse
from extauthz.core.quota.tree import QuotaTree
from extauthz.tell.observe.metrics import BUCKETS_S, TABLE, Levels, Metrics, each
from extauthz.tell.observe.observers import Report
from extauthz.tell.observe.quota_facts import Level, Waiting
from extauthz.testing import quota

NANOS = 10**9
SHORT = Shortage("acme", ("acme",), "requests.cpu", 12 * NANOS, NANOS * 3 // 2, NANOS // 4, 10 * NANOS)
DENIED = Decision("d", Verdict.DENY, "exceeded-quota", "", evidence=Evidence((SHORT,)))
LABELS = {family.name: family.labels for family in TABLE}
TOTALS = ("log_dropped", "record_dropped", "watch_relists", "api_calls", "status_writes", "event_writes")
OTHERS = [
    *(family.name for family in TABLE if family.kind == "gauge"),
    *(f"extauthz_{name}_total" for name in TOTALS),
]
"""Told at each scrape by whoever knows them; of quotas it does not matter."""
DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"


@pytest.fixture
def metrics() -> Metrics:
    node = QuotaTree.build([quota("acme", {"cpu": "10"})]).nodes[0]
    row = UsageRow("acme", "requests.cpu", NANOS * 3 // 2, NANOS // 4, 10 * NANOS)
    by_kind = {("acme", "requests.cpu", "jobs.batch"): 2.0, ("gone", "requests.cpu", "jobs.batch"): 1.0}
    others: dict[str, Level] = {
        **{name: {("label",) * len(LABELS[name]): 1} for name in OTHERS},
        "extauthz_certificate_ends_in_seconds": each({"webhook": 60.0}),
        "extauthz_quota_used_by_kind": by_kind,
        "extauthz_policy_level": {("memory", "used", "batch"): 0.95},
    }
    uses = [QuotaUse(node, (row,), 1, 0, ("shop",), waiting=3)]
    levels = Levels(uses, [Waiting(DENIED, 90.0)], others)
    return Metrics(lambda: levels)


async def scraped(metrics: Metrics, accept: str = "") -> dict[tuple[str, ...], float]:
    """Name and label values, in the table's order, to the number."""
    body, _ = await metrics.scrape(accept)
    families = text_string_to_metric_families(body.decode())
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


async def test_decisions_are_counted_by_verdict_and_reason(metrics: Metrics) -> None:
    audited = (Shortage("q", ("q",), "pods", 1, 1, 0, 1),)
    for decision in (
        Decision("1", Verdict.DENY, "exceeded-quota", ""),
        Decision("2", Verdict.DENY, "exceeded-quota", ""),
        Decision("3", Verdict.ALLOW, "fits", "", evidence=Evidence(audit=audited)),
        Decision(
            "4",
            Verdict.ALLOW,
            "fits",
            "",
            evidence=Evidence(unspecified=(Unspecified("q", ("q",), "requests.cpu", ("c",), True),)),
        ),
        Decision(
            "5",
            Verdict.DENY,
            "must-specify",
            "",
            evidence=Evidence(unspecified=(Unspecified("q", ("q",), "limits.cpu", ("c",)),)),
        ),
    ):
        metrics.decided(Report(decision, seconds=0.00003))
    numbers = await scraped(metrics)
    assert numbers["extauthz_decisions_total", "exceeded-quota", "deny"] == 2
    assert numbers["extauthz_decisions_total", "fits", "allow"] == 2
    assert numbers["extauthz_decisions_total", "must-specify", "deny"] == 1
    assert numbers["extauthz_audit_refusals_total",] == 2


async def test_check_seconds_is_a_cumulative_histogram(metrics: Metrics) -> None:
    for seconds in (0.00001, BUCKETS_S[0], 0.0003, 60.0):
        metrics.decided(Report(Decision("1", Verdict.ALLOW, "fits", ""), seconds=seconds))
    numbers = await scraped(metrics)
    name = "extauthz_check_seconds"
    assert numbers[f"{name}_bucket", str(BUCKETS_S[0])] == 2
    assert numbers[f"{name}_bucket", "0.0005"] == 3
    assert numbers[f"{name}_bucket", "1.0"] == 3
    assert numbers[f"{name}_bucket", "+Inf"] == numbers[f"{name}_count",] == 4
    assert numbers[f"{name}_sum",] == pytest.approx(60.00033)


async def test_what_plug_ins_measure_is_one_family(metrics: Metrics) -> None:
    numbers = await scraped(metrics)
    assert numbers["extauthz_policy_level", "used", "batch", "memory"] == 0.95


async def test_amounts_are_in_whole_units(metrics: Metrics) -> None:
    numbers = await scraped(metrics)
    amounts = [numbers[f"extauthz_quota_{kind}", "acme", "requests.cpu"] for kind in ("used", "reserved", "hard")]
    assert amounts == [1.5, 0.25, 10.0]


async def test_a_refused_reload_leaves_the_time_of_the_last_good_one(metrics: Metrics) -> None:
    metrics.reload("quotas", "ok", 1000.0)
    metrics.reload("quotas", "refused", 2000.0)
    numbers = await scraped(metrics)
    assert numbers["extauthz_reload_total", "ok", "quotas"] == 1
    assert numbers["extauthz_reload_total", "refused", "quotas"] == 1
    assert numbers["extauthz_source_last_good_timestamp_seconds", "quotas"] == 1000.0


async def test_every_series_of_ours_is_in_the_table_with_its_type_and_labels(metrics: Metrics) -> None:
    metrics.decided(Report(Decision("1", Verdict.ALLOW, "fits", ""), seconds=0.1))
    metrics.decided(Report(Decision("2", Verdict.ALLOW, "stale", "", would=Verdict.UNAVAILABLE), seconds=0.1))
    metrics.decided(Report(DENIED, seconds=0.1))
    metrics.decided(Report(Decision("4", Verdict.ALLOW, "fits", "", evidence=Evidence(audit=(SHORT,))), seconds=0.1))
    metrics.reload("state", "ok", 1.0)
    short = Shortage("acme", (), "requests.cpu", 1, 1, 0, 1)
    metrics.decided(Report(Decision("3", Verdict.DENY, "", "", evidence=Evidence((short,)), todo=Lower(1, ""))))
    metrics.policy_failed("p", "reserve")
    metrics.answer("refused")
    metrics.skipped("no-decision")
    metrics.read("ok", 1)
    metrics.ledger_write("ok", 3)
    metrics.unreadable("pods")
    metrics.recount("exact", 0)
    metrics.asked("quotas", "ok")
    body, content_type = await metrics.scrape("")
    assert content_type.startswith("text/plain")
    told = {}
    for family in text_string_to_metric_families(body.decode()):
        if family.name.startswith("extauthz_"):
            suffix = "_total" if family.type == "counter" else ""
            labels = set(family.samples[0].labels) - {"le"}
            told[family.name + suffix] = (family.type, family.documentation, labels)
    assert told == {family.name: (family.kind, family.help, set(family.labels)) for family in TABLE}


async def test_openmetrics_is_spoken_to_those_who_ask(metrics: Metrics) -> None:
    body, content_type = await metrics.scrape("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")


async def test_answers_and_skipped_entries_are_counted_by_name(metrics: Metrics) -> None:
    for event in ("refused", "refused", "answered-ok"):
        metrics.answer(event)
    metrics.skipped("no-decision")
    numbers = await scraped(metrics)
    assert numbers["extauthz_answers_total", "refused"] == 2
    assert numbers["extauthz_answers_total", "answered-ok"] == 1
    assert numbers["extauthz_access_log_skipped_total", "no-decision"] == 1


async def test_reads_are_told(metrics: Metrics) -> None:
    for result, ended in (("ok", 2), ("ok", 1), ("forbidden", 0)):
        metrics.read(result, ended)
    metrics.unreadable("pods")
    numbers = await scraped(metrics)
    assert numbers["extauthz_reads_total", "ok"] == 2
    assert numbers["extauthz_reads_total", "forbidden"] == 1
    assert numbers["extauthz_intents_ended_by_read_total",] == 3
    assert numbers["extauthz_unreadable_objects_total", "pods"] == 1


async def test_what_policies_have_against_growth_is_counted_by_policy_step_and_result(metrics: Metrics) -> None:
    rows = (
        PolicyAnswer("hours", "filter", "refused", "no"),
        PolicyAnswer("calm", "permit", "unknown", "it failed"),
        PolicyAnswer("hours", "filter", "refused", "no", audits=True),
    )
    metrics.decided(
        Report(Decision("1", Verdict.DENY, "policy-refused", "", evidence=Evidence(policies=rows)), seconds=0.1)
    )
    metrics.policy_failed("calm", "reserve")
    body, _ = await metrics.scrape("")
    families = text_string_to_metric_families(body.decode())
    told = next(one for one in families if one.name == "extauthz_policy_answers")
    assert {(*one.labels.values(),): one.value for one in told.samples} == {
        ("calm", "unknown", "permit"): 1.0,
        ("calm", "failed", "reserve"): 1.0,
        ("hours", "audited", "filter"): 1.0,
        ("hours", "refused", "filter"): 1.0,
    }
