"""Bodies that take long, sent to ``extauthz serve``: read in a process of their own, and in nobody's way."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import TypeAlias

import pytest

from extauthz.demo.certs import Authority
from extauthz.testing import admission, workload

from .running import Running, within
from .test_serve_webhook import connected, flags


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def gate(tmp_path: Path, authority: Authority) -> Iterator[Running]:
    with Running(tmp_path, *flags(authority.issue("gate"))) as running:
        yield running


Send: TypeAlias = Callable[[int], tuple[int, str]]


@pytest.fixture
def send(gate: Running, authority: Authority) -> Send:
    """Asks for so many replicas of an object with annotations of a megabyte. Returns status and body."""

    def sent(replicas: int) -> tuple[int, str]:
        old, new = (
            workload("web", count, namespace="shop", version="5", annotations={"a": "x" * 2**20})
            for count in (3, replicas)
        )
        with connected(gate, authority) as connection:
            body = json.dumps(admission(new, old))
            connection.request("POST", "/validate?timeout=2s", body, {"content-type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    return sent


def is_read(send: Send, replicas: int) -> bool:
    """The process that reads may still be starting: then the body is refused, and the next one is read."""

    def is_allowed() -> bool:
        status, body = send(replicas)
        return status == 200 and json.loads(body)["response"]["allowed"]

    return within(20, is_allowed)


def processes_of(gate: Running) -> list[int]:
    pid = gate.child.pid
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def send_in_vain(send: Send) -> None:
    with suppress(OSError, HTTPException):
        send(4)


def test_a_long_body_is_decided_as_any_other(send: Send) -> None:
    assert is_read(send, 4)
    status, body = send(5)
    told = json.loads(body)["response"]["status"]
    assert (status, told["code"]) == (200, 403)
    assert "exceeded workspace quota" in told["message"]


def test_while_a_body_is_read_checks_and_health_go_on_and_a_body_that_takes_too_long_is_refused(
    gate: Running, send: Send
) -> None:
    assert is_read(send, 3)
    (process,) = processes_of(gate)
    os.kill(process, signal.SIGSTOP)
    answers: list[tuple[int, str]] = []
    sender = threading.Thread(target=lambda: answers.append(send(4)))
    sender.start()
    assert gate.check(4).ok_response is not None
    assert gate.get("/healthz") == (200, "alive\n")
    assert gate.health() == "SERVING"
    sender.join(20)
    status, body = answers[0]
    assert status == 503
    assert "took more than 1.5 s" in body
    assert is_read(send, 4)
    assert processes_of(gate) != [process]


def test_it_ends_with_the_gate_also_where_a_body_is_being_read(gate: Running, send: Send) -> None:
    assert is_read(send, 3)
    (process,) = processes_of(gate)
    os.kill(process, signal.SIGSTOP)
    sender = threading.Thread(target=send_in_vain, args=(send,))
    sender.start()
    os.kill(gate.child.pid, signal.SIGTERM)
    sender.join(20)
    assert gate.child._process.wait(20) == 0
    assert not Path(f"/proc/{process}").exists()
