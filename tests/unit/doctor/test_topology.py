"""The rules by which kube-proxy drops topology hints: each alone fails its row and no other."""

from __future__ import annotations

from typing import Any

import pytest

from extauthz.tools.doctor import dump, topology, upstream_health
from extauthz.tools.doctor.table import Row, Verdict
from extauthz.tools.doctor.upstream_health import Seen

SAME_ZONE = {"metadata": {}, "spec": {"trafficDistribution": "PreferSameZone"}}


def node(name: str, zone: str | None, *, ready: bool = True, **labels: str) -> dict[str, Any]:
    labels |= {topology.ZONE: zone} if zone else {}
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {"metadata": {"name": name, "labels": labels}, "status": {"conditions": conditions}}


def endpoint(zone: str, hint: str | None = "", *, ready: bool | None = True) -> dict[str, Any]:
    hints = {} if hint is None else {"hints": {"forZones": [{"name": hint or zone}]}}
    return {"addresses": [f"10.0.0.{zone}"], "zone": zone, "conditions": {"ready": ready}} | hints


NODES = [node("n1", "a"), node("n2", "b"), node("n3", "c")]
ENDPOINTS = [endpoint("a"), endpoint("b"), endpoint("c")]


def rows(nodes=NODES, endpoints=ENDPOINTS, service=SAME_ZONE, zone=None) -> dict[str, Row]:
    return {each.name: each for each in topology.rows(service, [{"endpoints": endpoints}], nodes, zone)}


def failing(found: dict[str, Row]) -> list[str]:
    return [name for name, row in found.items() if row.verdict is Verdict.FAIL]


def test_three_gates_in_three_zones_of_one_size_are_well():
    assert {row.verdict for row in rows().values()} == {Verdict.OK}


HINTS, OWN = "topology: every endpoint has a hint", "topology: own zone has a hint"
CASES = {
    "endpoint-without-hint": (NODES, [*ENDPOINTS, endpoint("a", None)], None, HINTS),
    "own-zone-in-no-hint": (NODES, ENDPOINTS, "d", OWN),
    "a-zone-in-no-hint": (NODES, [*ENDPOINTS[:2], endpoint("c", "a")], None, OWN),
    "a-zone-without-a-gate": (NODES, ENDPOINTS[:2], None, OWN),
    "no-zones": ([node("bare", None)], ENDPOINTS, None, OWN),
}


@pytest.mark.parametrize(("nodes", "endpoints", "zone", "wanted"), CASES.values(), ids=CASES)
def test_the_row_of_the_rule_that_drops_the_hints_fails_and_says_why(nodes, endpoints, zone, wanted):
    found = rows(nodes, endpoints, zone=zone)
    assert failing(found) == [wanted]
    assert found[wanted].cure


def test_the_sentence_names_what_is_wrong():
    found = rows(endpoints=[*ENDPOINTS, endpoint("a", None)], zone="d")
    assert "10.0.0.a has no hint" in found[HINTS].found
    assert "zone d" in found[OWN].found


@pytest.mark.parametrize(
    "left_out",
    [node("m", "d", ready=False), node("m", "d", **{"node-role.kubernetes.io/control-plane": ""})],
    ids=["not-ready", "control-plane"],
)
def test_a_node_that_runs_no_gate_needs_no_hint_for_its_zone(left_out):
    assert failing(rows([*NODES, left_out])) == []


def test_an_endpoint_that_is_not_ready_needs_no_hint_and_one_of_unknown_state_does():
    assert failing(rows(endpoints=[*ENDPOINTS, endpoint("a", None, ready=False)])) == []
    unknown = rows(endpoints=[*ENDPOINTS, endpoint("a", None, ready=None)])
    assert unknown[HINTS].verdict is Verdict.FAIL


def test_a_service_that_asks_for_nothing_gets_a_warning_and_the_rules_are_not_called_well():
    found = rows(service={"metadata": {}, "spec": {}})
    assert [row.verdict for row in found.values()] == [Verdict.WARN]


@pytest.mark.parametrize("policy", ["internalTrafficPolicy", "externalTrafficPolicy"])
def test_a_service_that_leads_to_the_same_node_alone_gets_a_warning(policy: str):
    for more in ({}, {"trafficDistribution": "PreferClose"}):
        row = rows(service={"metadata": {}, "spec": {policy: "Local"} | more})["topology: traffic policy"]
        assert (row.verdict, row.found.split(": ")[0]) == (Verdict.WARN, policy)
    assert "topology: traffic policy" not in rows(service={"metadata": {}, "spec": {policy: "Cluster"}})


def test_a_zone_without_a_gate_where_all_nodes_are_tainted_gets_a_warning():
    def tainted(name: str, effect: str = "NoSchedule") -> dict[str, Any]:
        return node(name, "d") | {"spec": {"taints": [{"key": "gpu", "effect": effect}]}}

    assert rows([*NODES, tainted("n4")])["topology: tainted zones"].found.endswith("zone d (gpu)")
    for well in ([tainted("n4"), node("n5", "d")], [tainted("n4", "PreferNoSchedule")]):
        assert "topology: tainted zones" not in rows([*NODES, *well])
    assert "topology: tainted zones" not in rows([*NODES, tainted("n4")], [*ENDPOINTS, endpoint("d")])


@pytest.mark.parametrize(
    ("down", "told"), [(0, None), (1, None), (2, "2 of 3 nodes of zone d"), (3, "3 of 3 nodes of zone d")]
)
def test_a_zone_with_many_unready_nodes_gets_a_warning(down: int, told: str | None):
    nodes = [*NODES, *(node(f"d{number}", "d", ready=number >= down) for number in range(3))]
    row = rows(nodes).get("topology: unready nodes")
    assert (row.found if row is not None else None) == (told and f"not ready: {told}")


@pytest.mark.parametrize("name", topology.MODES)
def test_the_annotation_that_goes_before_is_named_where_it_is_there(name: str):
    for spec in ({}, {"trafficDistribution": "PreferSameZone"}):
        row = rows(service={"metadata": {"annotations": {name: "Auto"}}, "spec": spec})["topology: annotation"]
        assert (row.verdict, f"{name}: Auto" in row.found) == (Verdict.WARN, True)
    assert "topology: annotation" not in rows(service={**SAME_ZONE, "metadata": {"annotations": {name: "Disabled"}}})


def test_a_gate_that_is_alone_in_the_autoscalers_zone_gets_a_warning():
    assert rows(zone="a")["topology: gates of the own zone"].verdict is Verdict.WARN
    assert "topology: gates of the own zone" not in rows(endpoints=[*ENDPOINTS, endpoint("a")], zone="a")
    assert "topology: gates of the own zone" not in rows()


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
