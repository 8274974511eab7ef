"""Envoy's hot restart under load: a new process takes the listener over, and the old one ends once it is done.

https://www.envoyproxy.io/docs/envoy/v1.40.0/intro/arch_overview/operations/hot_restart
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from extauthz.render.options import Endpoint, SidecarOptions
from extauthz.testing.apiserver import ApiServer
from extauthz.testing.authz import ScriptedAuthz
from extauthz.testing.certs import Authority
from extauthz.testing.envoy import Envoy
from extauthz.testing.stack import PATCH, SCALE, Stack, scale_body, unused_port, workload
from tests.waiting import eventually

CLIENTS = 3
BETWEEN = 100
"""Writes before, beside and after two processes."""


class Generation(Envoy):
    """One process of those that follow each other on the same port. ``epoch`` counts them."""

    def __init__(self, options: SidecarOptions, folder: Path, port: int, epoch: int) -> None:
        def on_port(tree: dict[str, Any]) -> None:
            tree["static_resources"]["listeners"][0]["address"]["socket_address"]["port_value"] = port

        super().__init__(options, folder / f"epoch-{epoch}", on_port)
        self._epoch, self._id = epoch, folder / "base-id"

    def _command(self, config: Path, admin: Path) -> list[str]:  # type: ignore[override]
        chosen = ["--use-dynamic-base-id", "--base-id-path", str(self._id)]
        if self._epoch:
            chosen = ["--base-id", self._id.read_text(), "--restart-epoch", str(self._epoch)]
        times = ["--drain-time-s", "2", "--parent-shutdown-time-s", "4"]
        command = [word for word in super()._command(config, admin) if word != "--disable-hot-restart"]
        return [*command, *chosen, *times]

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.running


class Load:
    """Writes without a pause, each with a name of its own: on connections that are kept, and on new ones.

    Over HTTP/1.1: Python's h2 takes a GOAWAY for the end of the streams that are still open, which Go's does not.
    """

    def __init__(self, stack: Stack) -> None:
        self.sent: list[str] = []
        self.failed: list[object] = []
        self._stack, self._stop = stack, threading.Event()

    def write(self, number: int) -> None:
        """Until told to stop."""
        while not self._stop.is_set():
            with self._stack.client() as client:
                for _ in range(1 if number == 0 else 1000):
                    if self._stop.is_set():
                        break
                    self._one(client, f"{SCALE}?fieldManager=w-{number}-{len(self.sent)}")

    def _one(self, client: Any, path: str) -> None:
        try:
            answer = client.patch(path, content=scale_body(3), headers=PATCH)
        except Exception as error:  # noqa: BLE001 (whatever a client may see)
            self.failed.append(error)
            return
        self.sent.append(path)
        if answer.status_code != 200:
            self.failed.append(answer.text)

    def go_on(self) -> None:
        """Until so many more writes are through."""
        enough = len(self.sent) + BETWEEN
        eventually(lambda: len(self.sent) > enough or self.failed)

    def stop(self) -> None:
        self._stop.set()


@contextmanager
def loaded(stack: Stack) -> Iterator[Load]:
    load = Load(stack)
    with ThreadPoolExecutor(CLIENTS) as threads:
        running = [threads.submit(load.write, number) for number in range(CLIENTS)]
        try:
            yield load
        finally:
            load.stop()
    for each in running:
        each.result()


@pytest.fixture
def generation(authority: Authority, tmp_path: Path) -> Iterator[tuple[Callable[[int], Generation], Callable]]:
    """Makes the processes, and the stack of one of them."""
    pair, port = authority.issue("localhost"), unused_port()
    with ApiServer(pair, [workload()]) as api, ScriptedAuthz() as gate:
        options = SidecarOptions(
            cert_file=str(pair.cert),
            key_file=str(pair.key),
            apiserver=Endpoint("127.0.0.1", api.port),
            apiserver_name="127.0.0.1",
            apiserver_ca_file=str(authority.ca),
            gate=Endpoint("127.0.0.1", gate.port),
            gate_timeout_s=20.0,
        )
        yield (
            lambda epoch: Generation(options, tmp_path, port, epoch),
            lambda envoy: Stack(authority, api, gate, envoy),
        )
    # Envoy leaves it behind, under ten times its base id.
    Path(f"/dev/shm/envoy_shared_memory_{(tmp_path / 'base-id').read_text()}0").unlink()


def test_a_hot_restart_fails_no_write_and_none_passes_undecided(generation):
    start, stack_of = generation
    with ExitStack() as running:
        old = running.enter_context(start(0))
        stack = stack_of(old)
        with loaded(stack) as load:
            load.go_on()
            new = running.enter_context(start(1))
            load.go_on()
            eventually(lambda: not old.running)
            load.go_on()
        assert not load.failed
        assert sorted(check.attributes.request.http.path for check in stack.gate.checks) == sorted(load.sent)
        assert sorted(one.target for one in stack.api.writes(SCALE)) == sorted(load.sent)
        assert new.stat("server.hot_restart_epoch") == 1
        eventually(lambda: len(stack.gate.entries) == len(load.sent))
