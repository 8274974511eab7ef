"""``extauthz doctor`` beside a real Envoy: each fault is caught by the row that looks for it, and by no other."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from extauthz.cli import main
from extauthz.tools.doctor import table
from extauthz.tools.render.envoy import OUTAGE
from extauthz.tools.render.options import Endpoint, Outage, Profile
from tests.envoy.doctor_faults import FAULTS, turned_round, without_certificate, without_filters
from tests.support import authz
from tests.support.certs import Authority
from tests.support.stack import Stack, unused_port

SENTENCE = "exceeded workspace quota: acme"


class Told(NamedTuple):
    """What a run said: its exit code, and the rows by name."""

    code: int
    rows: dict[str, dict[str, str]]

    def verdict(self, name: str) -> str:
        return self.rows[name]["verdict"]

    def of(self, verdict: str) -> list[str]:
        return [name for name, row in self.rows.items() if row["verdict"] == verdict]


Doctor = Callable[..., Told]


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str]) -> Doctor:
    def run(*words: str) -> Told:
        code = main(["doctor", *words, "-o", "json"])
        return Told(code, {each["name"]: each for each in json.loads(capsys.readouterr().out)["checks"]})

    return run


def way(stack: Stack) -> list[str]:
    """The options of an autoscaler's way through this Envoy."""
    url = f"https://127.0.0.1:{stack.envoy.port}"
    return ["--url", url, "--ca", str(stack.authority.ca), "--canary", "team-a/web"]


def admin(stack: Stack) -> list[str]:
    address = (stack.envoy.access_log.parent / "admin").read_text()
    return ["--admin", f"http://{address}"]


def test_the_doctor_looks_for_the_beginning_of_what_envoy_says_in_an_outage():
    assert OUTAGE.startswith(table.OUTAGE)


OF_THE_PROXY = ("accepted", "chain", "listener", "order", "failure mode", "request body", "headers", "path rules",
                "watches", "growth timeouts", "trust", "canary", "gate reachable", "gate timeout")  # fmt: skip
NEEDS_A_CLUSTER = (
    "token",
    "server version",
    "definitions",
    "rights",
    "namespace labels",
    "webhook",
    "webhook authority",
    "webhook canary",
    "webhook certificate",
    "webhook namespaces",
    "webhook clamp",
    "appliers",
    "serving pods",
)


def test_what_is_rendered_is_well_and_what_nobody_gave_is_skipped_never_ok(stack: Stack, doctor: Doctor):
    stack.gate.answer = authz.deny(403, SENTENCE)
    told = doctor(*admin(stack), *way(stack), "--profile", "writes")
    assert told.code == 0
    assert told.of("ok") == [name for name in told.rows if name in OF_THE_PROXY]
    assert told.of("skipped") == [name for name in told.rows if name in NEEDS_A_CLUSTER]
    assert told.of("warn") == ["certificate"], "the throw-away authority lives for two days"
    assert "d-deny" in told.rows["canary"]["found"]


@pytest.mark.parametrize("profile", Profile)
def test_each_profile_is_told_by_its_routes_and_another_one_is_not_taken_for_it(
    launch, doctor: Doctor, profile: Profile
):
    for stack in launch(profile=profile, exempt_namespaces=("one", "two")):
        right, other = doctor(*admin(stack)), "writes" if profile is Profile.SCALE else "scale"
        assert right.rows["path rules"]["found"] == f"profile {profile}; exempt: one, two"
        assert doctor(*admin(stack), "--profile", other).verdict("path rules") == "fail"


def test_nothing_given_is_wrong_usage(capsys):
    assert main(["doctor"]) == 64
    assert "--admin" in capsys.readouterr().err


def test_in_a_pod_it_looks_at_the_cluster_with_the_pods_own_account(monkeypatch, capsys):
    monkeypatch.setattr("extauthz.cli.doctor.own_namespace", lambda: "extauthz-system")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "")
    assert main(["doctor"]) == 65
    assert "no cluster to connect to" in capsys.readouterr().err, "no token is mounted here"


