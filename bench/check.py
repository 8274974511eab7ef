"""Checks as Envoy sends them over gRPC, made of what autoscalers send."""

from __future__ import annotations

import random
from collections.abc import Iterator

from envoy.service.auth.v3.external_auth_pb2 import CheckRequest

from extauthz.core.model import Request
from extauthz.serve.servers import ext_authz

from .population import Population
from .requests import SENDERS

METHOD = f"/{ext_authz.SERVICE}/Check"
FIRST_COUNT = 1000
GRANTS = 'extauthz_decisions_total{reason="fits",verdict="allow"}'


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
