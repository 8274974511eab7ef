"""Which requests pass the filter, as a table of routes. The first that matches counts.

Envoy matches after its path normalization (``normalize_path``: escaped unreserved characters decoded, dot segments
removed; escaped slashes were refused before), and forwards and shows to the gate the very path that it matched. The
patterns see the path without its query. RE2 has no negation, hence the order: exceptions, growth, odd spellings, rest.

A path is *plain* if no segment could be read in two ways. On plain paths growth is found by position. Any other path
goes to the gate, which reads it as the API server does (design.md rule 8).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.listener import v3 as listener
from envoy_data_plane.envoy.config.overload import v3 as overload
from envoy_data_plane.envoy.extensions.filters.network.connection_limit import v3 as connection_limit_filter
from envoy_data_plane.envoy.extensions.resource_monitors.downstream_connections import v3 as connections
from envoy_data_plane.envoy.extensions.resource_monitors.fixed_heap import v3 as fixed_heap
from envoy_data_plane.google.protobuf import Any

from .options import Profile

READ_METHODS = "GET|HEAD|OPTIONS|TRACE|DELETE"
"""These take no room. Any other method, also one in odd capitals or an unknown one, may be a write."""

# Several small patterns: at start Envoy refuses one whose RE2 program is larger than 100, unless its runtime says
# otherwise (re2.max_program_size.error_level). `--mode validate` does not notice.

SEGMENT = r"[\w.:~-]+"
"""Names of Kubernetes objects are of these (``k8s.io/apimachinery/pkg/api/validation/path`` and RFC 1123), and groups,
versions and resources too. In RE2 ``\\w`` is ASCII."""

PLAIN = f"(?:/{SEGMENT})+"
_VERSION = f"/api(?:s/{SEGMENT})?/{SEGMENT}"
_MAYBE_IN = f"(?:/namespaces/{SEGMENT})?"

WORKLOADS = f"(?i){_VERSION}{_MAYBE_IN}/(?:deployments|statefulsets)"
REPLICAS = f"(?i){_VERSION}{_MAYBE_IN}/replica(?:sets|tioncontrollers)"
"""Collections of any group and version."""
WITH_CREATES = "(?:/.*)?"
NAMED = "/.+"
"""What follows the collection: nothing or anything; or at least a name."""
SCALE = f"(?i){_VERSION}{_MAYBE_IN}/{SEGMENT}/{SEGMENT}/scale(?:/.*)?"
"""The scale subresource of any resource of any group, namespaced or not."""
STATUS = f"{_VERSION}/namespaces/{SEGMENT}/{SEGMENT}/{SEGMENT}/status"
"""The API server keeps ``spec`` as it is when it writes status."""
PROXY = f"/api/{SEGMENT}/(?:namespaces/{SEGMENT}/(?:pods|services)|nodes)/(?:{SEGMENT}|%3[Aa])+/proxy(?:/.*)?"
"""Below this the path belongs to a pod, service or node; ``%3A`` parts scheme, name and port."""
STREAM = f"/api/{SEGMENT}/namespaces/{SEGMENT}/pods/{SEGMENT}/(?:exec|attach|portforward)"
"""What kubectl upgrades, by GET (websocket) or POST (SPDY). Behind a proxy an upgrade could ask the API server for
anything, two hops on."""
ODD = r".*[^\w.:~/-].*|.*//.*|.+/"
"""Not plain: an unusual character or an escape left over, an empty segment, a slash at the end."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the table. ``None`` stands for any method or any path."""

    name: str
    checked: bool
    """Passes the filter."""
    path: str | None
    methods: str | None = None
    prefix: str | None = None
    """Beside ``path``: what the path begins with, letter by letter."""
    upgrades: bool = False
    """Is for requests that become a connection of another protocol, and for these alone."""


BELOW: dict[Profile, str | None] = {Profile.WRITES: WITH_CREATES, Profile.AUTOSCALER: NAMED, Profile.SCALE: None}
"""Which writes to the workloads themselves are looked at, beside scale. ``None``: none."""


def rules(profile: Profile, exempt_namespaces: tuple[str, ...]) -> Iterator[Rule]:
    """The table, in order."""
    yield Rule("stream", checked=False, path=STREAM, methods="GET|POST", upgrades=True)
    yield Rule("read", checked=False, path=None, methods=READ_METHODS)
    for namespace in exempt_namespaces:
        for version in ("/apis/apps/v1", "/api/v1"):
            exempt = f"{version}/namespaces/{namespace}/"
            yield Rule(f"exempt-{namespace}", checked=False, path=PLAIN, prefix=exempt)
    yield Rule("status", checked=False, path=STATUS)
    yield Rule("proxied", checked=False, path=PROXY)
    yield Rule("scale", checked=True, path=SCALE)
    below = BELOW[profile]
    if below is not None:
        yield Rule("workload", checked=True, path=WORKLOADS + below)
        yield Rule("replica", checked=True, path=REPLICAS + below)
    yield Rule("odd-path", checked=True, path=ODD)
    yield Rule("other-write", checked=False, path=None)


# What clients can hold of Envoy: connections, streams, bytes, and memory in all.
#
# Envoy's defaults suit a mesh whose clients are trusted: 256 MiB for each HTTP/2 stream, an hour for each idle
# connection
# (https://www.envoyproxy.io/docs/envoy/latest/configuration/best_practices/edge).


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
