"""What clients can hold of Envoy: connections, streams, bytes, and memory in all.

Envoy's defaults suit a mesh whose clients are trusted: 256 MiB for each HTTP/2 stream, an hour for each idle connection
(https://www.envoyproxy.io/docs/envoy/latest/configuration/best_practices/edge).
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.listener import v3 as listener
from envoy_data_plane.envoy.config.overload import v3 as overload
from envoy_data_plane.envoy.extensions.filters.network.connection_limit import v3 as connection_limit_filter
from envoy_data_plane.envoy.extensions.resource_monitors.downstream_connections import v3 as connections
from envoy_data_plane.envoy.extensions.resource_monitors.fixed_heap import v3 as fixed_heap
from envoy_data_plane.google.protobuf import Any

CONNECTIONS: Final = 1_000
"""Of clients. Each takes some 60 KiB."""

STREAMS: Final = 100
"""Of one HTTP/2 connection, as the API server has it (``k8s.io/apiserver/pkg/server/secure_serving.go``). Go's client
opens another connection for more."""

BUFFER_BYTES: Final = 64 * 1024
"""Of a stream and of a connection, before the client has to wait."""

WINDOW_BYTES: Final = 1024 * 1024
"""Of an HTTP/2 connection."""

HANDSHAKE_S: Final = 5.0

HEAD_S: Final = 5.0
"""For the head of a request, from its first byte."""

IDLE_S: Final = 120.0
"""Of a connection without requests. client-go ends one after 90 s (``k8s.io/client-go/transport/cache.go``), and should
be first."""

FLUSH_S: Final = 10.0
"""For a client to take something more of an answer that is complete."""

HEAP_BYTES: Final = 192 * 1024 * 1024
"""What Envoy's own allocator may hold. The chart's memory limit is a third more."""

_HEAP = "envoy.resource_monitors.fixed_heap"
_CONNECTIONS = "envoy.resource_monitors.global_downstream_max_connections"

_STEPS: Final = (
    ("envoy.overload_actions.shrink_heap", 0.85),
    ("envoy.overload_actions.disable_http_keepalive", 0.90),
    ("envoy.overload_actions.stop_accepting_connections", 0.95),
    ("envoy.overload_actions.stop_accepting_requests", 0.98),
)
"""What is done from which share of the heap on."""


def downstream_http2() -> core.Http2ProtocolOptions:
    """Of clients."""
    return core.Http2ProtocolOptions(
        max_concurrent_streams=STREAMS,
        initial_stream_window_size=BUFFER_BYTES,
        initial_connection_window_size=WINDOW_BYTES,
    )


def connection_limit() -> listener.Filter:
    """Of one filter chain, where other chains of the same Envoy are others'."""
    limit = connection_limit_filter.ConnectionLimit(stat_prefix="apiserver", max_connections=CONNECTIONS)
    return listener.Filter(name="envoy.filters.network.connection_limit", typed_config=Any.pack(limit))


def overload_manager() -> overload.OverloadManager:
    """Of a whole Envoy: less is taken before its memory is used up."""
    heap = fixed_heap.FixedHeapConfig(max_heap_size_bytes=HEAP_BYTES)
    most = connections.DownstreamConnectionsConfig(max_active_downstream_connections=CONNECTIONS)
    return overload.OverloadManager(
        refresh_interval=timedelta(seconds=0.25),
        resource_monitors=[
            overload.ResourceMonitor(name=_HEAP, typed_config=Any.pack(heap)),
            overload.ResourceMonitor(name=_CONNECTIONS, typed_config=Any.pack(most)),
        ],
        actions=[overload.OverloadAction(name=name, triggers=[_above(share)]) for name, share in _STEPS],
    )


def _above(share: float) -> overload.Trigger:
    return overload.Trigger(name=_HEAP, threshold=overload.ThresholdTrigger(value=share))
