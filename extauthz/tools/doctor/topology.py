"""The rules by which kube-proxy drops topology hints, so that Envoys ask a gate in another zone.

Hints come of the Service's ``trafficDistribution``. kube-proxy (``pkg/proxy/topology.go``) looks at endpoints that are
ready: https://kubernetes.io/docs/reference/networking/virtual-ips/#traffic-distribution
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .dump import Tree
from .table import Row, judged, ok, warn

ZONE = "topology.kubernetes.io/zone"
CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")

NAMES = ("topology: asked for", "topology: every endpoint has a hint", "topology: own zone has a hint")
POLICIES = "topology: traffic policy"
TAINTS = "topology: tainted zones"
LONE = "topology: gates of the own zone"
ANNOTATION = "topology: annotation"
UNREADY = "topology: unready nodes"

MODES = ("service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints")
"""The annotations that came before trafficDistribution, the older one last."""


class Endpoint(NamedTuple):
    address: str
    zone: str
    """Where it is; empty if not known."""
    hints: tuple[str, ...]
    """For which zones it is meant."""


def rows(service: Tree, slices: Sequence[Tree], nodes: Sequence[Tree], own_zone: str | None) -> list[Row]:
    """The traffic policy and the rows of ``NAMES``, only the first of these for a Service that asks for no topology.

    After them come warnings about what else has one gate answer more than the others.

    ``own_zone``: the autoscaler's; ``None``: each zone that has a node.
    """
    ready = endpoints(slices)
    distribution = (service.get("spec") or {}).get("trafficDistribution")
    before = [*policies(service), *unready(nodes), *by_annotation(service)]
    if not distribution:
        found = "the Service has no trafficDistribution: an Envoy may ask a gate in any zone"
        cure = "set spec.trafficDistribution: PreferSameZone"
        return [*before, warn(NAMES[0], found, cure)]
    asked = ok(NAMES[0], f"trafficDistribution: {distribution}")
    uneven = [*tainted(ready, nodes), *lone(ready, own_zone)]
    return [*before, asked, hinted(ready), own(ready, nodes, own_zone), *uneven]


def policies(service: Tree) -> list[Row]:
    """A warning where kube-proxy leads to gates of the same node alone, and drops what it has no gate for. Hints do not
    count then (https://kubernetes.io/docs/concepts/services-networking/service-traffic-policy/)."""
    spec = service.get("spec") or {}
    found = []
    if spec.get("internalTrafficPolicy") == "Local":
        told = "internalTrafficPolicy: Local: an Envoy on a node without a gate reaches none, and hints do not count"
        found.append(warn(POLICIES, told, "set it to Cluster, or run a gate on each node that an Envoy is on"))
    if spec.get("externalTrafficPolicy") == "Local":
        told = "externalTrafficPolicy: Local: from outside only nodes with a gate answer"
        found.append(
            warn(POLICIES, told, "set it to Cluster, or have the load balancer leave out nodes without a gate")
        )
    return found


def by_annotation(service: Tree) -> list[Row]:
    """A warning where an annotation asks for hints. It goes before trafficDistribution, and gives hints only where
    each zone has gates by its part of all CPUs."""
    annotations = (service.get("metadata") or {}).get("annotations") or {}
    there = [f"{name}: {annotations[name]}" for name in MODES if str(annotations.get(name, "")).lower() == "auto"]
    if not there:
        return []
    told = f"the annotation {there[0]} goes before trafficDistribution, and drops hints where zones differ in CPUs"
    return [warn(ANNOTATION, told, "take it off, and set spec.trafficDistribution: PreferSameZone")]


def unready(nodes: Sequence[Tree]) -> list[Row]:
    """A warning for zones half of whose nodes, or more, are not ready."""
    zones: dict[str, list[bool]] = {}
    for node in nodes:
        if not _control_plane(node) and _zone(node):
            zones.setdefault(_zone(node), []).append(_ready(node))
    told = [
        f"{ready.count(False)} of {len(ready)} nodes of zone {zone}"
        for zone, ready in sorted(zones.items())
        if 2 * ready.count(False) >= len(ready)
    ]
    cure = "see kubectl get nodes; the gates of other zones answer meanwhile"
    return [warn(UNREADY, f"not ready: {', '.join(told)}", cure)] if told else []


def tainted(ready: Sequence[Endpoint], nodes: Sequence[Tree]) -> list[Row]:
    """A warning for zones without a gate, all of whose nodes take only pods that tolerate something."""
    zones: dict[str, list[list[Tree]]] = {}
    for node in _counted(nodes):
        zones.setdefault(_zone(node), []).append(_taints(node))
    without = zones.keys() - {"", *(each.zone for each in ready)}
    closed = [
        f"zone {zone} ({', '.join(sorted({taint['key'] for taints in zones[zone] for taint in taints}))})"
        for zone in sorted(without)
        if all(zones[zone])
    ]
    told = f"no gate, and every node has a taint: {', '.join(closed)}"
    return [warn(TAINTS, told, "give the gates tolerations (the chart's tolerations)")] if closed else []


def _taints(node: Tree) -> list[Tree]:
    """Those that keep pods out."""
    taints = (node.get("spec") or {}).get("taints") or []
    return [taint for taint in taints if taint.get("effect") in ("NoSchedule", "NoExecute")]


def lone(ready: Sequence[Endpoint], own_zone: str | None) -> list[Row]:
    """A warning where one gate of several answers all that the autoscaler's zone sends."""
    near = [each for each in ready if own_zone in each.hints]
    if len(near) != 1 or len(ready) == 1:
        return []
    told = f"1 of {len(ready)} gates answers all that zone {own_zone} sends, where the autoscaler is"
    return [warn(LONE, told, "run two gates or more there, or use no hints if their CPU differs much")]


def endpoints(slices: Sequence[Tree]) -> list[Endpoint]:
    """The ready ones of all slices. A condition that is not there counts as ready (discovery/v1)."""
    found = []
    for one in slices:
        for each in one.get("endpoints") or []:
            if (each.get("conditions") or {}).get("ready") in (None, True):
                hints = (each.get("hints") or {}).get("forZones") or []
                address = (each.get("addresses") or ["?"])[0]
                found.append(Endpoint(address, each.get("zone") or "", tuple(hint["name"] for hint in hints)))
    return found


def hinted(ready: Sequence[Endpoint]) -> Row:
    """One endpoint without a hint has kube-proxy use all of them."""
    problems = [f"endpoint {each.address} has no hint" for each in ready if not each.hints]
    if not ready:
        problems.append("there is no ready endpoint")
    cure = "hints come within a minute of a change, and the endpoint's node needs a zone"
    return judged(NAMES[1], f"all {len(ready)} endpoints have one", problems, cure)


def own(ready: Sequence[Endpoint], nodes: Sequence[Tree], own_zone: str | None) -> Row:
    """A zone that is in no hint."""
    hinted_zones = {zone for each in ready for zone in each.hints}
    zones = [own_zone] if own_zone else sorted(_zones(nodes))
    problems = [f"no endpoint has a hint for zone {zone}" for zone in zones if zone not in hinted_zones]
    if not zones:
        problems.append("no node tells its zone")
    cure = "run a gate in that zone (topologySpreadConstraints)"
    return judged(NAMES[2], f"hints for {', '.join(zones)}", problems, cure)


def _counted(nodes: Sequence[Tree]) -> list[Tree]:
    """Those that may run a gate: not the control plane's, and only ready ones."""
    return [node for node in nodes if not _control_plane(node) and _ready(node)]


def _control_plane(node: Tree) -> bool:
    return any(name in _labels(node) for name in CONTROL_PLANE)


def _ready(node: Tree) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def _labels(node: Tree) -> Mapping[str, str]:
    return node["metadata"].get("labels") or {}


def _zone(node: Tree) -> str:
    return _labels(node).get(ZONE, "")


def _zones(nodes: Sequence[Tree]) -> set[str]:
    return {_zone(node) for node in _counted(nodes)} - {""}
