"""Reads Envoy's ``/config_dump`` (``envoy.admin.v3``) for what the checks look at: listeners, chains, clusters.

https://www.envoyproxy.io/docs/envoy/v1.40.0/api-v3/admin/v3/config_dump.proto
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

from extauthz.tools.render.envoy import GATE

Tree: TypeAlias = Any
"""JSON. Fields with their default are left out, as protobuf's JSON has it."""

EXT_AUTHZ, RBAC, ROUTER = "ext_authz.v3.ExtAuthz", "rbac.v3.RBAC", "router.v3.Router"
EXT_PROC = "ext_proc.v3.ExternalProcessor"
MANAGER = "HttpConnectionManager"
TLS_INSPECTOR = "tls_inspector.v3.TlsInspector"


class NoDumpError(ValueError):
    """The text is no config dump. The message says the cure."""


class Chain(NamedTuple):
    """A filter chain with an HTTP connection manager that asks the gate."""

    listener: str
    tree: Tree
    """The filter chain."""
    manager: Tree
    routes: list[Tree]
    """The routes of all its virtual hosts, in order."""

    @property
    def filters(self) -> list[Tree]:
        return list(self.manager.get("http_filters", []))

    @property
    def kinds(self) -> list[str]:
        """The types of its HTTP filters, in order."""
        return [kind(each) for each in self.filters]

    @property
    def ext_authz(self) -> Tree:
        """The configuration of the filter that asks the gate."""
        return next(each["typed_config"] for each in self.filters if asks_gate(each))


class Listener(NamedTuple):
    """What Envoy has under one name."""

    name: str
    active: Tree | None
    """``None``: no configuration was ever accepted."""
    error: str
    """Why Envoy did not take the last one that it was sent; empty if it did."""
    address: tuple[str, int] = ("", 0)
    """Host and port; ``("", 0)`` for a unix socket."""


class Dump(NamedTuple):
    """The parts of a config dump."""

    listeners: list[Listener]
    clusters: dict[str, Tree]
    refused: dict[str, str]
    """Clusters that Envoy did not take, and why."""
    route_configs: dict[str, Tree]
    awaited: tuple[str, ...] = ()
    """Secrets that Envoy waits for by SDS."""

    def listening(self, page: Tree) -> Dump:
        """The same with the addresses of ``/listeners?format=json``, which has those that the system chose."""
        at = {each.get("name"): _address(each.get("local_address")) for each in page.get("listener_statuses", [])}
        return self._replace(
            listeners=[each._replace(address=at.get(each.name, each.address)) for each in self.listeners]
        )

    def chains(self) -> list[Chain]:
        """Every filter chain in force that asks the gate."""
        return [chain for each in self.listeners for chain in self._chains(each)]

    def _chains(self, listener: Listener) -> Iterator[Chain]:
        for chain in (listener.active or {}).get("filter_chains", []):
            for each in chain.get("filters", []):
                manager = each.get("typed_config") or {}
                if kind(each) == MANAGER and any(map(asks_gate, manager.get("http_filters", []))):
                    yield Chain(listener.name, chain, manager, self._routes(manager))

    def _routes(self, manager: Tree) -> list[Tree]:
        named = (manager.get("rds") or {}).get("route_config_name", "")
        config = manager.get("route_config") or self.route_configs.get(named) or {}
        return [route for host in config.get("virtual_hosts", []) for route in host.get("routes", [])]


def parse(tree: Tree) -> Dump:
    """Read it.

    Raises:
        NoDumpError: it is something else.
    """
    try:
        return _parsed(tree)
    except (KeyError, TypeError, AttributeError) as error:
        raise NoDumpError(f"it is not of the form of envoy.admin.v3.ConfigDump ({error!r}); save it anew") from error


