"""Every series of /metrics: name, type, unit, labels, meaning. ``docs/metrics.md`` is rendered from it."""

from __future__ import annotations

from typing import NamedTuple


class Family(NamedTuple):
    """One line of the table of metrics."""

    name: str
    kind: str
    """``counter``, ``gauge`` or ``histogram``."""
    unit: str
    labels: tuple[str, ...]
    help: str


TABLE = (
    Family(
        "extauthz_decisions_total", "counter", "decisions", ("verdict", "reason"),
        "Decided requests, by verdict and by the stable code of the reason.",
    ),
    Family(
        "extauthz_audit_refusals_total", "counter", "decisions", (),
        "Allowed requests that a quota in mode Audit would have refused.",
    ),
    Family(
        "extauthz_would_refuse_total", "counter", "decisions", ("verdict", "reason"),
        "Requests that were allowed because the setting mode is audit, by the answer that they would have had.",
    ),
    Family(
        "extauthz_quota_refusals_total", "counter", "decisions", ("quota", "resource", "refusal"),
        "Refused requests, by what refused, and why: ExceedsHard, WaitingForRoom, Misconfigured.",
    ),
    Family(
        "extauthz_quota_audit_refusals_total", "counter", "decisions", ("quota", "resource"),
        "Allowed requests that this quota would have refused in mode Enforce.",
    ),
    Family(
        "extauthz_policy_answers_total", "counter", "answers", ("policy", "step", "result"),
        "What policies had against growth: refused, unknown, audited (only reported), failed (when told of a grant).",
    ),
    Family(
        "extauthz_policy_level", "gauge", "the policy's own", ("policy", "level", "of"),
        "What a plug-in measures.",
    ),
    Family(
        "extauthz_clamps_total", "counter", "writes", ("quota", "resource"),
        "Lowered counts (mode Clamp), by what had no room; resource replicas of no quota: by the service of max-scale.",
    ),
    Family(
        "extauthz_check_seconds", "histogram", "seconds", (),
        "Time from a received request to its decision, without gRPC's own work.",
    ),
    Family(
        "extauthz_quota_used", "gauge", "cores, bytes or objects", ("quota", "resource"),
        "What the observed workloads of a quota and of its children cost.",
    ),
    Family(
        "extauthz_quota_used_by_kind", "gauge", "devices", ("quota", "resource", "kind"),
        "GPUs and other devices, by kind of owner (jobs.batch); up to 30 s old.",
    ),
    Family(
        "extauthz_quota_reserved", "gauge", "cores, bytes or objects", ("quota", "resource"),
        "What allowed writes that may still land add to used.",
    ),
    Family(
        "extauthz_quota_hard", "gauge", "cores, bytes or objects", ("quota", "resource"),
        "The limit.",
    ),
    Family(
        "extauthz_quota", "gauge", "cores, bytes or objects", ("quota", "resource", "type"),
        "By type: hard, used, reserved; with guarantees also guaranteed, kept. As kube_resourcequota has it.",
    ),
    Family(
        "extauthz_quota_headroom", "gauge", "cores, bytes or objects", ("quota", "resource"),
        "What may still be added, here and in all quotas above. Below zero: over the limit.",
    ),
    Family(
        "extauthz_quota_denied_demand", "gauge", "cores, bytes or objects", ("quota", "resource"),
        "By how much the limit is too low for all that is refused.",
    ),
    Family("extauthz_line_waiting", "gauge", "workloads", ("quota",), "Workloads that wait in line, with turns."),
    Family(
        "extauthz_quota_episodes", "gauge", "workloads", ("quota", "resource", "refusal"),
        "Workloads that this quota refuses and that go on asking.",
    ),
    Family(
        "extauthz_quota_oldest_episode_seconds", "gauge", "seconds", ("quota", "resource", "refusal"),
        "How long the first of them has waited.",
    ),
    Family(
        "extauthz_episodes", "gauge", "workloads", ("refusal",),
        "Workloads that are refused, by whatever limit, and go on asking.",
    ),
    Family("extauthz_quotas", "gauge", "quotas", (), "Quotas in force."),
    Family(
        "extauthz_quotas_failing", "gauge", "quotas", ("condition",),
        "WorkspaceQuotas of which this condition is False.",
    ),
    Family(
        "extauthz_quotas_left_out", "gauge", "quotas", (),
        "Quotas in force without series of their own (more than 1000).",
    ),
    Family("extauthz_intents", "gauge", "intents", (), "Allowed writes that may still land."),
    Family(
        "extauthz_answers_total", "counter", "answers", ("event",),
        "What happened to decided writes: not-forwarded, refused, answered-ok, answered-unclear.",
    ),
    Family(
        "extauthz_access_log_skipped_total", "counter", "entries", ("why",),
        "Entries of Envoy's access log without use: no-message, not-http, no-decision, not-over, no-response.",
    ),
    Family(
        "extauthz_reads_total", "counter", "reads", ("result",),
        "Consistent reads of a workload: ok, unreachable, forbidden, refused, unknown-kind, behind.",
    ),
    Family(
        "extauthz_intents_ended_by_read_total", "counter", "intents", (),
        "Allowed writes that a consistent read ended.",
    ),
    Family(
        "extauthz_ledger_writes_total", "counter", "writes", ("result",),
        "Writes of the ledger that gates share: ok, conflict (another gate was first), unclear, refused, too-large.",
    ),
    Family(
        "extauthz_ledger_grants_total", "counter", "grants", (),
        "Grants that these writes recorded.",
    ),
    Family(
        "extauthz_unreadable_objects_total", "counter", "objects", ("resource",),
        "Objects of the cluster that could not be read.",
    ),
    Family("extauthz_stale", "gauge", "0 or 1", (), "Whether a source is stalled (setting allow-unknown)."),
    Family(
        "extauthz_webhook_reached", "gauge", "0 or 1", (),
        "Whether the API server's webhook reached a gate when this gate last tried (every 15 s).",
    ),
    Family(
        "extauthz_watch_age_seconds", "gauge", "seconds", ("resource",),
        "Time since this watch last sent something.",
    ),
    Family(
        "extauthz_watch_relists_total", "counter", "lists", ("resource",),
        "Lists taken again because a watch could not be resumed.",
    ),
    Family("extauthz_api_calls_total", "counter", "requests", ("verb",), "Requests sent to the API server."),
    Family(
        "extauthz_status_writes_total", "counter", "writes", ("result",),
        "Statuses of WorkspaceQuotas: written, failed, lost.",
    ),
    Family(
        "extauthz_event_writes_total", "counter", "writes", ("result",),
        "Kubernetes events about refused workloads: created, updated, failed.",
    ),
    Family(
        "extauthz_source_requests_total", "counter", "requests", ("source", "result"),
        "Requests to services over HTTP: ok, not-modified, unreachable, timeout, unauthorized, refused, malformed, "
        "too-large, credentials, circuit-open, busy.",
    ),
    Family(
        "extauthz_recounts_total", "counter", "recounts", ("result",),
        "Recounts of all usage: exact, drifted (and repaired), overtaken (by another count).",
    ),
    Family(
        "extauthz_drift", "gauge", "numbers", (),
        "Numbers that the last recount found wrong.",
    ),
    Family("extauthz_drift_repaired_total", "counter", "numbers", (), "Wrong numbers that recounts have repaired."),
    Family(
        "extauthz_certificate_ends_in_seconds", "gauge", "seconds", ("use",),
        "Time until a certificate that the gate shows ends: grpc, webhook, api, webhook-authority.",
    ),
    Family(
        "extauthz_notices_total", "counter", "notices", ("receiver", "result"),
        "Notices: delivered; retried; dropped as refused, expired, overflow, unsent or failed.",
    ),
    Family("extauthz_workloads", "gauge", "workloads", (), "Workloads that the gate knows."),
    Family(
        "extauthz_reload_total", "counter", "reloads", ("source", "result"),
        "Changes of a source (quotas, state) by result: ok, refused.",
    ),
    Family(
        "extauthz_source_last_good_timestamp_seconds", "gauge", "seconds since 1970", ("source",),
        "When what is in force was read.",
    ),
    Family("extauthz_ready", "gauge", "0 or 1", (), "Whether /readyz says ready."),
    Family(
        "extauthz_log_dropped_total", "counter", "lines", (),
        "Log lines dropped because their reader was too slow.",
    ),
    Family(
        "extauthz_record_dropped_total", "counter", "lines", (),
        "Dropped lines of the record.",
    ),
)  # fmt: skip

BY_NAME = {family.name: family for family in TABLE}
