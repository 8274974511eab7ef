"""The benchmark's own bookkeeping, and a smoke run of it that must bring every row of the report."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench import cluster, pythons, report, sharing
from bench.figures import Figure, Goal, median_ratio, percentile
from bench.h2load import _frame
from tests.controlplane import parts

ROOT = Path(__file__).parents[2]

ROWS = (
    "decision, KPA PATCH",
    "decision, HPA PUT",
    "headroom of a workload",
    "decision that is recorded (--record), over one that is not",
    "replay of 10,000 asks of 200 workloads: processor time",
    "replay of 10,000 asks of 200 workloads: peak memory",
    "top, a quota printed",
    "top QUOTA, a workload printed",
    "memory a workload",
    "`extauthz check --help` over `python -c pass`",
    "`extauthz check` on files over `python -c pass`",
    "check over gRPC against a no-op grpc.aio handler: throughput",
    "check over gRPC against a no-op grpc.aio handler: checks a second of processor time",
    "check over gRPC against one on our own server: throughput",
    "check over gRPC against one on our own server: checks a second of processor time",
    "bystanders beside 4 attackers with bodies at the size limit: p99 of a check",
    "bystanders beside 4 attackers with bodies at the size limit: checks lost",
    "bystanders beside 4 attackers with bodies at the size limit: peak memory",
    "bystanders beside 4 attackers with writes that the costliest policies judge: p99",
    "bystanders beside 4 attackers with writes that the costliest policies judge: checks lost",
    "bystanders beside 4 attackers with silent connections: p99",
    "bystanders beside 4 attackers with silent connections: checks lost",
    "bystanders beside 4 attackers with resets: p99",
    "bystanders beside 4 attackers with resets: checks lost",
    "latency through Envoy, median: the filter adds",
    "latency through Envoy, p99: the filter adds",
    "latency through Envoy, median: ext_proc adds",
    "latency through Envoy, p99: ext_proc adds",
)


LIVE_ROWS = (
    "live cluster, 100 Deployments: ready",
    "live cluster, 100 Deployments: memory",
    "live cluster, 100 Deployments: API calls",
    "shared ledger: growing decisions a ledger write",
    "shared ledger: growing decisions a second",
    "shared ledger adds",
    "shared ledger: API calls of checks that grow nothing or are refused",
)


@pytest.mark.parametrize(
    ("goal", "ratio", "missed"),
    [
        pytest.param(Goal(0.8, at_least=True), 0.79, True, id="too little"),
        pytest.param(Goal(0.8, at_least=True), 0.8, False, id="just enough"),
        pytest.param(Goal(1.3), 1.31, True, id="too much"),
        pytest.param(Goal(1.3), 1.3, False, id="just not too much"),
        pytest.param(None, 99.0, False, id="told, not judged"),
    ],
)
def test_a_goal_is_missed_only_beyond_its_bound(goal: Goal | None, ratio: float, missed: bool):
    figure = Figure("x", "a", "b", ratio, goal)
    assert figure.missed is missed
    assert report.rows([figure])[0][-1] == ("-" if goal is None else "NO" if missed else "yes")


def test_ratios_are_of_pairs_so_that_a_slow_minute_falls_out():
    assert median_ratio([9.0, 90.0, 1.0], [10.0, 100.0, 1.0]) == 0.9


def test_the_range_of_a_ratio_stands_beside_it():
    (row,) = report.rows([Figure("x", "a", "b", 0.5, None, (0.25, 0.75))])
    assert row[3] == "0.50 (0.25 to 0.75)"


def test_the_picture_shows_all_numbers_beside_the_bars_and_every_goal():
    figures = [Figure("short", "312.1 ms on 612.2 ms", "262.1 ms", 0.01, Goal(16.0)), Figure("long", "a", "b", 12.0)]
    chart = report.drawn(figures)
    (axes,) = chart.axes
    chart.canvas.draw()
    labels = [text.get_window_extent() for text in axes.texts]
    assert len(labels) == 2
    assert min(label.x0 for label in labels) > axes.get_window_extent().x1
    assert axes.get_xlim()[1] > 16.0


def test_a_percentile_is_a_value_that_was_measured():
    values = [float(number) for number in range(100, 0, -1)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile([7.0], 0.99)) == (51.0, 100.0, 7.0)


def test_a_frame_has_its_length_type_flags_and_stream_in_front():
    assert _frame(0, 1, 5, b"abc") == b"\x00\x00\x03\x00\x01\x00\x00\x00\x05abc"


@pytest.mark.envoy
@pytest.mark.parametrize(
    ("hidden", "rows"),
    [
        pytest.param("all", ROWS, id="none"),
        pytest.param("", ROWS + LIVE_ROWS, marks=pytest.mark.controlplane, id="real"),
    ],
)
def test_a_quick_run_reports_every_row_and_draws_the_plot(tmp_path: Path, hidden: str, rows: tuple[str, ...]):
    command = [sys.executable, "-m", "bench", "--quick", "--out", str(tmp_path)]
    environment = {**os.environ, parts.HIDDEN: hidden}
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False, env=environment)
    assert run.returncode == 0, run.stdout + run.stderr
    table = (tmp_path / "report.md").read_text()
    for row in rows:
        assert f"| {row}" in table, f"no row {row!r}"
        assert row in run.stdout
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("hidden", "lacks"),
    [
        pytest.param("all", "etcd v3.6.8", id="none"),
        pytest.param(
            "kube-apiserver", "kube-apiserver v1.36.3", marks=pytest.mark.controlplane, id="no-kube-apiserver"
        ),
    ],
)
def test_without_a_real_api_server_it_says_loudly_what_is_not_measured(
    monkeypatch: pytest.MonkeyPatch, hidden: str, lacks: str
):
    monkeypatch.setenv(parts.HIDDEN, hidden)
    said: list[str] = []
    assert cluster.measure(cluster.QUICK, said.append) == []
    assert sharing.measure(sharing.QUICK, said.append) == []
    cure = f"{lacks} is not here: run `make controlplane`"
    assert len(said) == 2
    assert said[0].startswith(f"NOT MEASURED, a live cluster: {cure}")
    assert said[1].startswith(f"NOT MEASURED, a ledger that gates share: {cure}")


def test_of_each_python_it_is_told_what_a_check_costs_there(capsys: pytest.CaptureFixture[str]):
    pythons.main([f"{name}={sys.executable}" for name in ("one", "other")] + ["--quick"])
    one, other = capsys.readouterr().out.splitlines()
    assert one.startswith("one: ")
    assert one.endswith(" µs a check, 1.00 of the first")
    assert other.startswith("other: ")
