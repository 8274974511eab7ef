"""Scale writes from several clients at once, and an eye on what they come to."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Self

from extauthz.tools.render.options import Profile
from tests.controlplane.api import Api, RefusedError, path_of
from tests.controlplane.workspace import Workspace
from tests.waiting import eventually

WITHIN_S = 90.0


@contextmanager
def side_by_side(loops: Sequence[Callable[[], object]], stop: threading.Event) -> Iterator[None]:
    """Each in a thread of its own until the end of the block, where ``stop`` is set. What one raises is raised then."""

    def whole(loop: Callable[[], object]) -> object:
        try:
            return loop()
        except BaseException:
            stop.set()  # the others have nothing more to show
            raise

    with ThreadPoolExecutor(len(loops)) as threads:
        each = [threads.submit(whole, loop) for loop in loops]
        try:
            yield
        finally:
            stop.set()
    for one in each:
        one.result()


class Together:
    """Loops side by side, from enter to exit: a context manager."""

    def __init__(self, *loops: Callable[[], object]) -> None:
        self._stop = threading.Event()
        self._side_by_side = side_by_side(loops, self._stop)

    def __enter__(self) -> Self:
        self._side_by_side.__enter__()
        return self

    @property
    def ended(self) -> bool:
        """They shall end, or one of them has failed."""
        return self._stop.is_set()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._side_by_side.__exit__(kind, error, trace)


class Load(Together):
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
        clients = {name: workspace.world.client(Profile.SCALE) for name in names}
        super().__init__(self._look, *(partial(self._scale, name, client) for name, client in clients.items()))

    def until(self, what: Callable[[], bool]) -> None:
        """Goes on until true."""
        eventually(lambda: what() or self.ended, lambda: (self.grown, self.refused), WITHIN_S)

    def _scale(self, name: str, client: Api) -> None:
        choose = random.Random(name)
        now = 1
        try:
            while not self.ended:
                wanted = choose.randint(0, self._limit)
                began_s = time.monotonic()
                try:
                    client.patch("Deployment", name, self._workspace.namespace, _replicas(wanted), sub="scale")
                    self.grown += wanted > now
                    now = wanted
                except RefusedError as error:
                    self.refused[error.code] += 1
                self.slowest_s = max(self.slowest_s, time.monotonic() - began_s)
        finally:
            client.close()

    def _look(self) -> None:
        """Every state that there ever was, however short: from a watch, not from lists now and then."""
        path = path_of("Deployment", self._workspace.namespace)
        found = self._workspace.api.call("GET", path)
        version = found["metadata"]["resourceVersion"]
        replicas = {each["metadata"]["name"]: each["spec"]["replicas"] for each in found["items"]}
        while not self.ended:
            for event in self._workspace.api.watch(path, version, seconds=1):
                version = event["object"]["metadata"]["resourceVersion"]
                replicas[event["object"]["metadata"]["name"]] = event["object"]["spec"]["replicas"]
                self.most = max(self.most, sum(replicas.values()))


def _replicas(count: int) -> dict[str, object]:
    return {"spec": {"replicas": count}}
