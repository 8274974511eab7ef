"""Which of several gates Envoy asks: the first as long as it is well, the next ones in their order while it is not.

Envoy's priority levels
(https://www.envoyproxy.io/docs/envoy/v1.40.0/intro/arch_overview/upstream/load_balancing/priority), an address a level.
Zones by name would take a ``local_cluster_name`` and the zone of each Envoy; an order needs neither.
"""

from __future__ import annotations

from datetime import timedelta

from envoy_data_plane.envoy.config.cluster import v3 as cluster
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.extensions.retry.priority.previous_priorities import v3 as previous_priorities
from envoy_data_plane.google.protobuf import Any

from .options import Endpoint, SidecarOptions

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
