"""The cluster that the demo runs on: a stand-in in memory. ``tests/controlplane/demo.py`` has a real one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from ..apiserver import ApiServer
from ..certs import Authority, Pair
from ..gate import Gate
from ..objects import Key
from .recordings import Recording

NAMESPACE = "team-a"
TOKEN = "demo-token"
"""Every request carries it, as in a cluster."""
PATIENCE_S = 15.0
"""For what takes effect within a second on an idle machine."""


def deployment(name: str, replicas: int, requests: dict[str, str], **metadata: Any) -> dict[str, Any]:  # noqa: ANN401
    """A Deployment as kubectl prints one, without what costs nothing."""
    labels = {"app": name}
    resources = {"requests": requests, "limits": {key: requests[key] for key in requests if "/" in key}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels, **metadata},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "app", "resources": resources}]},
            },
        },
    }


OBJECTS = (
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": {"workspace": "acme"}}},
    deployment("hello-00001-deployment", 1, {"cpu": "500m", "nvidia.com/gpu": "1"}),
    deployment("web", 2, {"cpu": "1"}),
    deployment("kc", 8, {"cpu": "100m"}),
)


class Cluster(AbstractContextManager["Cluster"], Protocol):
    """What the demo needs of an API server. Started by the ``with`` block."""

    title: str
    """What it runs on."""
    ca: Path
    """Has signed the API server's certificate, and Envoy's."""
    certificate: Pair
    """Of Envoy."""
    state: Path | str
    """Where the gate learns what there is, as ``--state`` takes it."""
    gate_flags: tuple[str, ...]

    @property
    def port(self) -> int: ...

    def replicas(self, name: str) -> int:
        """What the API server holds."""

    def meet(self, recording: Recording, workload: str | None) -> Recording:
        """Makes true here what a recorded request asks the API server to verify: the version of the object."""

    def show(self, gate: Gate) -> None:
        """Returns when the gate has seen what there is."""

    def arrived(self) -> bool:
        """Whether the token came with every request."""


class StandIn:
    """Objects in memory, and the state in a file, as a cron job with ``kubectl get ns,deploy -A -o json`` has it."""

    title = "API server (stand-in)"
    gate_flags: tuple[str, ...] = ()

    def __init__(self, directory: Path) -> None:
        authority = Authority(directory, "demo CA")
        self.ca, self.certificate = authority.ca, authority.issue("localhost")
        self.state: Path | str = directory / "state.json"
        self._file = directory / "state.json"
        self._api = ApiServer(self.certificate, OBJECTS)
        self._write()

    def __enter__(self) -> Self:
        self._api.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._api.__exit__(kind, error, trace)

    @property
    def port(self) -> int:
        return self._api.port

    def replicas(self, name: str) -> int:
        count: int = self._deployment(name)["spec"]["replicas"]
        return count

    def meet(self, recording: Recording, workload: str | None) -> Recording:
        """Status writes came between in the recording: gives the object the version and UID that it had then."""
        if workload and recording.precondition:
            self._deployment(workload)["metadata"] |= recording.precondition
        return recording

    def show(self, gate: Gate) -> None:
        reloaded(gate, "state", self._write)

    def arrived(self) -> bool:
        return all(seen.headers.get("authorization") == f"Bearer {TOKEN}" for seen in self._api.seen)

    def _deployment(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self._api.objects.get(Key("apps", "deployments", NAMESPACE, name))
        return found

    def _write(self) -> bool:
        """Whether there was anything new to write."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(self._api.objects.items.values())})
        if self._file.exists() and self._file.read_text() == text:
            return False
        new = self._file.with_suffix(".new")
        new.write_text(text)
        new.replace(self._file)
        return True


def reloaded(gate: Gate, source: str, change: Callable[[], bool]) -> None:
    """Changes a file, and returns when the gate has read it again."""

    def loads() -> int:
        return sum(line["source"] == source for line in gate.events("loaded"))

    before = loads()
    if change():
        until(lambda: loads() > before, f"the gate reads its {source}")


def until(done: Callable[[], bool], what: str) -> None:
    """Polls.

    Raises:
        TimeoutError: it was in vain.
    """
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {PATIENCE_S:.0f} s in vain until {what}")
        time.sleep(0.02)
