"""Numbers of a gate that no installation has a reason to change. Tests and simulated worlds run gates with others."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """Each with the reason for it. Times are in seconds."""

    stale_after_s: float = 150.0
    """A watch that is silent for so long has stalled. The API server sends a bookmark about once a minute: this is two
    that are missing, and half a minute more."""
    window_of_admitted_s: float = 70.0
    """How long after its decision an object that the webhook has admitted may still be stored: the API server's request
    timeout (60 s) and a margin. Where ``window-s`` is set, somebody has another timeout: then it is that."""
    recount_every_s: float = 600.0
    """How often all usage is counted from scratch, in small steps beside the work. It costs less than 1 % of a core at
    10,000 workloads, and bounds how long a wrong number stays."""
    grace_s: float = 10.0
    """How long requests may take to finish after SIGTERM: longer than an ext_authz timeout (2 s) and an admission
    timeout, and less than the 30 s that the kubelet waits."""
    quotas_every_s: float = 10.0
    """How often a service is asked for quotas: with an ETag an answer is a header."""
    quotas_timeout_s: float = 5.0
    policy_timeout_s: float = 0.1
    """A plug-in runs on the way of each growth. A later answer is unknown, and who is late three times in a row is not
    asked for ten seconds."""
    certificate_lifetime_s: float = 90 * 86400.0
    """Of a certificate that the gates make for the webhook. Its authority is valid four times as long. Each is renewed
    when two thirds of its time are over."""
    pending_writes: int = 100_000
    """``Policy.max_intents``."""
    pending_writes_per_tree: int = 10_000
    """``Policy.max_intents_per_tree``."""
    pending_writes_per_workload: int = 256
    """``Policy.max_intents_per_workload``."""
    pending_writes_per_source: int = 10_000
    """``Policy.max_intents_per_source``."""
    record_days: float = 90.0
    """How old the files of a record may become: older growth says little of today's. ``record-max-bytes`` ends most
    of them before."""
    metrics_of_quotas: int = 1000
    """How many quotas get series of their own in /metrics: a scrape costs about 150 microseconds a quota."""
    tells_owners: bool = True
    """Used, reserved and conditions go to the status of each WorkspaceQuota of a cluster. A refusal there is told by a
    Kubernetes event, one for each episode."""
