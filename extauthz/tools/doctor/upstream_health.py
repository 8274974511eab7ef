"""Upstream health: does the proxy reach the gate, and does the gate answer in time? From ``/clusters?format=json``.

If a canary was sent, only what was counted meanwhile is used. Else the counts are those since the proxy started.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from extauthz.tools.render.envoy import GATE

from .dump import Chain, Dump, Tree, seconds
from .table import Row, fail, ok, skipped, warn

UPSTREAM_NAMES = ("gate reachable", "gate timeout")
CURE = (
    "see --gate of `extauthz render`, the port of the gate's Service (9191), its NetworkPolicy, and both certificates"
)
_COUNTS: tuple[str, ...] = ("cx_total", "cx_connect_fail", "rq_total", "rq_success", "rq_error", "rq_timeout")


class Seen(NamedTuple):
    """Answers of ``/clusters?format=json``; ``None``: not looked at."""

    before: Tree | None = None
    """Before the canary."""
    after: Tree | None = None


def upstream_rows(dump: Dump, chain: Chain | None, seen: Seen, ports: tuple[int, ...]) -> list[Row]:
    """The rows of ``NAMES``.

    Args:
        chain: the chain that asks the gate, if there is one.
        seen: the proxy's connections.
        ports: of the gate's Service; empty: not known.
    """
    return [reachable(dump, seen, ports), in_time(chain, seen.after)]


def reachable(dump: Dump, seen: Seen, ports: tuple[int, ...]) -> Row:
    """Whether the gate answers. It is known only once a request was answered."""
    name = UPSTREAM_NAMES[0]
    if GATE not in dump.clusters:
        return fail(name, f"there is no cluster {GATE}", "apply what `extauthz render` prints")
    strange = [port for port in _rendered_ports(dump.clusters[GATE]) if ports and port not in ports]
    if strange:
        found = f"the cluster goes to port {strange[0]}, the Service has {', '.join(map(str, ports))}"
        return fail(name, found, "render it again with the Service's port in --gate")
    if seen.after is None:
        return skipped(name, "a config dump does not tell who answers", "--admin")
    hosts = _hosts(seen.after)
    if not hosts:
        return fail(name, "the gate's name leads to no address", CURE)
    earlier = {_address(host): _counts(host) for host in _hosts(seen.before or {})}
    counts = {_address(host): _counts(host) for host in hosts}
    since = {
        at: {name: value - earlier.get(at, {}).get(name, 0) for name, value in all_.items()}
        for at, all_ in counts.items()
    }
    if any(value for each in since.values() for value in each.values()):
        counts = since
    return _judged([(_address(host), counts[_address(host)], _ill(host)) for host in hosts])


def _judged(hosts: list[tuple[str, dict[str, int], str]]) -> Row:
    name = UPSTREAM_NAMES[0]
    told = "; ".join(_told(*host) for host in hosts)
    if all(ill for _, _, ill in hosts):
        return fail(name, told, CURE)
    answered = sum(counts["rq_success"] for _, counts, _ in hosts)
    failed = sum(counts["cx_connect_fail"] + counts["rq_error"] + counts["rq_timeout"] for _, counts, _ in hosts)
    if not answered and failed:
        return fail(name, told, CURE)
    if not answered:
        return skipped(name, f"nothing was asked yet: {told}", "--url and --ca, for a canary")
    if failed:
        return warn(name, told, "some questions found no answer: run it again and see whether it goes on")
    if any("failed_active_health_check" in ill for _, _, ill in hosts):
        return warn(name, told, "see why that gate is not well; until then another one decides")
    return ok(name, told)


def in_time(chain: Chain | None, clusters: Tree | None) -> Row:
    name = UPSTREAM_NAMES[1]
    if chain is None:
        return skipped(name, "there is no chain to look at", "apply what `extauthz render` prints")
    timeout_s = seconds((chain.ext_authz.get("grpc_service") or {}).get("timeout"))
    if not timeout_s:
        return fail(name, "ext_authz has no timeout towards the gate", "render it again with --gate-timeout")
    if clusters is None:
        return skipped(name, f"{timeout_s:g} s; a config dump does not tell how often it was exceeded", "--admin")
    late = sum(_counts(host)["rq_timeout"] for host in _hosts(clusters))
    asked = sum(_counts(host)["rq_total"] for host in _hosts(clusters))
    answered = sum(_counts(host)["rq_success"] for host in _hosts(clusters))
    if late:
        return warn(
            name, f"{late} of {asked} questions took longer than {timeout_s:g} s", "--gate-timeout, or more CPU"
        )
    if not answered:
        return skipped(name, f"{timeout_s:g} s; nothing was answered yet", "--url and --ca, for a canary")
    return ok(name, f"none of {asked} questions took longer than {timeout_s:g} s")


def _hosts(clusters: Tree) -> list[Tree]:
    return [
        host
        for each in clusters.get("cluster_statuses", [])
        if each.get("name") == GATE
        for host in each.get("host_statuses", [])
    ]


def _counts(host: Tree) -> dict[str, int]:
    values = {each.get("name"): int(each.get("value", 0)) for each in host.get("stats", [])}
    return {name: values.get(name, 0) for name in _COUNTS}


def _ill(host: Tree) -> str:
    """Why Envoy does not use it; empty if it does."""
    health = host.get("health_status") or {}
    bad = [name for name, value in health.items() if name.startswith("failed_") and value]
    eds = health.get("eds_health_status", "HEALTHY")
    return ", ".join([*bad, *([] if eds in ("HEALTHY", "UNKNOWN", "DEGRADED") else [f"{eds}"])])


def _told(address: str, counts: dict[str, int], ill: str) -> str:
    said = [f"{counts['rq_success']} answered"]
    said += [f"{counts[name]} {word}" for name, word in _WORDS.items() if counts[name]]
    return f"{address}: {', '.join([*said, *([ill] if ill else [])])}"


_WORDS = {"cx_connect_fail": "connections refused", "rq_error": "errors", "rq_timeout": "timeouts"}


def _address(host: Tree) -> str:
    address = host.get("address") or {}
    socket = address.get("socket_address") or {}
    if socket:
        return f"{socket.get('address')}:{socket.get('port_value')}"
    return str((address.get("pipe") or {}).get("path", "?"))


def _rendered_ports(cluster: Tree) -> Iterator[int]:
    for locality in (cluster.get("load_assignment") or {}).get("endpoints", []):
        for each in locality.get("lb_endpoints", []):
            socket = ((each.get("endpoint") or {}).get("address") or {}).get("socket_address") or {}
            if socket.get("port_value"):
                yield int(socket["port_value"])
