"""Whether the proxy reaches the gate, and whether the gate answers in time, by what Envoy has counted."""

from __future__ import annotations

from typing import Any

import pytest

from extauthz.tools.doctor import dump, upstream_health
from extauthz.tools.doctor.table import Verdict
from extauthz.tools.doctor.upstream_health import Seen

Tree = dict[str, Any]


def with_cluster(port: int = 9191) -> dump.Dump:
    address = {"socket_address": {"address": "10.0.0.9", "port_value": port}}
    endpoints = [{"lb_endpoints": [{"endpoint": {"address": address}}]}]
    return dump.Dump([], {"extauthz": {"load_assignment": {"endpoints": endpoints}}}, {}, {})


def counted(health: Tree | None = None, address: str = "10.0.0.9", **counts: int) -> Tree:
    stats = [{"name": name, "value": str(value)} for name, value in counts.items()]
    socket = {"socket_address": {"address": address, "port_value": 9191}}
    return {"address": socket, "stats": stats, "health_status": health or {"eds_health_status": "HEALTHY"}}


def page(*hosts: Tree) -> Tree:
    return {"cluster_statuses": [{"name": "apiserver"}, {"name": "extauthz", "host_statuses": list(hosts)}]}


WELL = page(counted(rq_total=3, rq_success=3))
REACHED = {
    "answers": (Seen(None, WELL), "ok"),
    "never-answered": (Seen(None, page(counted(cx_connect_fail=2))), "fail"),
    "answers-and-fails": (Seen(None, page(counted(rq_success=3, rq_error=1))), "warn"),
    "nothing-asked": (Seen(None, page(counted())), "skipped"),
    "not-looked-at": (Seen(), "skipped"),
    "a-name-that-leads-nowhere": (Seen(None, page()), "fail"),
    "all-out-of-health": (Seen(None, page(counted({"failed_active_health_check": True}, rq_success=3))), "fail"),
    "one-of-two-out-of-health": (
        Seen(None, page(counted({"eds_health_status": "UNHEALTHY"}), counted(address="10.0.0.8", rq_success=1))),
        "ok",
    ),
    "one-of-two-fails-its-health-check": (
        Seen(None, page(counted({"failed_active_health_check": True}), counted(address="10.0.0.8", rq_success=1))),
        "warn",
    ),
    "answered-before-the-canary-only": (Seen(WELL, page(counted(rq_total=4, rq_success=3, rq_error=1))), "fail"),
    "failed-before-the-canary-only": (Seen(page(counted(rq_error=9)), page(counted(rq_error=9, rq_success=1))), "ok"),
    "no-canary-since": (Seen(WELL, WELL), "ok"),
}


@pytest.mark.parametrize(("seen", "verdict"), REACHED.values(), ids=REACHED)
def test_the_gate_is_reachable_only_if_it_answered_lately(seen: Seen, verdict: str):
    assert upstream_health.reachable(with_cluster(), seen, ()).verdict == verdict


def test_a_port_that_the_gates_service_does_not_have_fails_whatever_was_counted():
    row = upstream_health.reachable(with_cluster(9999), Seen(None, WELL), (9191, 9192))
    assert row.verdict is Verdict.FAIL
    assert "9999" in row.found
    assert upstream_health.reachable(with_cluster(), Seen(None, WELL), (9191, 9192)).verdict is Verdict.OK


def test_without_the_cluster_nothing_reaches_the_gate():
    assert upstream_health.reachable(dump.Dump([], {}, {}, {}), Seen(None, WELL), ()).verdict is Verdict.FAIL


def chain(timeout: str | None) -> dump.Chain:
    service: Tree = {"envoy_grpc": {"cluster_name": "extauthz"}} | ({"timeout": timeout} if timeout else {})
    config = {"@type": "x/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz", "grpc_service": service}
    return dump.Chain("l", {}, {"http_filters": [{"name": "e", "typed_config": config}]}, [])


WITHIN = {
    "in-time": (chain("2s"), WELL, "ok"),
    "late": (chain("0.200s"), page(counted(rq_total=5, rq_success=4, rq_timeout=1)), "warn"),
    "no-timeout": (chain(None), WELL, "fail"),
    "nothing-answered": (chain("2s"), page(counted(rq_total=2)), "skipped"),
    "not-looked-at": (chain("2s"), None, "skipped"),
    "no-chain": (None, WELL, "skipped"),
}


@pytest.mark.parametrize(("asking", "clusters", "verdict"), WITHIN.values(), ids=WITHIN)
def test_answers_must_come_within_the_gates_timeout(asking, clusters, verdict: str):
    assert upstream_health.in_time(asking, clusters).verdict == verdict
