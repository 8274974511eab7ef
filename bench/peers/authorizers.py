"""The gate behind a real Envoy, beside other authorizers behind the same one: checks a second, and the time of one.

Envoy and who sends share one processor, and who answers has the other (on a machine with two). The answer to an allowed
request is Envoy's own, so that no API server takes part.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from bench import inputs, machine, noop
from bench.check import FIRST_COUNT, GRANTS
from bench.figures import Figure, Goal, figure, percentile, turns
from bench.population import Population
from bench.requests import SENDERS
from extauthz.core.model import Request
from extauthz.demo.envoy import Envoy
from extauthz.demo.gate import Gate
from extauthz.demo.processes import Child
from extauthz.tools.render.options import Endpoint, SidecarOptions
from tests.support.certs import Authority
from tests.support.stack import TOKEN

from . import opa_envoy, policy

Tree = Any

OURS, BARE, NOOP = "the gate", "a bare Go handler", "a no-op grpc.aio handler"
OPA = "OPA-Envoy" if opa_envoy.binary() else "OPA's evaluator in a Go handler"
CONNECTIONS = 32
RATES = {OPA: Goal(1.7, at_least=True), BARE: Goal(0.95, at_least=True), NOOP: None}
COSTS = {OPA: Goal(0.5), BARE: None, NOOP: None}
TIMES = {"median": Goal(0.9), "p99": Goal(0.7)}
"""Of one at a time, against OPA."""


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    population: Population
    rounds: int
    seconds: float
    """A server and round with all connections; half of it with one."""


FULL = Size(Population(100, 2_000), rounds=9, seconds=3.0)
QUICK = Size(Population(10, 100), rounds=1, seconds=0.5)


@dataclass
class Server:
    """One of them with its Envoy, and what was measured of it, a value a round."""

    pid: int
    address: str
    sent: int = 0
    rates: list[float] = field(default_factory=list)
    """Checks a second at all connections."""
    costs_s: list[float] = field(default_factory=list)
    """Processor time of the server a check."""
    medians_ms: list[float] = field(default_factory=list)
    """One at a time."""
    p99s_ms: list[float] = field(default_factory=list)


def measure(size: Size, programs: Path, say: Callable[[str], None]) -> list[Figure]:
    """The rows of all pairs."""
    say("starting extauthz serve, three others, and an Envoy for each")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="extauthz-peers-")))
        drive = _Drive(programs / "drive", folder, size.population)
        gate, servers = _servers(size.population, programs, folder, drive.authority, stack)
        for connections, ask in ((CONNECTIONS, drive.many), (1, drive.one)):
            for server in servers.values():
                drive.run(server, connections, size.seconds)
            for number, names in enumerate(turns(list(servers), size.rounds), start=1):
                told = {name: ask(servers[name], size.seconds) for name in names}
                say(f"round {number} of {size.rounds}: " + ", ".join(f"{name} {told[name]}" for name in servers))
        grants = gate.metric(GRANTS)
        assert grants >= servers[OURS].sent, f"{servers[OURS].sent} sent, and only {grants} were grants that grow"
        return _figures(servers)


def _figures(servers: Mapping[str, Server]) -> list[Figure]:
    ours = servers[OURS]
    rows = []
    for name in (OPA, BARE, NOOP):
        one, pair = servers[name], f"behind Envoy, against {name}"
        rows.append(figure(f"{pair}: checks a second", ours.rates, one.rates, RATES[name], unit="/s"))
        costs_ms = [[1e3 * cost for cost in each.costs_s] for each in (ours, one)]
        rows.append(figure(f"{pair}: processor time of a check", *costs_ms, COSTS[name], unit=" ms", digits=3))
    for what, of in (("median", lambda one: one.medians_ms), ("p99", lambda one: one.p99s_ms)):
        for name in (OPA, BARE, NOOP):
            row = f"behind Envoy, against {name}: one at a time, {what}"
            goal = TIMES[what] if name == OPA else None
            rows.append(figure(row, of(ours), of(servers[name]), goal, unit=" ms", digits=2))
    return rows


class _Drive:
    """The client."""

    def __init__(self, program: Path, folder: Path, population: Population) -> None:
        self.authority = Authority(folder)
        self._program, self._file = program, folder / "requests.json"
        self._file.write_text(json.dumps([spelled(one) for one in requests(population)]))

    def many(self, server: Server, seconds: float) -> str:
        """With all connections."""
        before_s = machine.processor_s(machine.family(server.pid))
        found = self.run(server, CONNECTIONS, seconds)
        calls = len(found["took"])
        server.rates.append(calls / found["seconds"])
        server.costs_s.append((machine.processor_s(machine.family(server.pid)) - before_s) / calls)
        return f"{server.rates[-1]:,.0f}/s"

    def one(self, server: Server, seconds: float) -> str:
        """One at a time."""
        took = self.run(server, 1, seconds / 2)["took"]
        server.medians_ms.append(1e3 * median(took))
        server.p99s_ms.append(1e3 * percentile(took, 0.99))
        return f"{server.medians_ms[-1]:.2f} ms"

    def run(self, server: Server, connections: int, seconds: float) -> Tree:
        """What the client found. Every request asks for more than the one before."""
        flags = [f"-address={server.address}", f"-ca={self.authority.ca}", f"-requests={self._file}"]
        flags += [f"-connections={connections}", f"-seconds={seconds}", f"-start={server.sent}"]
        command = machine.pinned([str(self._program), *flags], machine.apart()[0])
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert not found["refused"], f"{found['refused']} of {len(found['took'])} were refused"
        server.sent = found["sent"]
        return found


def requests(population: Population) -> Iterable[Request]:
    """Those of both autoscalers in turn, one a workload."""
    senders = list(SENDERS.values())
    return (senders[i % len(senders)](population, i, FIRST_COUNT) for i in range(population.workload_count))


def spelled(request: Request) -> str:
    """As HTTP/1.1, with a token."""
    headers = {name: value for name, value in request.headers.items() if name[0] != ":"}
    headers |= {"host": "localhost", "content-length": str(len(request.body)), **TOKEN}
    lines = [f"{request.method} {request.target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", request.body.decode()])


def _servers(
    population: Population, programs: Path, folder: Path, authority: Authority, stack: ExitStack
) -> tuple[Gate, Mapping[str, Server]]:
    (folder / "inputs").mkdir()
    files = inputs.write(population, folder / "inputs")
    data = folder / "data.json"
    data.write_text(json.dumps(policy.data(files)))
    gate = stack.enter_context(Gate(files.quotas, files.state, folder / "gate.log", serve=inputs.SERVE))
    plain = stack.enter_context(noop.Noop("--envoy", "--grpc-aio"))
    found = {OURS: (gate.pid, gate.port), NOOP: (plain.pid, plain.port)}
    found[BARE] = started([str(programs / "bare")], folder, stack)
    if program := opa_envoy.binary():
        found[OPA] = opa_envoy.started(program, data, folder, stack)
    else:
        found[OPA] = started([str(programs / "opa"), str(data)], folder, stack)
    certificate = authority.issue("localhost")
    servers = {}
    for name, (pid, port) in found.items():
        options = SidecarOptions(
            cert_file=str(certificate.cert),
            key_file=str(certificate.key),
            apiserver=Endpoint("127.0.0.1", 1),
            apiserver_name="localhost",
            apiserver_ca_file=str(authority.ca),
            gate=Endpoint("127.0.0.1", port),
        )
        envoy = stack.enter_context(Envoy(options, folder / f"envoy-{port}", answer_itself))
        machine.pin(envoy.pid, machine.apart()[0])
        machine.pin(pid, machine.apart()[1])
        servers[name] = Server(pid, f"127.0.0.1:{envoy.port}")
    return gate, servers


def started(command: list[str], folder: Path, stack: ExitStack) -> tuple[int, int]:
    """Its process and its port."""
    log = folder / f"{Path(command[0]).name}.log"
    child = Child(command, log)
    stack.callback(child.terminate)
    port = child.until(lambda: int(log.read_text()) if log.read_text().endswith("\n") else None)
    return child.pid, port


def answer_itself(tree: Tree) -> None:
    """In place of the API server, to writes of scales that the authorizer has allowed."""
    (listener,) = tree["static_resources"]["listeners"]
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    routes = manager["route_config"]["virtual_hosts"][0]["routes"]
    (scale,) = (route for route in routes if route["name"] == "scale")
    del scale["route"]
    scale["direct_response"] = {"status": 200, "body": {"inline_string": "{}"}}