def test_what_is_skipped_names_the_option_that_it_takes(doctor: Doctor):
    told = doctor("--url", f"https://127.0.0.1:{unused_port()}")
    assert {*told.of("skipped"), "trust", "canary"} == set(told.rows)
    assert all(told.rows[name]["cure"].startswith("--") for name in told.of("skipped"))


def test_a_saved_dump_tells_the_configuration_and_skips_what_only_the_running_proxy_tells(
    stack, doctor, tmp_path: Path
):
    file = tmp_path / "dump.json"
    file.write_text(stack.envoy.admin("/config_dump?include_eds"))
    told = doctor("--config-dump", str(file), "--listener", "apiserver")
    assert told.code == 0
    assert told.verdict("order") == told.verdict("listener") == "ok"
    assert told.verdict("gate reachable") == "skipped"


ODD = '{"configs": [{"@type": "x.ListenersConfigDump", "static_listeners": [{}]}]}'


@pytest.mark.parametrize("text", [ODD, "", "[]", "{}", '{"configs": []}', '{"configs": [1]}'])
def test_another_file_is_refused_by_name(capsys, tmp_path: Path, text: str):
    file = tmp_path / "other.json"
    file.write_text(text)
    assert main(["doctor", "--config-dump", str(file)]) == 65
    assert str(file) in capsys.readouterr().err


def test_a_proxy_that_does_not_answer_fails_and_the_rest_is_skipped(doctor: Doctor):
    told = doctor("--admin", f"http://127.0.0.1:{unused_port()}")
    assert told.code == 1
    assert told.of("fail") == ["proxy"]


@pytest.mark.parametrize(("alter", "fails"), FAULTS.values(), ids=FAULTS)
def test_a_fault_in_the_configuration_fails_its_row_and_no_other(launch, doctor: Doctor, alter, fails):
    for stack in launch(alter):
        told = doctor(*admin(stack), "--listener", "apiserver")
        assert told.code == 1
        assert told.of("fail") == fails
        assert all(told.rows[name]["cure"] for name in fails)


def test_a_listener_that_envoy_refused_for_want_of_a_certificate_is_told(launch, doctor: Doctor, tmp_path: Path):
    for stack in launch(without_certificate(tmp_path)):
        told = doctor(*admin(stack), "--listener", "apiserver")
        assert told.of("fail") == ["accepted", "chain", "listener"]
        assert str(tmp_path / "gone.yaml") in told.rows["accepted"]["found"]


def test_a_certificate_that_envoy_waits_for_is_told(launch, doctor: Doctor, tmp_path: Path):
    for stack in launch(key_file=str(tmp_path / "gone.key")):
        told = doctor(*admin(stack), "--listener", "apiserver")
        assert told.of("fail") == ["accepted"]
        assert told.rows["accepted"]["found"].startswith("Envoy has no serving ")


def test_with_the_chain_missing_a_write_comes_back_undecided(launch, doctor: Doctor):
    for stack in launch(without_filters):
        told = doctor(*admin(stack), *way(stack))
        assert told.verdict("canary") == "fail"
        assert "not gated" in told.rows["canary"]["found"]
        assert stack.gate.checks == []


def test_allow_on_outage_is_well_where_it_is_wanted(launch, doctor: Doctor):
    for stack in launch(on_outage=Outage.ALLOW):
        assert doctor(*admin(stack), "--on-outage", "allow").verdict("failure mode") == "ok"
        assert doctor(*admin(stack)).verdict("failure mode") == "fail"


def test_traffic_to_another_listener_is_told(stack: Stack, doctor: Doctor):
    port = unused_port()
    told = doctor(*admin(stack), "--url", f"https://127.0.0.1:{port}", "--ca", str(stack.authority.ca))
    assert told.verdict("listener") == told.verdict("trust") == told.verdict("canary") == "fail"
    assert f"127.0.0.1:{port}" in told.rows["listener"]["found"]


def test_a_gate_that_only_allows_is_told_by_envoys_counters(stack: Stack, doctor: Doctor):
    assert doctor(*admin(stack), *way(stack)).verdict("canary") == "warn"
    assert doctor(*way(stack)).verdict("canary") == "fail", "without them, nobody can tell"


