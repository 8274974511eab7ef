"""Clients that send the costliest bodies there are, each the next once one is answered: ``python -m bench.attackers``.

The bodies are what ``make fuzz`` found worst, as long as the gate reads them.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Self

import grpc

from extauthz.core.intake.read import MAX_BYTES
from extauthz.core.model import Request
from tests.fuzz.measure import OBJECT, Case
from tests.fuzz.shapes import KINDS

from .check import METHOD, message

ATTACKERS = 4
WORST = (
    ("json-patch", "test"),
    ("json", "long-numbers"),
    ("protobuf", "unknown"),
)
TIMEOUT_S = 2.0
"""Envoy's, as ``extauthz render`` sets it."""

PROBE = 100
"""Pieces of a body that tells how long a piece is."""

NICE = 5
"""Elsewhere they would have processors of their own."""


class Attackers:
    """All of them, in a process of their own. A context manager; they begin at once."""

    def __init__(self, port: int) -> None:
        self._command = ["nice", f"-n{NICE}", sys.executable, "-m", "bench.attackers", str(port)]
        self.answered = 0
        """Once they are stopped: how many bodies were answered."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._process.stdout.readline()  # the first body was answered
        return self

    def __exit__(self, *_: object) -> None:
        told, _ = self._process.communicate("", timeout=30)
        self.answered = int(told)


def bodies() -> list[bytes]:
    """CheckRequests with one of each."""
    return [_message(kind, shape) for kind, shape in WORST]


def _message(kind: str, shape: str) -> bytes:
    method, content_type, _ = KINDS[kind]
    size = PROBE * MAX_BYTES // len(Case(kind, shape, PROBE).body())
    while len(body := Case(kind, shape, size).body()) > MAX_BYTES:
        size = size * 19 // 20
    return message(Request(method, OBJECT, {"content-type": content_type}, body))


def main() -> None:
    """Attack until stdin ends; then tell how many bodies were answered."""
    sent, stop, answered = bodies(), threading.Event(), itertools.count()

    def attack(number: int) -> None:
        options = (("grpc.use_local_subchannel_pool", 1),)
        with grpc.insecure_channel(f"127.0.0.1:{sys.argv[1]}", options) as channel:
            call = channel.unary_unary(METHOD)
            for one in itertools.islice(itertools.cycle(sent), number, None):
                if stop.is_set():
                    return
                with suppress(grpc.RpcError):
                    call(one, timeout=TIMEOUT_S)
                    if next(answered) == 0:
                        print(flush=True)

    threads = [threading.Thread(target=attack, args=(number,)) for number in range(ATTACKERS)]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    stop.set()
    for thread in threads:
        thread.join()
    print(next(answered))


if __name__ == "__main__":
    main()
