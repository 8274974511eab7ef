"""Who Envoy talks to and how: the client over TLS, the API server over TLS again, the gate over gRPC."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import timedelta

import betterproto2
from envoy_data_plane.envoy.config.cluster import v3 as cluster
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.endpoint import v3 as endpoint
from envoy_data_plane.envoy.extensions.transport_sockets.tls import v3 as tls
from envoy_data_plane.envoy.extensions.upstreams.http import v3 as upstream
from envoy_data_plane.envoy.type.matcher import v3 as matcher
from envoy_data_plane.google.protobuf import Any

from . import bounds, failover, secrets
from .options import APISERVER_CA, GATE_CA, GATE_CLIENT, SERVING, Endpoint, SidecarOptions

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
            initial_stream_window_size=bounds.WINDOW_BYTES,
            initial_connection_window_size=bounds.WINDOW_BYTES,
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
        tls_params=_tls_params(),
        alpn_protocols=["h2", "http/1.1"],
        **secrets.shown(SERVING, options),
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
    rendered = _cluster(GATE, failover.gates(options), protocol, socket)
    rendered.connect_timeout = failover.connect_timeout(options)
    rendered.circuit_breakers = cluster.CircuitBreakers(
        # Envoy's default of three at a time would turn away all others when a gate goes.
        thresholds=[cluster.CircuitBreakersThresholds(max_retries=_NO_LIMIT)]
    )
    failover.look_after(rendered, options)
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
        per_connection_buffer_limit_bytes=bounds.BUFFER_BYTES,
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
