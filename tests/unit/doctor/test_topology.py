"""The five rules by which Kubernetes drops topology hints: each alone fails its row and no other."""

from __future__ import annotations

from typing import Any

import pytest

from extauthz.doctor import topology
from extauthz.doctor.table import Row, Verdict

AUTO = {"metadata": {"annotations": {"service.kubernetes.io/topology-mode": "Auto"}}, "spec": {}}


def node(name: str, zone: str | None, cpu: str | None = "4", *, ready: bool = True, **labels: str) -> dict[str, Any]:
    labels |= {topology.ZONE: zone} if zone else {}
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    status = {"conditions": conditions, "allocatable": {"cpu": cpu} if cpu else {}}
    return {"metadata": {"name": name, "labels": labels}, "status": status}


def endpoint(zone: str, hint: str | None = "", *, ready: bool | None = True) -> dict[str, Any]:
    hints = {} if hint is None else {"hints": {"forZones": [{"name": hint or zone}]}}
    return {"addresses": [f"10.0.0.{zone}"], "zone": zone, "conditions": {"ready": ready}} | hints


NODES = [node("n1", "a"), node("n2", "b"), node("n3", "c")]
ENDPOINTS = [endpoint("a"), endpoint("b"), endpoint("c")]


def rows(nodes=NODES, endpoints=ENDPOINTS, service=AUTO, zone=None) -> dict[str, Row]:
    return {each.name: each for each in topology.rows(service, [{"endpoints": endpoints}], nodes, zone)}


def failing(found: dict[str, Row]) -> list[str]:
    return [name for name, row in found.items() if row.verdict is Verdict.FAIL]


def test_three_gates_in_three_zones_of_one_size_are_well():
    assert {row.verdict for row in rows().values()} == {Verdict.OK}


CASES = {
    "fewer-endpoints-than-zones": (
        NODES,
        ENDPOINTS[:2],
        None,
        {"topology: enough endpoints", "own", "topology: balanced"},
    ),
    "one-zone-only": ([node("n1", "a")], ENDPOINTS, None, {"topology: enough endpoints"}),
    "no-balance": ([node("n1", "a", "64"), *NODES[1:]], ENDPOINTS, None, {"topology: balanced"}),
    "node-without-zone": ([*NODES, node("bare", None)], ENDPOINTS, None, {"topology: nodes"}),
    "node-without-cpu": ([*NODES, node("idle", "a", None)], ENDPOINTS, None, {"topology: nodes"}),
    "node-with-no-cpu-left": ([*NODES, node("idle", "a", "0")], ENDPOINTS, None, {"topology: nodes"}),
    "endpoint-without-hint": (
        NODES,
        [*ENDPOINTS, *ENDPOINTS[1:], endpoint("a", None)],
        None,
        {"topology: every endpoint has a hint"},
    ),
    "one-more-than-can-be-shared-out": (NODES, [*ENDPOINTS, endpoint("a")], None, {"topology: balanced"}),
    "own-zone-in-no-hint": (NODES, ENDPOINTS, "d", {"own"}),
    "a-zone-in-no-hint": (NODES, [*ENDPOINTS[:2], endpoint("c", "a")], None, {"own"}),
}


@pytest.mark.parametrize(("nodes", "endpoints", "zone", "wanted"), CASES.values(), ids=CASES)
def test_the_row_of_the_rule_that_drops_the_hints_fails_and_says_why(nodes, endpoints, zone, wanted):
    found = rows(nodes, endpoints, zone=zone)
    assert failing(found) == [name for name in found if name in wanted or ("own" in wanted and "own zone" in name)]
    assert all(found[name].cure for name in failing(found))


def test_the_sentence_names_what_is_wrong():
    found = rows([*NODES, node("bare", None)], [*ENDPOINTS, endpoint("a", None)], zone="d")
    assert "node bare has no label" in found["topology: nodes"].found
    assert "10.0.0.a has no hint" in found["topology: every endpoint has a hint"].found
    assert "zone d" in found["topology: own zone has a hint"].found


@pytest.mark.parametrize(
    "left_out",
    [node("m", None, ready=False), node("m", None, **{"node-role.kubernetes.io/control-plane": ""})],
    ids=["not-ready", "control-plane"],
)
def test_nodes_that_the_controller_leaves_out_break_nothing(left_out):
    assert failing(rows([*NODES, left_out])) == []


def test_an_endpoint_that_is_not_ready_needs_no_hint_and_one_of_unknown_state_does():
    assert failing(rows(endpoints=[*ENDPOINTS, endpoint("a", None, ready=False)])) == []
    unknown = rows(endpoints=[*ENDPOINTS, endpoint("a", None, ready=None)])
    assert unknown["topology: every endpoint has a hint"].verdict is Verdict.FAIL


@pytest.mark.parametrize(("gates", "fits"), [(3, False), (4, True), (5, True)])
def test_the_threshold_is_a_fifth_of_overload(gates: int, fits: bool):
    """Zone a has 60 % of the CPU, the others 20 % each: by hand, ceil(0.6 n / 1.2) + 2 × ceil(0.2 n / 1.2) ≤ n."""
    nodes = [node("n1", "a", "12"), node("n2", "b", "4"), node("n3", "c", "4")]
    endpoints = [endpoint("abc"[number % 3]) for number in range(gates)]
    assert (rows(nodes, endpoints)["topology: balanced"].verdict is Verdict.OK) is fits


def test_by_traffic_distribution_the_controllers_rules_do_not_count_and_kube_proxys_do():
    service = {"metadata": {}, "spec": {"trafficDistribution": "PreferClose"}}
    assert failing(rows([*NODES, node("bare", None)], service=service)) == []
    assert failing(rows(endpoints=[*ENDPOINTS, endpoint("a", None)], service=service)) != []


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


def test_a_gate_that_is_alone_in_the_autoscalers_zone_gets_a_warning():
    assert rows(zone="a")["topology: gates of the own zone"].verdict is Verdict.WARN
    assert "topology: gates of the own zone" not in rows(endpoints=[*ENDPOINTS, endpoint("a")], zone="a")
    assert "topology: gates of the own zone" not in rows()
