"""``--port-forward``: a stub of kubectl stands in for the way into a cluster. No kubelet is here that could forward.

What a real kubectl says of a Service that is not there is in ``tests/controlplane/test_forwarding.py``.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from extauthz.cli import forwarding, main
from tests.servers.running import Running

STUB = """\
#!{python}
import json, os, signal, sys, time
with open({log!r}, "a") as log:
    log.write(json.dumps([os.getpid(), sys.argv[1:]]) + "\\n")
{does}
"""
FORWARDS = """\
print("Forwarding from {address} -> 9192", flush=True)
time.sleep(60)
"""


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("gate")) as running:
        yield running


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "kubectl.log"


@pytest.fixture
def stub(tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch):
    def make(does: str) -> None:
        program = tmp_path / "bin" / "kubectl"
        program.parent.mkdir(exist_ok=True)
        program.write_text(STUB.format(python=sys.executable, log=str(log), does=does))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(program.parent))

    return make


def called(log: Path) -> list[tuple[int, list[str]]]:
    return [tuple(json.loads(line)) for line in log.read_text().splitlines()]


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("words", "namespace", "service"),
    [((), "extauthz-system", "extauthz"), (("--port-forward", "infra/gates"), "infra", "gates")],
)
def test_a_gate_is_asked_through_kubectl_which_ends_with_the_command(
    stub,
    log: Path,
    gate: Running,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    namespace: str,
    service: str,
):
    stub(FORWARDS.format(address=gate.http))
    for command in (["top"], ["headroom", "deploy/web", "-n=shop"], ["check", "deploy/web", "-n=shop", "--replicas=4"]):
        assert main([*command, *words]) == 0, command
    assert "acme" in capsys.readouterr().out
    calls = called(log)
    assert len(calls) == 3
    for pid, given in calls:
        assert given == [
            "port-forward",
            "--namespace",
            namespace,
            "--address",
            "127.0.0.1",
            f"service/{service}",
            ":9192",
        ]
        assert not is_there(pid)


def test_what_kubectl_says_is_passed_on(stub, capsys: pytest.CaptureFixture[str]):
    stub("sys.exit('Error from server (NotFound): services \"extauthz\" not found')")
    assert main(["top"]) == 69
    error = capsys.readouterr().err
    assert 'services "extauthz" not found' in error
    assert "name another with --port-forward" in error


def test_a_kubectl_that_says_nothing_is_given_up(
    stub, log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    stub("time.sleep(60)")
    monkeypatch.setattr(forwarding, "WITHIN_S", 1.0)
    assert main(["top"]) == 69
    assert "nothing came within 1 s" in capsys.readouterr().err
    assert not is_there(called(log)[0][0])


def test_without_kubectl_and_without_a_place_the_ways_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["top"]) == 64
    assert "or --port-forward NAMESPACE/SERVICE" in capsys.readouterr().err
    assert main(["top", "--port-forward", "a/b"]) == 64
    assert "there is no kubectl in PATH" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["extauthz", "/x", "x/", "a/b/c"])
def test_a_place_is_a_namespace_and_a_service(place: str, capsys: pytest.CaptureFixture[str]):
    assert main(["top", "--port-forward", place]) == 64
    assert "is no NAMESPACE/SERVICE" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("--server", "http://127.0.0.1:1"), ("--quotas", "q.yaml")])
def test_two_places_are_one_too_many(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]):
    assert main(["top", "--port-forward", "a/b", *words]) == 64
    assert "are two places; leave one of them out" in capsys.readouterr().err
