"""``extauthz serve`` as a process: asked, watched, reloaded, stopped."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.support.certs import Authority, Pair
from tests.waiting import OutOfTimeError

from .running import QUOTAS, STATE, WITHIN_S, HalfACheck, Running, ask, metadata, scale, within


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Running]:
    with Running(tmp_path) as running:
        yield running


AUTHORIZATION = "envoy.service.auth.v3.Authorization"


def test_growth_is_allowed_up_to_the_quota_and_refused_above_it(gate: Running) -> None:
    assert gate.check(4).ok_response is not None
    response = gate.check(5)
    assert response.denied_response is not None
    status = json.loads(response.denied_response.body)
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert status["message"].startswith(
        'deployments.apps "web" is forbidden: exceeded workspace quota: acme, requested:'
    )


def test_the_decision_id_in_the_answer_is_the_one_in_the_log(gate: Running) -> None:
    ids = [metadata(gate.check(replicas))["decision_id"] for replicas in (2, 9)]
    assert within(5, lambda: len(gate.events("decision")) == 2)
    lines = gate.events("decision")
    assert [line["id"] for line in lines] == ids
    assert [(line["verdict"], line["from"], line["to"]) for line in lines] == [("allow", 3, 2), ("deny", 3, 9)]
    assert {line["user_agent"] for line in lines} == {"test-autoscaler/1"}


def test_an_allowed_write_stays_charged_and_a_dry_run_does_not(gate: Running) -> None:
    with gate.channel() as channel:
        ask(channel, scale(4, "?dryRun=All"))
        assert "extauthz_intents 0.0" in gate.get("/metrics")[1]
        ask(channel, scale(4))
    text = gate.get("/metrics")[1]
    assert "extauthz_intents 1.0" in text
    assert 'extauthz_quota_reserved{quota="acme",resource="pods"} 1.0' in text
    assert 'extauthz_quota_used{quota="acme",resource="pods"} 3.0' in text
    assert 'extauthz_decisions_total{reason="fits",verdict="allow"} 2.0' in text


def test_a_gate_that_serves_says_so_everywhere(gate: Running) -> None:
    assert gate.health() == gate.health(AUTHORIZATION) == "SERVING"
    assert gate.get("/healthz") == (200, "alive\n")
    assert gate.get("/readyz") == (200, "ready\n")
    with pytest.raises(grpc.RpcError) as error:
        gate.health("another.Service")
    assert error.value.code() is grpc.StatusCode.NOT_FOUND


def test_a_good_change_takes_effect_within_a_second(gate: Running) -> None:
    assert not gate.allows(9)
    gate.quotas.write_text(QUOTAS % 9)
    assert within(2 * WITHIN_S, lambda: gate.allows(9))
    grown = json.loads(json.dumps(STATE).replace('"replicas": 3', '"replicas": 12'))
    gate.state.write_text(json.dumps(grown))
    assert within(2 * WITHIN_S, lambda: not gate.allows(13) and gate.allows(12))


def test_a_bad_change_is_refused_with_its_line_and_the_one_before_stays_in_force(gate: Running) -> None:
    gate.quotas.write_text(QUOTAS.replace('pods: "%d"', "podz: 9"))
    assert within(2 * WITHIN_S, lambda: gate.events("refused"))
    (problem,) = gate.events("refused")[0]["problems"]
    assert problem.startswith(f"{gate.quotas}:6: spec.hard")
    assert gate.allows(4)
    assert not gate.allows(5)
    assert gate.get("/readyz") == (
        200,
        "ready\nnote: the last change of quotas was refused; the one before is in force\n",
    )
    assert 'extauthz_reload_total{result="refused",source="quotas"} 1.0' in gate.get("/metrics")[1]
    gate.quotas.write_text(QUOTAS % 5)
    assert within(2 * WITHIN_S, lambda: gate.allows(5))
    assert gate.get("/readyz") == (200, "ready\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_turns_health_and_ends_with_0_even_where_somebody_watches(number, gate: Running) -> None:
    with gate.channel() as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        watch = stub.Watch(health_pb2.HealthCheckRequest(service=AUTHORIZATION), timeout=20)
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        os.kill(gate.child.pid, number)
        assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
        assert list(watch) == []
        assert gate.child._process.wait(5) == 0  # and not the ten seconds that checks may take
    assert [line["event"] for line in gate.lines()][-2:] == ["stopping", "stopped"]


def test_every_decision_made_reaches_its_asker_when_it_is_told_to_stop(gate: Running) -> None:
    http = scale(4, "?dryRun=All")
    http.raw_body = json.dumps({"spec": {"replicas": 4}, "metadata": {"annotations": {"a": "x" * 2**20}}}).encode()
    answers: list[str] = []

    def ask_until_refused() -> None:
        with gate.channel() as channel, suppress(grpc.RpcError):
            while True:
                answers.append(metadata(ask(channel, http))["decision_id"])

    askers = [threading.Thread(target=ask_until_refused) for _ in range(4)]
    for asker in askers:
        asker.start()
    assert within(10, lambda: len(answers) > 20)
    os.kill(gate.child.pid, signal.SIGTERM)
    for asker in askers:
        asker.join(20)
    assert ended(gate) == 0
    assert sorted(answers) == sorted(line["id"] for line in gate.events("decision"))


def test_a_check_under_way_is_answered_after_it_was_told_to_stop(tmp_path: Path) -> None:
    """The head of the request comes before the signal, its message after it."""
    with Running(tmp_path, grace_s=60) as gate, HalfACheck(gate.grpc) as half:
        os.kill(gate.child.pid, signal.SIGTERM)
        assert within(5, lambda: gate.events("stopping"))
        assert within(5, lambda: is_gone(gate)), "a new connection is still taken"
        response = half.finish(scale(4))
        assert response.ok_response is not None
        assert ended(gate) == 0


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with Running(tmp_path, grace_s=60) as gate, HalfACheck(gate.grpc):
        os.kill(gate.child.pid, signal.SIGTERM)
        assert within(5, lambda: gate.events("stopping"))
        with pytest.raises(subprocess.TimeoutExpired):
            gate.child._process.wait(1)
        os.kill(gate.child.pid, signal.SIGTERM)
        assert ended(gate) == 128 + signal.SIGTERM
        assert gate.events("killed")


def test_a_second_gate_on_the_same_port_is_refused_since_each_would_grant_what_is_there(gate: Running) -> None:
    code, error = start("--quotas", gate.quotas, "--state", gate.state, "--grpc", gate.grpc, "--http", "127.0.0.1:0")
    assert code == 69
    assert error == f"extauthz: --grpc {gate.grpc}: Address already in use; {CURE}\n"
    code, error = start("--quotas", gate.quotas, "--state", gate.state, "--grpc", "127.0.0.1:0", "--http", gate.http)
    assert code == 69
    assert f"extauthz: --http {gate.http}: " in error


CURE = "end the process that listens there, or choose another address"


@pytest.mark.parametrize(
    ("quotas", "state", "says"),
    [
        pytest.param("kind: Quota\n", "", "quotas.yaml:1: kind: ", id="quotas"),
        pytest.param(QUOTAS % 4, "{", "state.json:1: not YAML", id="state"),
    ],
)
def test_bad_files_at_the_start_end_it_with_65_and_no_traceback(quotas, state, says, tmp_path: Path) -> None:
    (tmp_path / "quotas.yaml").write_text(quotas)
    (tmp_path / "state.json").write_text(state)
    code, error = start(
        "--quotas", tmp_path / "quotas.yaml", "--state", tmp_path / "state.json", "--http", "127.0.0.1:0"
    )
    assert code == 65
    assert says in error
    assert "Traceback" not in error


def test_w_ends_a_charge_unless_what_the_state_file_says_is_refused(tmp_path: Path) -> None:
    with Running(tmp_path, "--window-s", "1") as gate:
        gate.state.write_text("{")
        assert within(5, lambda: gate.events("refused"))
        assert gate.check(4).ok_response is not None
        with pytest.raises(OutOfTimeError):
            within(3, lambda: "extauthz_intents 0.0" in gate.get("/metrics")[1])
        gate.state.write_text(json.dumps(STATE))
        assert within(5, lambda: "extauthz_intents 0.0" in gate.get("/metrics")[1])


class TestUnixSocket:
    def test_it_serves_there_for_its_own_group(self, tmp_path: Path) -> None:
        path = tmp_path / "gate.sock"
        with Running(tmp_path, grpc_address=f"unix:{path}") as gate:
            assert stat.S_IMODE(path.stat().st_mode) == 0o660
            assert gate.allows(4)

    def test_the_sockets_of_a_killed_gate_are_taken_over(self, tmp_path: Path) -> None:
        path, http = tmp_path / "gate.sock", tmp_path / "http.sock"
        addresses = {"grpc_address": f"unix:{path}"}
        with Running(tmp_path, "--http", f"unix:{http}", **addresses):
            pass
        assert path.exists()
        assert http.exists()
        with Running(tmp_path, "--http", f"unix:{http}", **addresses) as gate, socket.socket(socket.AF_UNIX) as client:
            assert gate.allows(4)
            client.connect(str(http))
            client.sendall(b"GET /readyz HTTP/1.0\r\n\r\n")
            assert b"\r\n\r\nready\n" in client.makefile("rb").read()

    def test_a_socket_in_use_and_a_file_in_the_way_are_not(self, tmp_path: Path) -> None:
        path = tmp_path / "gate.sock"
        with Running(tmp_path, grpc_address=f"unix:{path}") as gate:
            given = ("--quotas", gate.quotas, "--state", gate.state, "--http", "127.0.0.1:0", "--grpc")
            assert start(*given, f"unix:{path}") == (
                69,
                f"extauthz: --grpc unix:{path}: somebody listens there; {CURE}\n",
            )
            code, error = start(*given, f"unix:{gate.quotas}")
            assert (code, "not a socket" in error) == (69, True)
            code, error = start(*given, f"unix:{tmp_path}/absent/gate.sock")
            assert (code, "there is no directory" in error) == (69, True)


class TestTls:
    @pytest.fixture
    def authority(self, tmp_path: Path) -> Authority:
        return Authority(tmp_path)

    @staticmethod
    def credentials(authority: Authority, client: Pair | None = None) -> grpc.ChannelCredentials:
        pair = (client.key.read_bytes(), client.cert.read_bytes()) if client else (None, None)
        return grpc.ssl_channel_credentials(authority.ca.read_bytes(), *pair)

    def test_with_a_client_ca_only_its_clients_are_answered(self, tmp_path: Path, authority: Authority) -> None:
        pair, client = authority.issue("gate"), authority.issue("envoy")
        stranger = Authority(tmp_path, "another CA").issue("stranger")
        flags = ("--tls-cert", str(pair.cert), "--tls-client-ca", str(authority.ca))
        with Running(tmp_path, *flags) as gate:
            assert gate.check(4, self.credentials(authority, client)).ok_response is not None
            for refused in (None, stranger):
                with pytest.raises(grpc.RpcError):
                    gate.check(4, self.credentials(authority, refused))

    def test_a_bad_renewal_is_told_without_anyone_connecting_and_the_old_pair_stays(
        self, tmp_path: Path, authority: Authority
    ) -> None:
        pair, other = authority.issue("gate"), authority.issue("other")
        with Running(tmp_path, "--tls-cert", str(pair.cert)) as gate:
            good = pair.key.read_bytes()
            other.key.rename(pair.key)
            assert within(5, lambda: gate.events("tls-refused"))
            for _ in range(3):
                assert gate.check(4, self.credentials(authority)).ok_response is not None
            pair.cert.unlink()
            assert within(5, lambda: len(gate.events("tls-refused")) == 2)
            assert gate.check(4, self.credentials(authority)).ok_response is not None
            for line in gate.events("tls-refused"):
                assert line["problem"].startswith(f"--tls-cert {pair.cert}, its key {pair.key}: not a certificate")
            assert gate.events("tls-renewed") == []
            renewed = authority.issue("gate")
            assert renewed.cert == pair.cert
            assert renewed.key.read_bytes() != good
            assert within(5, lambda: gate.events("tls-renewed"))

    def test_a_key_of_another_certificate_is_told_at_the_start(self, tmp_path: Path, authority: Authority) -> None:
        (cert, key), other = authority.issue("one"), authority.issue("two")
        other.key.rename(key)
        (tmp_path / "q.yaml").write_text(QUOTAS % 4)
        (tmp_path / "s.json").write_text(json.dumps(STATE))
        files = ("--quotas", tmp_path / "q.yaml", "--state", tmp_path / "s.json")
        code, error = start(*files, "--http", "127.0.0.1:0", "--tls-cert", cert)
        assert code == 69
        assert error.startswith(f"extauthz: --tls-cert {cert}, its key {key}: not a certificate and its key")


def test_a_gate_that_leaves_objects_to_another_webhook_says_so(tmp_path: Path) -> None:
    with Running(tmp_path, "--objects", "webhook") as gate:
        assert gate.get("/readyz") == (
            200,
            "ready\nnote: leaves whole objects to the webhook, and serves none: another gate of this ledger must\n",
        )


def test_a_gate_that_only_audits_allows_everything(tmp_path: Path) -> None:
    with Running(tmp_path, "--mode", "audit") as gate:
        assert gate.check(9).ok_response is not None
        assert within(5, lambda: gate.events("decision"))
        (told,) = gate.events("decision")
        assert (told["verdict"], told["would"], told["reason"]) == ("allow", "deny", "exceeded-quota")
        assert 'extauthz_would_refuse_total{reason="exceeded-quota",verdict="deny"} 1.0' in gate.get("/metrics")[1]
        assert "only audits" in gate.get("/readyz")[1]


def test_plain_tcp_beyond_loopback_is_warned_of(tmp_path: Path) -> None:
    with Running(tmp_path, grpc_address=":0") as gate:
        assert within(5, lambda: gate.events("plain-text"))


def test_a_quota_that_covers_no_namespace_is_told_at_the_start_and_after_a_change(tmp_path: Path) -> None:
    with Running(tmp_path) as gate:
        assert not gate.events("odd")
        gate.quotas.write_text(QUOTAS.replace("workspace: acme", "workspase: acme") % 4)
        assert within(5, lambda: len(gate.events("odd")) == 1)
        assert "WorkspaceQuota acme: it covers no namespace" in gate.events("odd")[0]["problem"]
    with Running(tmp_path) as gate:
        assert within(5, lambda: len(gate.events("odd")) == 2)


def start(*words: object) -> tuple[int, str]:
    """A start that is meant to fail: exit code and what it says."""
    command = [sys.executable, "-m", "extauthz.cli", "serve", *map(str, words)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    lines = [line for line in result.stderr.splitlines(keepends=True) if not line.startswith('{"time"')]
    return result.returncode, "".join(lines)


def is_gone(gate: Running) -> bool:
    try:
        gate.check(4)
    except grpc.RpcError:
        return True
    return False


def ended(gate: Running) -> int:
    """The exit code, once it has ended by itself."""
    return gate.child._process.wait(15)
