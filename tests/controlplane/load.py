"""Scale writes from several clients at once, and an eye on what they come to."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from extauthz.render.options import Profile
from tests.controlplane.api import Api, RefusedError, path_of
from tests.controlplane.workspace import Workspace
from tests.waiting import eventually

WITHIN_S = 90.0


@contextmanager
def side_by_side(loops: Sequence[Callable[[], object]], stop: threading.Event) -> Iterator[None]:
    """Each in a thread of its own until the end of the block, where ``stop`` is set. What one raises is raised then."""
    with ThreadPoolExecutor(len(loops)) as threads:
        each = [threads.submit(loop) for loop in loops]
        try:
            yield
        finally:
            stop.set()
    for one in each:
        one.result()


class Load:
    """One client a Deployment, through Envoy, up and down between none and *most* replicas. A context manager."""

    def __init__(self, workspace: Workspace, names: Sequence[str], most: int = 5) -> None:
        self.grown = 0
        """Accepted writes of more than there was."""
        self.refused: Counter[int] = Counter()
        """HTTP code → how often."""
        self.most = 0
        """The largest number of replicas that all had together, in the order in which the API server tells it."""
        self.slowest_s = 0.0
        """How long a write took at most. Beyond the landing window nothing is promised (docs/guarantee.md)."""
        self._workspace, self._limit = workspace, most
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._scale, args=(name, workspace.world.client(Profile.SCALE)), name=name)
            for name in names
        ]
        self._threads.append(threading.Thread(target=self._look, name="look"))
        self._failures: list[Exception] = []

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(WITHIN_S)
        if self._failures and error is None:
            raise self._failures[0]

    def until(self, what: Callable[[], bool]) -> None:
        """Goes on until true."""
        eventually(lambda: what() or self._failures, lambda: (self.grown, self.refused), WITHIN_S)

    def _scale(self, name: str, client: Api) -> None:
        choose = random.Random(name)
        now = 1
        try:
            while not self._stop.is_set():
                wanted = choose.randint(0, self._limit)
                began_s = time.monotonic()
                try:
                    client.patch("Deployment", name, self._workspace.namespace, _replicas(wanted), sub="scale")
                    self.grown += wanted > now
                    now = wanted
                except RefusedError as error:
                    self.refused[error.code] += 1
                self.slowest_s = max(self.slowest_s, time.monotonic() - began_s)
        except Exception as error:  # noqa: BLE001 (raised again at the end)
            self._failures.append(error)
        finally:
            client.close()

    def _look(self) -> None:
        """Every state that there ever was, however short: from a watch, not from lists now and then."""
        path = path_of("Deployment", self._workspace.namespace)
        found = self._workspace.api.call("GET", path)
        version = found["metadata"]["resourceVersion"]
        replicas = {each["metadata"]["name"]: each["spec"]["replicas"] for each in found["items"]}
        try:
            while not self._stop.is_set():
                for event in self._workspace.api.watch(path, version, seconds=1):
                    version = event["object"]["metadata"]["resourceVersion"]
                    replicas[event["object"]["metadata"]["name"]] = event["object"]["spec"]["replicas"]
                    self.most = max(self.most, sum(replicas.values()))
        except Exception as error:  # noqa: BLE001 (raised again at the end)
            self._failures.append(error)


def _replicas(count: int) -> dict[str, object]:
    return {"spec": {"replicas": count}}
