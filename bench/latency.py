"""What the filters add to a write's latency: an Envoy that asks the gate beside one that asks nobody, and one that has
counts lowered first (mode Clamp) beside one that does not."""

from __future__ import annotations

import http.client
import ssl
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from extauthz.demo.envoy import Envoy
from extauthz.demo.gate import Gate
from extauthz.tools.render.options import Endpoint, SidecarOptions
from tests.support.apiserver import ApiServer
from tests.support.certs import Authority
from tests.support.stack import TOKEN

from . import inputs
from .figures import Figure, percentile
from .population import Population
from .requests import kpa

WITHOUT, GATE, CLAMP = "without the filter", "with the gate", "with the gate and ext_proc"


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    population: Population
    warm_up: int
    requests: int
    """Each way, one at a time, the ways in turn."""


FULL = Size(Population(10, 500), warm_up=200, requests=3_000)
QUICK = Size(Population(10, 20), warm_up=20, requests=100)

Connections = Mapping[str, http.client.HTTPSConnection]


def measure(size: Size, say: Callable[[str], None]) -> list[Figure]:
    """Medians and 99th percentiles of KPA's PATCH, one at a time over an open TLS connection."""
    say("starting a stand-in API server, extauthz serve and three Envoys")
    with ExitStack() as stack:
        connections = _connections(size.population, stack)
        _series(connections, size.population, size.warm_up)
        latencies: dict[str, list[float]] = {way: [] for way in connections}
        for part in range(10):
            for way, found in _series(connections, size.population, size.requests // 10).items():
                latencies[way] += found
            say(f"latency through Envoy: {(part + 1) * 10} %")
    return [
        _figure(f"{name}: {what} adds", latencies[way], latencies[floor], of)
        for way, floor, what in ((GATE, WITHOUT, "the filter"), (CLAMP, GATE, "ext_proc"))
        for name, of in (("median", median), ("p99", _p99))
    ]


def _connections(population: Population, stack: ExitStack) -> Connections:
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    authority = Authority(directory)
    certificate = authority.issue("localhost")
    api = stack.enter_context(ApiServer(certificate, inputs.objects(population)))
    files = inputs.write(population, directory, "Clamp")  # which changes nothing for who asks ext_authz alone
    gate = stack.enter_context(Gate(files.quotas, files.state, directory / "gate.log", serve=inputs.SERVE))
    base = SidecarOptions(
        cert_file=str(certificate.cert),
        key_file=str(certificate.key),
        apiserver=Endpoint("127.0.0.1", api.port),
        apiserver_name="localhost",
        apiserver_ca_file=str(authority.ca),
    )
    ways = {
        WITHOUT: replace(base, exempt_namespaces=tuple(population.namespaces)),
        GATE: replace(base, gate=Endpoint("127.0.0.1", gate.port)),
        CLAMP: replace(base, gate=Endpoint("127.0.0.1", gate.port), clamp=True),
    }
    trust = ssl.create_default_context(cafile=str(authority.ca))
    connections = {}
    for way, options in ways.items():
        envoy = stack.enter_context(Envoy(options, directory / way))
        connections[way] = http.client.HTTPSConnection("127.0.0.1", envoy.port, context=trust, timeout=30)
        stack.callback(connections[way].close)
    return connections


def _series(connections: Connections, population: Population, count: int) -> dict[str, list[float]]:
    latencies: dict[str, list[float]] = {way: [] for way in connections}
    for number in range(count):
        request = kpa(population, number % population.workload_count, 9 + number % 3)
        headers = {
            name: value for name, value in request.headers.items() if name[0] != ":" and name != "content-length"
        }
        for way, connection in connections.items():
            start = time.perf_counter()
            connection.request(request.method, request.target, request.body, TOKEN | headers)
            answer = connection.getresponse()
            text = answer.read()
            latencies[way].append(time.perf_counter() - start)
            assert answer.status == 200, f"{way}: {answer.status} {text!r}"
    return latencies


def _figure(name: str, measured: list[float], floor: list[float], of: Callable[[list[float]], float]) -> Figure:
    one, other = of(measured) * 1e3, of(floor) * 1e3
    added = f"{one - other:+.2f} ms"
    return Figure(f"latency through Envoy, {name} {added}", f"{one:.2f} ms", f"{other:.2f} ms", one / other)


def _p99(values: list[float]) -> float:
    return percentile(values, 0.99)