def test_the_canary_changes_nothing(stack: Stack, doctor: Doctor):
    doctor(*admin(stack), *way(stack))
    writes = stack.api.writes()
    assert [write.target.partition("?")[2] for write in writes] == ["dryRun=All"] * 2
    (web,) = [item for key, item in stack.api.objects.items.items() if key.name == "web"]
    assert web["spec"]["replicas"] == 2


@pytest.fixture
def wrong_port(launch) -> Iterator[Stack]:
    yield from launch(gate=Endpoint("127.0.0.1", unused_port()))


def test_a_gate_at_another_port_is_told_by_canary_and_cluster(wrong_port: Stack, doctor: Doctor):
    told = doctor(*admin(wrong_port), *way(wrong_port))
    assert told.of("fail") == ["canary", "gate reachable"]
    assert "the gate gives no answer" in told.rows["canary"]["found"]


def test_before_anything_was_asked_nobody_knows_whether_the_gate_is_there(wrong_port: Stack, doctor: Doctor):
    told = doctor(*admin(wrong_port))
    assert told.of("fail") == []
    assert told.verdict("gate reachable") == told.verdict("gate timeout") == "skipped"


def test_an_authority_that_the_client_does_not_trust_is_told(stack: Stack, doctor: Doctor, tmp_path: Path):
    other = Authority(tmp_path, "another CA")
    url = f"https://127.0.0.1:{stack.envoy.port}"
    told = doctor(*admin(stack), "--url", url, "--ca", str(other.ca))
    assert told.of("fail") == ["trust", "canary"]
    assert "refuses" in told.rows["trust"]["found"]


def test_a_certificate_for_another_name_is_told(launch, doctor: Doctor, authority: Authority):
    elsewhere = authority.issue("elsewhere", ("elsewhere.example",))
    for stack in launch(cert_file=str(elsewhere.cert), key_file=str(elsewhere.key)):
        assert doctor(*way(stack)).verdict("trust") == "fail"


@pytest.mark.parametrize(
    "words", [["--admin", "9901"], ["--url", "http://h"], ["--canary", "web"], ["--url", "https://h:x"]]
)
def test_wrong_usage_is_told_apart(words: list[str]):
    with pytest.raises(SystemExit) as error:
        main(["doctor", *words])
    assert error.value.code == 64


def test_a_missing_file_is_named(capsys, tmp_path: Path):
    for option in ("--ca", "--token-file", "--config-dump", "--kubeconfig"):
        gone = str(tmp_path / "gone")
        assert main(["doctor", "--url", "https://127.0.0.1:1", option, gone]) == 65
        assert gone in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"two words", b"two\nlines", b"\xff"])
def test_a_file_that_holds_no_token_is_refused_and_not_repeated(capsys, tmp_path: Path, content: bytes):
    file = tmp_path / "token"
    file.write_bytes(content)
    assert main(["doctor", "--url", "https://127.0.0.1:1", "--token-file", str(file)]) == 65
    assert capsys.readouterr().err == f"extauthz: --token-file {file}: it holds no token, which is one line of ASCII\n"


def test_a_host_that_is_no_name_is_told(doctor: Doctor):
    assert doctor("--url", "https://a..b").of("fail") == ["trust", "canary"]


def test_a_certificate_that_ends_soon_is_a_failure_only_if_strictly_asked(capsys, launch):
    for stack in launch():
        main(["doctor", *admin(stack), "-o", "json"])
        verdicts = {one["verdict"] for one in json.loads(capsys.readouterr().out)["checks"]}
        assert "warn" in verdicts
        assert "fail" not in verdicts
        assert main(["doctor", *admin(stack)]) == 0
        assert main(["doctor", *admin(stack), "--strict"]) == 1


def test_the_table_has_a_cure_below_each_row_that_needs_one(capsys, launch):
    for stack in launch(turned_round):
        assert main(["doctor", *admin(stack)]) == 1
        lines = capsys.readouterr().out.splitlines()
        at = next(number for number, line in enumerate(lines) if line.startswith("order "))
        assert any(line.strip().startswith("→ render it again") for line in lines[at : at + 4])
        assert lines[-1].startswith("8 ok, 1 warn, 1 fail, ")
