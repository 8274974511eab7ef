"""Who Envoy talks to and how: the client over TLS, the API server over TLS again, the gate over gRPC."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import timedelta

import betterproto2
from envoy_data_plane.envoy.config.cluster import v3 as cluster
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.endpoint import v3 as endpoint
from envoy_data_plane.envoy.extensions.retry.priority.previous_priorities import v3 as previous_priorities
from envoy_data_plane.envoy.extensions.transport_sockets.tls import v3 as tls
from envoy_data_plane.envoy.extensions.upstreams.http import v3 as upstream
from envoy_data_plane.envoy.type.matcher import v3 as matcher
from envoy_data_plane.google.protobuf import Any

from . import routes, secrets
from .options import APISERVER_CA, GATE_CA, GATE_CLIENT, SERVING, Endpoint, SidecarOptions

# Which of several gates Envoy asks: the first as long as it is well, the next ones in their order while it is not.
#
# Envoy's priority levels
# (https://www.envoyproxy.io/docs/envoy/v1.40.0/intro/arch_overview/upstream/load_balancing/priority), an address a
# level.
# Zones by name would take a ``local_cluster_name`` and the zone of each Envoy; an order needs neither.


AUTHORIZATION = "envoy.service.auth.v3.Authorization"
"""The name under which a gate tells its health: anything else that answers on its port is no gate."""

CHECK_EVERY_S, CHECK_WITHIN_S = 1.0, 2.0
MISSES = 1
"""A gate that stops says so and is left after a second, one that is silent after three. To leave one too early costs
nothing: another decides from the same ledger."""

BACKOFF_S = 0.025
"""Envoy's default for its own calls is 1 s, half of what a decision may take."""

UNDECIDED = "connect-failure,refused-stream,cancelled"
"""No connection came about; the gate's end of it says that it did not look at the request (RFC 9113 §8.7); and what
gRPC says to a Check that comes while its server stops. One that is being decided then may finish (``grace-s``)."""


def gates(options: SidecarOptions) -> tuple[Endpoint, ...]:
    """All, the preferred one first."""
    return (options.gate, *options.failover_gates)


def connect_timeout(options: SidecarOptions) -> timedelta:
    """Half of the time that a decision may take: then there is time to ask another gate."""
    return timedelta(seconds=options.gate_timeout_s / 2)


def retry_policy(options: SidecarOptions) -> core.RetryPolicy:
    """Ask again only what no gate has decided: each request is decided once (design.md rule 3).

    A Check is not repeated if it was sent to a gate that then died. For most writes a second grant would add nothing.
    But a create with ``generateName`` would take its room twice for a landing window.
    """
    others = len(options.failover_gates)
    # Envoy takes the longest pause between two tries for what a single try may take, too: ten times the shortest
    # unless told (``Utility::convertCoreToRouteRetryPolicy``). A decision may take all of its time in the first try.
    longest = timedelta(seconds=options.gate_timeout_s)
    soon = core.BackoffStrategy(base_interval=timedelta(seconds=BACKOFF_S), max_interval=longest)
    policy = core.RetryPolicy(num_retries=max(others, 1), retry_on=UNDECIDED, retry_back_off=soon)
    if others:
        another = previous_priorities.PreviousPrioritiesConfig(update_frequency=1)
        policy.retry_priority = core.RetryPolicyRetryPriority(
            name="envoy.retry_priorities.previous_priorities", typed_config=Any.pack(another)
        )
    return policy


def look_after(gate: cluster.Cluster, options: SidecarOptions) -> None:
    """Have Envoy ask each gate for its health, where there is another to turn to."""
    if not options.failover_gates:
        return
    every = timedelta(seconds=CHECK_EVERY_S)
    check = core.HealthCheck(
        timeout=timedelta(seconds=CHECK_WITHIN_S),
        interval=every,
        # Envoy's default is a minute as long as nothing was asked.
        no_traffic_interval=every,
        unhealthy_threshold=MISSES,
        healthy_threshold=1,
        # gRPC servers insist on ALPN, and health checks come without unless told.
        tls_options=core.HealthCheckTlsOptions(alpn_protocols=["h2"]),
        grpc_health_check=core.HealthCheckGrpcHealthCheck(service_name=AUTHORIZATION),
    )
    gate.health_checks = [check]


