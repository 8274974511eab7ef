"""Metrics: plain counters on the request path, made into Prometheus series only when somebody scrapes."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import accumulate
from types import MappingProxyType
from typing import NamedTuple

import yaml
from prometheus_client import REGISTRY
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from extauthz.core.model import Decision, Evidence, Lower
from extauthz.core.queries import QuotaUse
from extauthz.tell.observe import quota_facts
from extauthz.tell.observe.observers import Report
from extauthz.tell.observe.quota_facts import Level, Waiting, auditing, refusing


class Family(NamedTuple):
    """One line of the table of metrics: every series, with what it means."""

    name: str
    kind: str
    """``counter``, ``gauge`` or ``histogram``."""
    unit: str
    labels: list[str]
    help: str


TABLE = tuple(
    Family(**one)
    for one in yaml.load(resources.files(__package__).joinpath("metrics.yaml").read_text(), yaml.CSafeLoader)
)

NAMES = {family.name for family in TABLE}


@dataclass(frozen=True)
class _Moment(Collector):
    """The numbers of one moment. They are made into series in a thread, as that takes milliseconds."""

    levels: Mapping[str, Level]
    """By the names of the table; those of quotas come of ``uses`` and ``waiting``."""
    uses: Sequence[QuotaUse]
    waiting: Sequence[Waiting]
    checks: Metric
    """The histogram."""

    def collect(self) -> Iterator[Metric]:
        levels = {**self.levels, **quota_facts.levels(self.uses, self.waiting)}
        for family in TABLE:
            yield self.checks if family.kind == "histogram" else _plain(family, levels[family.name])
        yield from REGISTRY.collect()  # memory, CPU, file descriptors, garbage collection: as of every Python exporter

    def encoded(self, accept: str) -> tuple[bytes, str]:
        """Text and content type: the Prometheus format, or OpenMetrics if ``accept`` asks for it."""
        encoder, content_type = choose_encoder(accept)
        return encoder(self), content_type


def _plain(family: Family, level: Level) -> Metric:
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    metric = kind(family.name, family.help, labels=family.labels)
    for labels, value in level.items():
        metric.add_metric(labels, value)
    return metric


BUCKETS_S = (0.00002, 0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.25, 1.0)
"""A decision takes tens of microseconds; the upper ones show a body of megabytes, or a stalled process."""


class Levels(NamedTuple):
    """What a scrape reads of the running gate, all at once, so the numbers fit each other."""

    uses: Sequence[QuotaUse] = ()
    """The quotas that have series, each after its parent."""
    waiting: Sequence[Waiting] = ()
    """Workloads that are refused and go on asking."""
    others: Mapping[str, Level] = MappingProxyType({})
    """Numbers that are known elsewhere, by the names of the table. What is left out has no series."""


def each(numbers: Mapping[str, float]) -> Level:
    """The series of a metric with one label, by its values."""
    return {(label,): number for label, number in numbers.items()}


class Metrics:
    """Counts decisions and reloads. Not safe for threads: only the event loop's thread may call it.

    Args:
        levels: called at each scrape, on the event loop.
    """

    def __init__(self, levels: Callable[[], Levels]) -> None:
        self._levels = levels
        self._counts: dict[str, Counter[tuple[str, ...]]] = {
            family.name: Counter() if family.labels else Counter({(): 0})
            for family in TABLE
            if family.kind == "counter"
        }
        """By the names of the table, then by labels."""
        self._decisions = self._counts["extauthz_decisions_total"]
        self._buckets = [0] * (len(BUCKETS_S) + 1)
        self._seconds = 0.0
        self._drift = 0
        self._last_good: dict[tuple[str, ...], float] = {}

    def _count(self, name: str, *labels: str, by: int = 1) -> None:
        self._counts[name][labels] += by

    def decided(self, told: Report) -> None:
        """Count a decision and what it took; or, once for each resource of each quota without room, a write that was
        asked for with fewer replicas."""
        decision, evidence, seconds = told.decision, told.decision.evidence, told.seconds
        if isinstance(decision.todo, Lower):
            for key in _lowered_by(evidence) if not decision.dry_run else ():
                self._count("extauthz_clamps_total", *key)
            return
        self._decisions[decision.verdict, decision.reason] += 1
        self._buckets[bisect_left(BUCKETS_S, seconds)] += 1
        self._seconds += seconds
        if evidence.audit or any(row.audits for row in evidence.unspecified):
            self._count("extauthz_audit_refusals_total")
        if decision.would is not None:
            self._count("extauthz_would_refuse_total", decision.would, decision.reason)
        if decision.refusal is not None or evidence.audit or evidence.unspecified:
            self._by_quota(decision)
        for row in evidence.policies:
            result = "audited" if row.audits else row.result
            self._count("extauthz_policy_answers_total", row.policy, row.step, result)

    def policy_failed(self, policy: str, step: str) -> None:
        """A policy failed when it was told what became of a grant."""
        self._count("extauthz_policy_answers_total", policy, step, "failed")

    def _by_quota(self, decision: Decision) -> None:
        """Count it once for each quota and resource that refuses, or would."""
        audits = [(row.quota, row.resource) for row in auditing(decision)]
        refused = [(row.quota, row.resource) for row in refusing(decision)]
        if decision.would is not None:
            audits, refused = [*audits, *refused], []
        for key in dict.fromkeys(audits):
            self._count("extauthz_quota_audit_refusals_total", *key)
        for key in refused:
            self._count("extauthz_quota_refusals_total", *key, decision.refusal or "")

    def answer(self, event: str) -> None:
        """What became of a decided request."""
        self._count("extauthz_answers_total", event)

    def skipped(self, why: str) -> None:
        """An entry of Envoy's access log told nothing."""
        self._count("extauthz_access_log_skipped_total", why)

    def read(self, result: str, ended: int) -> None:
        """A consistent read ended so many pending writes."""
        self._count("extauthz_reads_total", result)
        self._count("extauthz_intents_ended_by_read_total", by=ended)

    def ledger_write(self, result: str, grants: int) -> None:
        """A ledger object that gates share was written, with so many grants."""
        self._count("extauthz_ledger_writes_total", result)
        self._count("extauthz_ledger_grants_total", by=grants)

    def asked(self, source: str, result: str) -> None:
        """A service was asked over HTTP."""
        self._count("extauthz_source_requests_total", source, result)

    def recount(self, result: str, differences: int) -> None:
        """Usage was recounted, and so many numbers differed from what was kept."""
        self._count("extauthz_recounts_total", result)
        self._drift = differences
        self._count("extauthz_drift_repaired_total", by=differences)

    def unreadable(self, resource: str) -> None:
        """An object of the cluster cannot be read."""
        self._count("extauthz_unreadable_objects_total", resource)

    def reload(self, source: str, result: str, at: float) -> None:
        """A source has changed. ``at``: seconds since the epoch."""
        self._count("extauthz_reload_total", source, result)
        if result == "ok":
            self._last_good[source,] = at

    async def scrape(self, accept: str) -> tuple[bytes, str]:
        """The exposition, and its content type, in the format that ``accept`` asks for.

        The numbers are copied on the event loop, which is quick; wording them, which is not, is left to a thread.
        """
        return await asyncio.to_thread(self._moment().encoded, accept)

    def _moment(self) -> _Moment:
        now = self._levels()
        shown = {(row.quota, row.resource) for use in now.uses for row in use.rows}
        for name in _OF_QUOTAS:
            _keep(self._counts[name], lambda key: key[:2] in shown)
        by_kind = now.others.get("extauthz_quota_used_by_kind", {})
        levels: dict[str, Level] = {
            **dict.fromkeys(NAMES, MappingProxyType({})),
            **{name: dict(counts) for name, counts in self._counts.items()},
            **now.others,
            "extauthz_line_waiting": {(one.node.quota.name,): n for one in now.uses if (n := one.waiting) is not None},
            "extauthz_quota_used_by_kind": {of: used for of, used in by_kind.items() if of[:2] in shown},
            "extauthz_drift": {(): self._drift},
            "extauthz_source_last_good_timestamp_seconds": dict(self._last_good),
        }
        assert levels.keys() == NAMES, "the table has every series"
        return _Moment(levels, now.uses, now.waiting, self._histogram())

    def _histogram(self) -> Metric:
        name = "extauthz_check_seconds"
        metric = HistogramMetricFamily(name, next(family.help for family in TABLE if family.name == name))
        bounds = [*map(str, BUCKETS_S), "+Inf"]
        metric.add_metric([], list(zip(bounds, accumulate(self._buckets), strict=True)), self._seconds)
        return metric


_OF_QUOTAS = ("extauthz_quota_refusals_total", "extauthz_quota_audit_refusals_total", "extauthz_clamps_total")


def _lowered_by(evidence: Evidence) -> list[tuple[str, str]]:
    return [(short.quota, short.resource) for short in evidence.shortages]


def _keep(counts: Counter[tuple[str, ...]], is_shown: Callable[[tuple[str, ...]], bool]) -> None:
    """Forget the others: they have no series any more."""
    for key in [key for key in counts if not is_shown(key)]:
        del counts[key]
