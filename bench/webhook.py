"""What the webhook adds to growth writes through a real API server, beside a webhook in Go that allows everything.
The same of Pods that are gated at creation, and of those that its ``matchConditions`` let pass.

Both are asked by a Service, as the chart installs ours: by HTTP/1.1. An API server speaks HTTP/2 to webhooks on
loopback alone (https://github.com/kubernetes/kubernetes/pull/122558).

The API server of ``make controlplane``; where that or Go is missing, nothing of this is measured, and said so.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import mean, median
from typing import Any

from extauthz.demo.gate import Gate
from extauthz.inputs.kube.connection import connect
from extauthz.serve.selfsigned import issuing
from extauthz.tools.render.webhook import NAME, WebhookOptions, configuration
from tests.controlplane import parts
from tests.controlplane.build import BuildError, go_binary
from tests.controlplane.plane import Plane, free_ports, running_plane
from tests.support.objects import namespace, quota, scalable
from tests.waiting import eventually

from .figures import Figure, Goal, percentile
from .filling import DEPLOYMENTS, create, define, each
from .machine import counted

Tree = Any

SOURCE = Path(__file__).parent / "admission"
NEEDED = ("etcd", "kube-apiserver", "kubectl")
CONFIGURATION = "ValidatingWebhookConfiguration.admissionregistration.k8s.io/v1"
NONE, EMPTY, OURS = "no webhook", "one that allows everything", "ours"
GOAL = Goal(1.3)
SERVICE, NAMESPACE = "webhook", "gates"
OPERATOR, CONTROLLER = "system:serviceaccount:ray:operator", "system:serviceaccount:kube-system:replicaset-controller"
"""Who makes Pods that are gated, and who makes Pods that pass."""
PODS = "/api/v1/namespaces/load/pods"
LEAST_MS = 0.1
"""What the empty webhook is taken to add at least: less is noise."""


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    clients: tuple[int, ...]
    pods_clients: tuple[int, ...]
    rounds: int
    """Of the ways in turn."""
    seconds: float


FULL = Size(clients=(1, 50, 500), pods_clients=(1, 50), rounds=5, seconds=4.0)
QUICK = Size(clients=(1, 5), pods_clients=(1,), rounds=1, seconds=0.5)


@dataclass(frozen=True)
class Work:
    """What is written."""

    clients: int
    maker: str = ""
    """Who makes Pods; empty: counts of Deployments are raised."""

    def __str__(self) -> str:
        what = f"Pods by {self.maker.rpartition(':')[2]}, " if self.maker else ""
        return f"{what}{_noun(self.clients)}"


Took = Mapping[str, list[list[float]]]
"""Way to the rounds, each the seconds of its writes."""


def measure(size: Size, say: Callable[[str], None]) -> list[Figure]:
    """The rows; none where a part is missing."""
    if missing := parts.missing(NEEDED):
        say(f"NOT MEASURED, the webhook: {missing[0]}")
        return []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="extauthz-bench-")))
        try:
            programs = _built(folder)
        except BuildError as error:
            say(f"NOT MEASURED, the webhook: {error}")
            return []
        say("starting a real API server, the gate, and a webhook that allows everything")
        load = stack.enter_context(_ready(programs, max(size.clients)))
        rows = []
        for clients in size.clients:
            rows += _added(f"webhook, {_noun(clients)}", load.rounds(Work(clients), size, say))
        return [*rows, *_of_pods(load, size, say)]


def _of_pods(load: Load, size: Size, say: Callable[[str], None]) -> list[Figure]:
    """What a Pod costs that is gated, and one that passes: that is not to be asked about at all."""
    found = []
    for clients in size.pods_clients:
        gated = load.rounds(Work(clients, maker=OPERATOR), size, say)
        found += _added(f"webhook, Pods gated at creation, {_noun(clients)}", gated)
    before = load.asked() - load.probes
    passed = load.rounds(Work(1, maker=CONTROLLER), size, say)
    calls = load.asked() - load.probes - before
    made = sum(len(each) for way in (EMPTY, OURS) for each in passed[way])
    base, ours = (1000 * median(map(median, passed[way])) for way in (NONE, OURS))
    name = "webhook, Pods that matchConditions let pass"
    found.append(Figure(f"{name}: calls", f"{calls:.0f} of {made:,} Pods", "0", calls / max(made, 1), Goal(0.0)))
    found.append(Figure(f"{name}: median of a create", f"{ours:.2f} ms", f"{base:.2f} ms", ours / base))
    return found


def _added(who: str, took: Took) -> list[Figure]:
    return [_figure(f"{who}: {what}", of, took) for what, of in (("median", median), ("p99", _p99))]


def _figure(name: str, of: Callable[[list[float]], float], took: Took) -> Figure:
    base, empty, ours = (1000 * median(map(of, took[way])) for way in (NONE, EMPTY, OURS))
    return Figure(
        f"{name} of what it adds to a growth write",
        f"{ours - base:.1f} ms on {base:.1f} ms",
        f"{empty - base:.1f} ms",
        (ours - base) / max(empty - base, LEAST_MS),
        GOAL,
    )


def _noun(clients: int) -> str:
    return "1 client" if clients == 1 else f"{clients} clients"


def _p99(values: list[float]) -> float:
    return percentile(values, 0.99)


def _built(folder: Path) -> Mapping[str, Path]:
    go = go_binary()
    for name in ("allow", "load"):
        command = [str(go), "build", "-o", str(folder / name), f"./{name}"]
        done = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            raise BuildError(f"{' '.join(command)}: {done.stderr}")
    return {name: folder / name for name in ("allow", "load")}


class Load:
    """Writes, with the webhook of each way in force by turns."""

    def __init__(self, plane: Plane, program: Path, ports: Mapping[str, int], ca: bytes) -> None:
        self._plane, self._program, self._ports, self._ca = plane, program, ports, ca
        self._count = 1
        self.probes = 0.0
        """Calls that were made to see whether a webhook is asked."""

    def rounds(self, work: Work, size: Size, say: Callable[[str], None]) -> Took:
        """All rounds of it."""
        took: dict[str, list[list[float]]] = defaultdict(list)
        for number in range(size.rounds):
            for way in (NONE, EMPTY, OURS):
                with self._in_force(way):
                    written, failed = self._written(work, size.seconds)
                took[way].append(written)
                if work.maker:  # nobody runs them, so they are gone at once
                    self._plane.api.call("DELETE", PODS)
                if failed:
                    say(f"webhook, {work}, {way}: {failed} writes FAILED, as it did not answer within 2 s")
            told = ", ".join(f"{way} {1000 * mean(some[-1]):.1f} ms" for way, some in took.items())
            say(f"webhook, {work}, round {number + 1} of {size.rounds}: on average {told}")
        return took

    def _written(self, work: Work, seconds: float) -> tuple[list[float], int]:
        """The seconds of each write but the first of each client, which makes a connection; and how many failed."""
        flags = [f"-server={self._plane.url}", f"-folder={self._plane.folder}", f"-clients={work.clients}"]
        flags += [f"-first={self._count}", f"-seconds={seconds}", f"-pods-by={work.maker}"]
        done = subprocess.run([str(self._program), *flags], capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        took: list[list[float]] = found["took"]
        self._count += max(map(len, took))
        return [one for each in took for one in each[1:]], found["failed"]

    @contextmanager
    def _in_force(self, way: str) -> Iterator[None]:
        if way == NONE:
            yield
            return
        tree = configuration(WebhookOptions(self._ca, SERVICE, NAMESPACE, self._ports[way], pods=True))
        self._plane.api.create(tree)
        try:
            eventually(lambda: self._is_asked(tree))
            yield
        finally:
            self._plane.api.delete(CONFIGURATION, tree["metadata"]["name"])
            eventually(lambda: not self._is_asked(tree))

    def _is_asked(self, tree: Tree) -> bool:
        """As the API server itself counts what it has asked."""
        before = self.asked()
        self._plane.api.call("POST", "/apis/apps/v1/namespaces/load/deployments?dryRun=All", _deployment("probe"))
        calls = self.asked() - before
        self.probes += calls
        return calls > 0

    def asked(self) -> float:
        """How many calls of webhooks the API server has counted."""
        name = "apiserver_admission_webhook_admission_duration_seconds_count{"
        lines = [line for line in self._plane.api.call("GET", "/metrics").splitlines() if NAME in line]
        return counted("\n".join(lines), name)


@contextmanager
def _ready(programs: Mapping[str, Path], most: int) -> Iterator[Load]:
    with ExitStack() as stack:
        plane = stack.enter_context(running_plane())
        define(plane)
        for name in ("load", NAMESPACE):
            plane.api.create(namespace(name))
        plane.api.create(service())
        plane.api.create(quota("all", {"requests.cpu": "10G", "pods": "1G"}, {}))
        asyncio.run(_fill(plane, most))
        ca, pair = certificates(plane.folder)
        (port,) = free_ports(1)
        flags = [f"--kubeconfig={plane.kubeconfig}", "--ledger=memory", f"--webhook=127.0.0.1:{port}"]
        flags += [f"--webhook-cert={pair[0]}", "--allow-unknown=unclean-start"]
        stack.enter_context(Gate("kubernetes", "kubernetes", plane.folder / "gate.log", flags))
        empty = _serving(stack, [str(programs["allow"]), *pair])
        yield Load(plane, programs["load"], {EMPTY: empty, OURS: port}, ca)


def _serving(stack: ExitStack, command: list[str]) -> int:
    """Start a webhook that prints its port."""
    process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    stack.callback(process.terminate)
    assert process.stdout is not None
    return int(process.stdout.readline())


def certificates(folder: Path) -> tuple[bytes, list[str]]:
    """The authority, and the files of a certificate for the Service: P-256, as the gates make their own."""
    now = datetime.now(UTC)
    authority = issuing.authority(now, timedelta(days=1))
    found = issuing.serving(authority, [f"{SERVICE}.{NAMESPACE}.svc"], now, timedelta(days=1))
    files = [folder / "webhook.crt", folder / "webhook.key"]
    for file, content in zip(files, found.pem, strict=True):
        file.write_bytes(content)
    return authority.pem[0], [str(file) for file in files]


def service() -> Tree:
    """It leads to this host, at whichever port a configuration names."""
    spec = {"type": "ExternalName", "externalName": "127.0.0.1", "ports": [{"port": 443}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": SERVICE, "namespace": NAMESPACE}, "spec": spec}


async def _fill(plane: Plane, number: int) -> None:
    async with connect(plane.kubeconfig) as connection:
        await each(create(connection, DEPLOYMENTS, _deployment(f"web-{one}")) for one in range(number))


def _deployment(name: str) -> Tree:
    return scalable(name, "load", 0, {"cpu": "1m"})