APISERVER, APISERVER_UPGRADE, GATE = "apiserver", "apiserver-upgrade", "extauthz"

_HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
_NO_LIMIT = 65536
"""Envoy's default of 1,024 requests at a time would be an outage for a client with more watches than that."""

_KEEPALIVE = core.KeepaliveSettings(interval=timedelta(seconds=30), timeout=timedelta(seconds=15))
"""client-go's own (``k8s.io/apimachinery/pkg/util/net``): its pings now end at Envoy, so Envoy must find out that an
API server died below a silent watch."""

_GATE_KEEPALIVE = core.KeepaliveSettings(interval=timedelta(seconds=5), timeout=timedelta(seconds=5))
"""A connection to a gate whose node is gone is given up within ten seconds; the next leads to one that is there."""


GATE_CONNECTION_S = 300.0
"""A Service chooses a gate only when a connection is made. So connections are replaced from time to time: else one
could stay with a gate in another zone after its own zone has a gate again. Requests that were sent are still answered
on the old connection."""


APISERVER_IDLE_S = 30.0
"""An upstream connection outlives its client, and nobody else uses it. Autoscalers ask again within 15 s."""


def clusters(options: SidecarOptions) -> list[cluster.Cluster]:
    """The API server for ordinary requests and for upgraded ones, and the gate."""
    http1 = upstream.HttpProtocolOptionsExplicitHttpConfig(http_protocol_options=core.Http1ProtocolOptions())
    return [
        _ordinary(options),
        _apiserver(APISERVER_UPGRADE, upstream.HttpProtocolOptions(explicit_http_config=http1), options),
        _gate(options),
    ]


def _ordinary(options: SidecarOptions) -> cluster.Cluster:
    """With upstream connections for each client of Envoy's.

    An API server leaves a connection on which somebody asked whom it does not know: GOAWAY, since Kubernetes 1.28
    (``UnauthenticatedHTTP2DOSMitigation``). On a shared one, strangers took a quarter of all other requests with them.
    """
    either = upstream.HttpProtocolOptionsAutoHttpConfig(
        http2_protocol_options=core.Http2ProtocolOptions(
            connection_keepalive=_KEEPALIVE,
            initial_stream_window_size=routes.WINDOW_BYTES,
            initial_connection_window_size=routes.WINDOW_BYTES,
        )
    )
    idle = core.HttpProtocolOptions(idle_timeout=timedelta(seconds=APISERVER_IDLE_S))
    protocol = upstream.HttpProtocolOptions(auto_config=either, common_http_protocol_options=idle)
    rendered = _apiserver(APISERVER, protocol, options)
    rendered.connection_pool_per_downstream_connection = True
    return rendered


def address(where: Endpoint) -> core.Address:
    """A socket address, or a unix socket's path. ``::`` takes IPv4 too."""
    if where.path is not None:
        return core.Address(pipe=core.Pipe(path=where.path))
    socket = core.SocketAddress(address=where.host, port_value=where.port)
    if where.host == "::":
        socket.ipv4_compat = True
    return core.Address(socket_address=socket)


def downstream_tls(options: SidecarOptions) -> core.TransportSocket:
    """What clients see. Their certificates could not be passed on, so none is asked for: they come with tokens."""
    common = tls.CommonTlsContext(
        tls_params=_tls_params(), alpn_protocols=["h2", "http/1.1"], **secrets.shown(SERVING, options)
    )
    return _tls_socket(tls.DownstreamTlsContext(common_tls_context=common))


def _apiserver(name: str, protocol: upstream.HttpProtocolOptions, options: SidecarOptions) -> cluster.Cluster:
    socket = _upstream_tls(options.apiserver_name, APISERVER_CA, None, options)
    rendered = _cluster(name, [options.apiserver], protocol, socket)
    rendered.circuit_breakers = cluster.CircuitBreakers(
        thresholds=[
            cluster.CircuitBreakersThresholds(
                max_connections=_NO_LIMIT, max_pending_requests=_NO_LIMIT, max_requests=_NO_LIMIT
            )
        ]
    )
    return rendered