def _parsed(tree: Tree) -> Dump:
    configs = tree.get("configs") if isinstance(tree, dict) else None
    if not isinstance(configs, list) or not all(isinstance(each, dict) for each in configs):
        raise NoDumpError("it has no list `configs`; save the whole answer of Envoy's /config_dump?include_eds")
    found = {each.get("@type", "").rpartition(".")[2]: each for each in configs}
    if "ListenersConfigDump" not in found:
        raise NoDumpError("it has no ListenersConfigDump; ask /config_dump?include_eds, without `resource` or `mask`")
    clusters = found.get("ClustersConfigDump", {})
    routes = found.get("RoutesConfigDump", {})
    several = [*clusters.get("dynamic_active_clusters", []), *clusters.get("dynamic_warming_clusters", [])]
    return Dump(
        list(_listeners(found["ListenersConfigDump"])),
        _named(clusters.get("static_clusters", []) + clusters.get("dynamic_active_clusters", []), "cluster"),
        {_failed(each): _why(each) for each in several if _why(each)},
        _named(routes.get("static_route_configs", []) + routes.get("dynamic_route_configs", []), "route_config"),
        tuple(_awaited(found.get("SecretsConfigDump", {}))),
    )


def kind(filter_: Tree) -> str:
    """The type of a filter without its package's beginning: ``ext_authz.v3.ExtAuthz``; ``HttpConnectionManager``."""
    url = (filter_.get("typed_config") or {}).get("@type") or filter_.get("name", "")
    return MANAGER if url.endswith(f".{MANAGER}") else ".".join(url.rpartition("/")[2].split(".")[-3:])


def asks_gate(filter_: Tree) -> bool:
    """Whether it is ext_authz and asks the gate's cluster."""
    return kind(filter_) == EXT_AUTHZ and _cluster(filter_) == GATE


def lowers(filter_: Tree) -> bool:
    """Whether it is ext_proc and asks the gate's cluster, for mode Clamp."""
    return kind(filter_) == EXT_PROC and _cluster(filter_) == GATE


def _cluster(filter_: Tree) -> str | None:
    service = filter_["typed_config"].get("grpc_service") or {}
    cluster: str | None = (service.get("envoy_grpc") or {}).get("cluster_name")
    return cluster


def stops_undecided(filter_: Tree) -> bool:
    """Whether it is our filter that stops requests without a decision id, not another rbac."""
    return kind(filter_) == RBAC and "'decision_id'" in str(filter_)


def seconds(text: str | None) -> float | None:
    """Seconds of a duration in protobuf's JSON, as in ``2s`` and ``0.200s``; ``None``: there is none."""
    return None if text is None else float(text.removesuffix("s"))


def _listeners(dump: Tree) -> Iterator[Listener]:
    for each in dump.get("static_listeners", []):
        active = each["listener"]
        yield Listener(active.get("name", ""), active, _why(each), _address(active.get("address")))
    for each in dump.get("dynamic_listeners", []):
        active = (each.get("active_state") or {}).get("listener")
        yield Listener(each.get("name", ""), active, _why(each), _address((active or {}).get("address")))


def _awaited(dump: Tree) -> Iterator[str]:
    """A listener keeps its secrets while it is drained, so a name may be there twice, and nobody knows for whom."""
    there = {each.get("name", "") for each in dump.get("dynamic_active_secrets", [])}
    yield from (each["name"] for each in dump.get("dynamic_warming_secrets", []) if each.get("name", "") not in there)


def _address(tree: Tree | None) -> tuple[str, int]:
    socket = (tree or {}).get("socket_address") or {}
    return socket.get("address", ""), int(socket.get("port_value", 0))


def _named(states: Iterable[Tree], what: str) -> dict[str, Tree]:
    return {each[what].get("name", ""): each[what] for each in states if what in each}


def _failed(state: Tree) -> str:
    failed = (state.get("error_state") or {}).get("failed_configuration") or state.get("cluster") or {}
    return str(failed.get("name", "?"))


def _why(state: Tree) -> str:
    error = state.get("error_state")
    return str(error.get("details") or "no reason given") if error else ""
