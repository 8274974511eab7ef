"""The benchmark's own bookkeeping, and a smoke run of it that must bring every row of the report."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest
from envoy.service.auth.v3.external_auth_pb2 import CheckResponse

from bench import cluster, events, inputs, report, requests, sharing
from bench.check import METHOD, message
from bench.figures import Figure, Goal, figure
from bench.peers import building, pace, policy, tail
from bench.peers.authorizers import started
from bench.population import Population
from tests.controlplane import parts
from tests.controlplane.marker import asked_for, skip

ROOT = Path(__file__).parents[2]

ROWS = (
    "decision, KPA PATCH",
    "decision, HPA PUT",
    "decision, a grant with 256 in line, over one without turns",
    "decision, a refusal with 256 in line, over one without turns",
    "full house with turns: Jain's index",
    "full house with turns, HPA of 8 GPUs: longest wait beyond its turn",
    "full house with turns, KPA of 1 GPU: median wait, over one without",
    *(f"turn of the loop, {name}" for name in events.EVENTS),
    "decision where every quota has guarantees, over one without",
    "decision with guarantees:",
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
    "bystanders beside 4 attackers with silent connections: p99",
    "bystanders beside 4 attackers with silent connections: checks lost",
    "bystanders beside 4 attackers with resets: p99",
    "bystanders beside 4 attackers with resets: checks lost",
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


@pytest.mark.envoy
@pytest.mark.controlplane
def test_a_quick_run_reports_every_row_and_draws_the_plot(tmp_path: Path):
    command = [sys.executable, "-m", "bench", "--quick", "--out", str(tmp_path)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    table = (tmp_path / "report.md").read_text()
    for row in ROWS:
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


PEERS = "peers"
"""In ``EXTAUTHZ_REQUIRE``: what is in Go is built, and the whole benchmark is tried."""


def test_a_row_tells_medians_and_judges_the_ratio_of_pairs_with_the_range_of_all_rounds():
    found = figure("x", [9.0, 90.0, 2.0], [10.0, 100.0, 1.0])
    assert (found.ratio, found.span) == (0.9, (0.9, 2.0))
    row = figure("x", [1.0, 2.0, 30.0], [2.0, 4.0, 10.0], Goal(0.6), unit=" ms", digits=1)
    assert (row.measured, row.floor, row.ratio, row.span) == ("2.0 ms", "4.0 ms", 0.5, (0.5, 3.0))
    assert not row.missed


def test_the_policy_s_data_say_the_same_as_the_gate_s_files(tmp_path: Path):
    population = Population(10, 20)
    found = policy.data(inputs.write(population, tmp_path))
    namespace, name = population.namespace(3), population.name(3)
    pod = {"pods": 1, "requests.cpu": 100, "requests.memory": 2**27, "limits.memory": 2**27}
    assert found["workloads"][namespace][name] == {"replicas": 4, "pod": pod}
    quota = found["quotas"][found["namespaces"][namespace]]
    assert quota["hard"] == {"pods": 10**6, "requests.cpu": 10**9, "requests.memory": 2**50, "limits.memory": 2**50}
    replicas = sum(one["replicas"] for one in found["workloads"][namespace].values())
    assert quota["used"] == {key: replicas * amount for key, amount in pod.items()}


def test_the_tail_is_judged_only_where_the_pace_was_kept():
    took_ms = [1.0] * 980 + [12.0] * 20
    (p99, worst), (told, _) = (tail.rows(took_ms, "x", judged=judged) for judged in (True, False))
    assert (p99.ratio, p99.missed, worst.goal, told.goal) == (12.0, True, None, None)


@pytest.mark.parametrize(("refused", "missed"), [(0, False), (1, True)])
def test_a_pace_is_missed_if_one_growth_found_the_ledger_full(refused: int, missed: bool):
    (row,) = pace.rows(12_000, refused, 60.0)
    assert row.missed is missed


@pytest.fixture
def programs(request: pytest.FixtureRequest) -> Path:
    """Built where they are required (``EXTAUTHZ_REQUIRE=peers``)."""
    if not building.is_built() and PEERS not in asked_for(request.config):
        skip(request.node, "the programs of bench/peers/go are not built: EXTAUTHZ_REQUIRE=peers does")
    return building.built()


def test_the_go_programs_answer_as_the_benchmark_wants(programs: Path, tmp_path: Path):
    """The policy in Rego allows what fits and refuses what does not."""
    population = Population(10, 20)
    data = tmp_path / "data.json"
    data.write_text(json.dumps(policy.data(inputs.write(population, tmp_path))))
    with ExitStack() as stack:
        for command, refuses in (([programs / "opa", data], True), ([programs / "bare"], False)):
            _, port = started([str(part) for part in command], tmp_path, stack)
            channel = stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{port}"))
            call = channel.unary_unary(METHOD, response_deserializer=CheckResponse.FromString)
            for sender in requests.SENDERS.values():
                fits, grows = (call(message(sender(population, 3, count)), timeout=10) for count in (9, 10**7))
                assert fits.HasField("ok_response")
                assert fits.dynamic_metadata["decision_id"] == "1"
                assert grows.HasField("denied_response") is refuses
                assert not refuses or grows.denied_response.body.startswith(("limits", "pods", "requests"))


def test_a_quick_run_tells_every_row(request: pytest.FixtureRequest, tmp_path: Path):
    if PEERS not in asked_for(request.config):
        skip(request.node, "`make bench-peers` was not tried: EXTAUTHZ_REQUIRE=peers does")
    command = [sys.executable, "-m", "bench.peers", "--quick", "--out", str(tmp_path)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    table = (tmp_path / "peers.md").read_text()
    for row in (
        "behind Envoy, against a bare Go handler: checks a second",
        "behind Envoy, against OPA's evaluator in a Go handler: one at a time, median",
        "growth by 1, the gate behind Envoy against a ResourceQuota: etcd writes",
        "growth by 1, the gate as a webhook against no quota: processor time",
        "tail, ",
        "ready on 100 Deployments with their pods, against listing them",
        "pace, ",
    ):
        assert f"| {row}" in table, f"no row {row!r}"
    assert table.count("others used") == 4
