"""The whole check over gRPC: ``extauthz serve`` against a handler that answers OK to everything, in the same run."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import grpc
from envoy.service.auth.v3.external_auth_pb2 import CheckRequest, CheckResponse

from extauthz.core.model import Request
from extauthz.demo.gate import Gate
from extauthz.serve.servers import ext_authz

from . import inputs, noop
from .figures import Figure, Goal, figure
from .h2load import Connection, Run
from .machine import processor_s
from .population import Population
from .requests import SENDERS

METHOD = f"/{ext_authz.SERVICE}/Check"
THROUGHPUT = 0.80
FIRST_COUNT = 1000
GRANTS = 'extauthz_decisions_total{reason="fits",verdict="allow"}'
IN_FLIGHT = 32
"""As many as an Envoy worker may well have under way; fewer measure latency."""


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    population: Population
    rounds: int
    seconds: float
    """A server and round."""


FULL = Size(Population(100, 2_000), rounds=15, seconds=1.5)
QUICK = Size(Population(10, 500), rounds=3, seconds=0.3)


def measure(size: Size, say: Callable[[str], None]) -> list[Figure]:
    """Checks a second, the gate's and the floor's in turn."""
    say("starting extauthz serve and a no-op handler")
    with ExitStack() as stack:
        # Apart, as in use: every line of a log that lies beside watched files wakes their watcher.
        directory, logs = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2)]
        files = inputs.write(size.population, directory)
        gate = stack.enter_context(Gate(files.quotas, files.state, logs / "gate.log", serve=inputs.SERVE))
        floors = [stack.enter_context(noop.Noop(*options)) for options in (("--grpc-aio",), ())]
        messages = checks(size.population)
        servers = []
        for server in (gate, *floors):
            _allowed(server.port, messages[:20])
            connection = stack.enter_context(Connection(server.port, METHOD))
            servers.append(Server(server.pid, connection, growing(messages)))
        figures = _throughput(size, servers, say)
        assert gate.metric(GRANTS) >= servers[0].calls, "each check was a grant that grows"
        return figures


def checks(population: Population) -> list[bytes]:
    """CheckRequests as Envoy sends them, KPA's and HPA's in turn, for random workloads."""
    pick = random.Random(1)
    picked = pick.sample(range(population.workload_count), population.workload_count)
    senders = list(SENDERS.values())
    return [message(senders[n % len(senders)](population, i, FIRST_COUNT)) for n, i in enumerate(picked)]


def growing(messages: list[bytes]) -> Iterator[bytes]:
    """Each workload in turn, over and over, and every time for one replica more."""
    for count in range(FIRST_COUNT + 1, 10 * FIRST_COUNT):
        spelled = b":%d}" % count  # as long as the one in its place, so that no length in the message changes
        for one in messages:
            yield one.replace(b":%d}" % FIRST_COUNT, spelled)


def message(request: Request) -> bytes:
    """A CheckRequest with what Envoy's filter fills in for this request."""
    check = CheckRequest()
    http = check.attributes.request.http
    http.id = "12345678901234567890"
    http.method, http.path, http.host, http.scheme = request.method, request.target, "127.0.0.1:17443", "https"
    http.protocol, http.size, http.raw_body = "HTTP/2", len(request.body), request.body
    http.headers.update(request.headers)
    http.headers.update({":method": request.method, ":path": request.target})
    check.attributes.source.address.socket_address.address = "10.0.0.1"
    check.attributes.destination.address.socket_address.address = "10.0.0.2"
    return bytes(check.SerializeToString())


@dataclass
class Server:
    """One of them, and what was measured of it, a number a round."""

    pid: int
    connection: Connection
    supply: Iterator[bytes]
    calls: int = 0
    rates: list[float] = field(default_factory=list)
    """Checks a second."""
    costs: list[float] = field(default_factory=list)
    """Checks a second of the server's processor time, all its threads together."""

    def warm_up(self, seconds: float) -> Run:
        run = self.connection.run(self.supply, seconds, IN_FLIGHT)
        self.calls += run.calls
        return run

    def measure(self, seconds: float) -> None:
        before = processor_s([self.pid])
        run = self.warm_up(seconds)
        self.rates.append(run.calls / run.seconds)
        self.costs.append(run.calls / (processor_s([self.pid]) - before))


def _throughput(size: Size, servers: list[Server], say: Callable[[str], None]) -> list[Figure]:
    gate, floor, ours = servers
    for server in servers:
        server.warm_up(size.seconds)
    for number in range(size.rounds):
        for server in servers if number % 2 else reversed(servers):
            server.measure(size.seconds)
        ratios = f"{gate.rates[-1] / floor.rates[-1]:.2f}, by processor time {gate.costs[-1] / floor.costs[-1]:.2f}"
        say(f"check over gRPC, round {number + 1} of {size.rounds}: {ratios}")
    goal = Goal(THROUGHPUT, at_least=True)
    rows = (("a no-op grpc.aio handler", floor, goal), ("one on our own server", ours, None))
    return [
        figure(f"check over gRPC against {name}: {what}", one, other, goal, unit="/s")
        for name, beside, goal in rows
        for what, one, other in (
            ("throughput", gate.rates, beside.rates),
            ("checks a second of processor time", gate.costs, beside.costs),
        )
    ]


def _allowed(port: int, messages: list[bytes]) -> None:
    """Look once at what is answered, with a client that reads answers: a refusal would be quick for nothing."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.unary_unary(METHOD, response_deserializer=CheckResponse.FromString)
        for one in messages:
            answer = call(one, timeout=10)
            assert answer.status.code == ext_authz.OK, answer
