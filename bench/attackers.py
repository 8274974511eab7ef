"""Clients that mean harm, a way of theirs at a time: ``python -m bench.attackers PORT WAY``.

``bodies`` are what ``make fuzz`` found worst, as long as the gate reads them, each the next once one is answered;
``connections`` say nothing; ``resets`` give up each call at once.
"""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Self

import grpc

from extauthz.core.intake.counts import MAX_BYTES
from extauthz.core.model import Request
from extauthz.serve.rpc.frames import PREFACE
from tests.fuzz.measure import OBJECT, Case
from tests.fuzz.shapes import KINDS
from tests.rpc.client import FLOODS, raw, setting

from .check import METHOD, message

ATTACKERS = 4
WORST = (("json-patch", "test"), ("json", "long-numbers"), ("protobuf", "unknown"))
TIMEOUT_S = 2.0
"""Envoy's, as ``extauthz render`` sets it."""

PROBE = 100
"""Pieces of a body that tells how long a piece is."""

SILENT = 100
"""Connections of each that say nothing."""

RESETS = 1_200
"""Calls given up with one write: the gate ends a connection after a thousand."""

NICE = 5
"""Elsewhere they would have processors of their own."""


class Attackers:
    """All of them, in a process of their own. A context manager; they begin at once."""

    def __init__(self, port: int, way: str) -> None:
        self._command = ["nice", f"-n{NICE}", sys.executable, "-m", "bench.attackers", str(port), way]
        self.done = 0
        """Once they are stopped: how many bodies or writes were answered, connections opened, or floods sent."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._process.stdout.readline()  # the first is done
        return self

    def __exit__(self, *_: object) -> None:
        told, _ = self._process.communicate("", timeout=30)
        self.done = int(told)


def bodies() -> list[bytes]:
    """CheckRequests with one of each."""
    return [_message(kind, shape) for kind, shape in WORST]


def _message(kind: str, shape: str) -> bytes:
    method, content_type, _ = KINDS[kind]
    size = PROBE * MAX_BYTES // len(Case(kind, shape, PROBE).body())
    while len(body := Case(kind, shape, size).body()) > MAX_BYTES:
        size = size * 19 // 20
    return message(Request(method, OBJECT, {"content-type": content_type}, body))


def _asked(messages: Iterator[bytes], port: int) -> Iterator[None]:
    options = (("grpc.use_local_subchannel_pool", 1),)
    with grpc.insecure_channel(f"127.0.0.1:{port}", options) as channel:
        call = channel.unary_unary(METHOD)
        for one in messages:
            with suppress(grpc.RpcError):
                call(one, timeout=TIMEOUT_S)
                yield


def with_bodies(port: int, number: int) -> Iterator[None]:
    """See the module."""
    return _asked(itertools.islice(itertools.cycle(bodies()), number, None), port)


def _connected(port: int, number: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), 5, (f"127.0.0.{number + 2}", 0))


def with_connections(port: int, number: int) -> Iterator[None]:
    """See the module."""
    while True:
        with ExitStack() as open_ones:
            for _ in range(SILENT):
                with suppress(OSError):
                    open_ones.enter_context(_connected(port, number))
                    yield


def with_resets(port: int, number: int) -> Iterator[None]:
    """See the module. A flood ends its connection, and the next one follows."""
    (flood,) = [frames for name, frames in FLOODS.items() if name.startswith("rapid resets")]
    sent = PREFACE + raw(setting(4, 1_000)) + b"".join(raw(one) for n in range(RESETS) for one in flood(n))
    while True:
        with suppress(OSError), _connected(port, number) as connection:
            connection.sendall(sent)
            yield
            while connection.recv(65_536):
                pass


WAYS: dict[str, Callable[[int, int], Iterator[None]]] = {
    "bodies": with_bodies,
    "connections": with_connections,
    "resets": with_resets,
}


def main() -> None:
    """Attack until stdin ends; then tell how much was done."""
    port, way = int(sys.argv[1]), WAYS[sys.argv[2]]
    stop, done = threading.Event(), itertools.count()

    def attack(number: int) -> None:
        for _ in way(port, number):
            if next(done) == 0:
                print(flush=True)
            if stop.is_set():
                return

    threads = [threading.Thread(target=attack, args=(number,)) for number in range(ATTACKERS)]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    stop.set()
    for thread in threads:
        thread.join()
    print(next(done))


if __name__ == "__main__":
    main()
