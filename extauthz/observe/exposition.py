"""Writes a copy of the numbers in the Prometheus text formats. It takes milliseconds, so it runs in a thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from extauthz.core.queries import QuotaUse
from extauthz.observe import workspaces
from extauthz.observe.table import TABLE, Family
from extauthz.observe.workspaces import Level, Waiting


class Times(NamedTuple):
    """A histogram: how many values each bucket has. The last bucket has no upper bound."""

    bounds: Sequence[float]
    counts: Sequence[int]
    seconds: float


class Snapshot(NamedTuple):
    """The numbers of one moment, by the names of the table."""

    levels: Mapping[str, Level]
    times: Mapping[str, Times]
    quotas: Sequence[QuotaUse]
    """Those that have series, each after its parent."""
    waiting: Sequence[Waiting]
    """Workloads that are refused and go on asking."""


def encode(snapshot: Snapshot, accept: str) -> tuple[bytes, str]:
    """Text and content type: the Prometheus format, or OpenMetrics if ``accept`` asks for it."""
    encoder, content_type = choose_encoder(accept)
    return encoder(_Ready([*_ours(snapshot), *PROCESS.collect()])), content_type


class _Ready(Collector):
    """Metrics that exist already, in the form that the encoders need."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def _process() -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


PROCESS = _process()
"""Memory, CPU, file descriptors, garbage collection: what every Python exporter shows."""


def _ours(snapshot: Snapshot) -> Iterable[Metric]:
    levels = {**snapshot.levels, **workspaces.levels(snapshot.quotas, snapshot.waiting)}
    for family in TABLE:
        if family.kind == "histogram":
            yield _histogram(family, snapshot.times[family.name])
        else:
            yield _plain(family, levels[family.name])


def _plain(family: Family, level: Level) -> Metric:
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    metric = kind(family.name, family.help, labels=family.labels)
    for labels, value in level.items():
        metric.add_metric(labels, value)
    return metric


def _histogram(family: Family, times: Times) -> Metric:
    metric = HistogramMetricFamily(family.name, family.help)
    bounds = [*(str(bound) for bound in times.bounds), "+Inf"]
    metric.add_metric([], list(zip(bounds, accumulate(times.counts), strict=True)), times.seconds)
    return metric