def _gate(options: SidecarOptions) -> cluster.Cluster:
    http2 = upstream.HttpProtocolOptionsExplicitHttpConfig(
        http2_protocol_options=core.Http2ProtocolOptions(connection_keepalive=_GATE_KEEPALIVE)
    )
    socket = None
    if options.gate_tls is not None:
        certificate = GATE_CLIENT if options.gate_tls.cert_file is not None else None
        socket = _upstream_tls(options.gate_tls.server_name, GATE_CA, certificate, options)
    bounded = core.HttpProtocolOptions(max_connection_duration=timedelta(seconds=GATE_CONNECTION_S))
    protocol = upstream.HttpProtocolOptions(explicit_http_config=http2, common_http_protocol_options=bounded)
    rendered = _cluster(GATE, gates(options), protocol, socket)
    rendered.connect_timeout = connect_timeout(options)
    rendered.circuit_breakers = cluster.CircuitBreakers(
        # Envoy's default of three at a time would turn away all others when a gate goes.
        thresholds=[cluster.CircuitBreakersThresholds(max_retries=_NO_LIMIT)]
    )
    look_after(rendered, options)
    return rendered


def _cluster(
    name: str, places: Sequence[Endpoint], protocol: upstream.HttpProtocolOptions, socket: core.TransportSocket | None
) -> cluster.Cluster:
    """One whose places are asked in this order: the first is the highest of Envoy's priorities."""
    return cluster.Cluster(
        name=name,
        type=_discovery(places),
        dns_lookup_family=cluster.ClusterDnsLookupFamily.ALL,
        connect_timeout=timedelta(seconds=5),
        per_connection_buffer_limit_bytes=routes.BUFFER_BYTES,
        load_assignment=endpoint.ClusterLoadAssignment(
            cluster_name=name, endpoints=[_locality(priority, where) for priority, where in enumerate(places)]
        ),
        typed_extension_protocol_options={_HTTP_OPTIONS: Any.pack(protocol)},
        transport_socket=socket,
    )


def _locality(priority: int, where: Endpoint) -> endpoint.LocalityLbEndpoints:
    target = endpoint.LbEndpoint(endpoint=endpoint.Endpoint(address=address(where)))
    return endpoint.LocalityLbEndpoints(priority=priority, lb_endpoints=[target])


def _discovery(places: Sequence[Endpoint]) -> cluster.ClusterDiscoveryType:
    if all(where.path is not None or is_ip(where.host) for where in places):
        return cluster.ClusterDiscoveryType.STATIC
    return cluster.ClusterDiscoveryType.STRICT_DNS


def is_ip(host: str) -> bool:
    """An address, and no name that Envoy must look up."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _upstream_tls(
    server_name: str, authority: str, certificate: str | None, options: SidecarOptions
) -> core.TransportSocket:
    """Verifies chain and name. Without the name any certificate of the same CA would do."""
    by_ip = is_ip(server_name)
    kinds = tls.SubjectAltNameMatcherSanType
    san = tls.SubjectAltNameMatcher(
        san_type=kinds.IP_ADDRESS if by_ip else kinds.DNS, matcher=matcher.StringMatcher(exact=server_name)
    )
    common = tls.CommonTlsContext(
        tls_params=_tls_params(),
        **secrets.trusted(authority, san, options),
        **(secrets.shown(certificate, options) if certificate is not None else {}),
    )
    # RFC 6066 §3: an IP address is no server name.
    return _tls_socket(tls.UpstreamTlsContext(common_tls_context=common, sni="" if by_ip else server_name))


def _tls_socket(context: betterproto2.Message) -> core.TransportSocket:
    return core.TransportSocket(name="envoy.transport_sockets.tls", typed_config=Any.pack(context))


def _tls_params() -> tls.TlsParameters:
    protocols = tls.TlsParametersTlsProtocol
    return tls.TlsParameters(
        tls_minimum_protocol_version=protocols.TLSv1_2, tls_maximum_protocol_version=protocols.TLSv1_3
    )
