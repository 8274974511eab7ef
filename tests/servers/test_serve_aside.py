"""Bodies that take long, sent to ``extauthz serve``: read in a process of their own, and in nobody's way."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import grpc
import pytest
from envoy_data_plane.envoy.service.auth.v3 import AttributeContextHttpRequest, CheckResponse

from .running import Running, ask, metadata, within


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Running]:
    with Running(tmp_path) as running:
        yield running


def long_body(replicas: int) -> AttributeContextHttpRequest:
    """A manifest as ``kubectl apply`` sends it, with annotations of a megabyte."""
    headers = {"content-type": "application/strategic-merge-patch+json"}
    tree = {"metadata": {"annotations": {"a": "x" * 2**20}}, "spec": {"replicas": replicas}}
    path = "/apis/apps/v1/namespaces/shop/deployments/web"
    return AttributeContextHttpRequest(method="PATCH", path=path, headers=headers, raw_body=json.dumps(tree).encode())


def send(gate: Running, replicas: int) -> CheckResponse:
    with gate.channel() as channel:
        return ask(channel, long_body(replicas))


def is_read(gate: Running, replicas: int) -> bool:
    """The process that reads may still be starting: then the body is refused, and the next one is read."""
    return within(20, lambda: send(gate, replicas).ok_response is not None)


def send_in_vain(gate: Running) -> None:
    with suppress(grpc.RpcError):
        send(gate, 4)


def processes_of(gate: Running) -> list[int]:
    pid = gate.child.pid
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_long_body_is_decided_as_any_other(gate: Running) -> None:
    assert is_read(gate, 4)
    refused = send(gate, 5)
    assert json.loads(refused.denied_response.body)["code"] == 403
    assert metadata(refused)["reason"] == "exceeded-quota"


def test_while_a_body_is_read_checks_and_health_go_on_and_a_body_that_takes_too_long_is_refused(gate: Running) -> None:
    assert is_read(gate, 3)
    (process,) = processes_of(gate)
    os.kill(process, signal.SIGSTOP)
    answers: list[CheckResponse] = []
    sender = threading.Thread(target=lambda: answers.append(send(gate, 4)))
    sender.start()
    assert gate.check(4).ok_response is not None
    assert gate.get("/healthz") == (200, "alive\n")
    assert gate.health() == "SERVING"
    sender.join(20)
    assert metadata(answers[0])["reason"] == "not-read"
    assert json.loads(answers[0].denied_response.body)["code"] == 503
    assert is_read(gate, 4)
    assert processes_of(gate) != [process]


def test_it_ends_with_the_gate_also_where_a_body_is_being_read(gate: Running) -> None:
    assert is_read(gate, 3)
    (process,) = processes_of(gate)
    os.kill(process, signal.SIGSTOP)
    sender = threading.Thread(target=send_in_vain, args=(gate,))
    sender.start()
    os.kill(gate.child.pid, signal.SIGTERM)
    sender.join(20)
    assert gate.child._process.wait(20) == 0
    assert not Path(f"/proc/{process}").exists()
