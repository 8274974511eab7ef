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
        "Requests that were allowed only because the setting mode is audit, by the answer that they would have had.",
    ),
    Family(
        "extauthz_quota_refusals_total", "counter", "decisions", ("quota", "resource", "refusal"),
        "Refused requests, by each quota and resource that refused, and by why: ExceedsHard, WaitingForRoom, "
        "Misconfigured.",
    ),
    Family(
        "extauthz_quota_audit_refusals_total", "counter", "decisions", ("quota", "resource"),
        "Allowed requests that this quota would have refused, were it or the gate not only auditing.",
    ),
    Family(
        "extauthz_policy_answers_total", "counter", "answers", ("policy", "step", "result"),
        "What policies had against growth: refused, unknown (failed, slow or missing), audited (either, and only "
        "reported), failed (when told of a grant).",
    ),
    Family(
        "extauthz_policy_level", "gauge", "the policy's own", ("policy", "level", "of"),
        "What a plug-in measures: its documentation says what, and in which unit.",
    ),
    Family(
        "extauthz_clamps_total", "counter", "writes", ("quota", "resource"),
        "Writes that were asked for with fewer replicas (mode Clamp), by what had no room for all of them.",
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
        "By type: hard, used, reserved; with guarantees also guaranteed, kept, borrowed. As kube_resourcequota has it.",
    ),
    Family(
        "extauthz_quota_headroom", "gauge", "cores, bytes or objects", ("quota", "resource"),
        "What may still be added, here and in all quotas above that refuse growth. Below zero: over the limit.",
    ),
    Family(
        "extauthz_quota_denied_demand", "gauge", "cores, bytes or objects", ("quota", "resource"),
        "By how much the limit would have to be higher for all that workloads ask for and are refused.",
    ),
    Family("extauthz_line_waiting", "gauge", "workloads", ("quota",), "Workloads that wait in line, with turns."),
    Family(
        "extauthz_quota_episodes", "gauge", "workloads", ("quota", "resource", "refusal"),
        "Workloads that are refused by this quota and go on asking, by why.",
    ),
    Family(
        "extauthz_quota_oldest_episode_seconds", "gauge", "seconds", ("quota", "resource", "refusal"),
        "How long the one of them has been refused that has waited longest.",
    ),
    Family(
        "extauthz_episodes", "gauge", "workloads", ("refusal",),
        "Workloads that are refused, by whatever quota or limit, and go on asking.",
    ),
    Family("extauthz_quotas", "gauge", "quotas", (), "Quotas in force."),
    Family(
        "extauthz_quotas_failing", "gauge", "quotas", ("condition",),
        "WorkspaceQuotas whose status has this condition with the status False: Ready, Asked, ModeInForce and so on.",
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
        "Allowed writes that a consistent read ended: after their answer, or after the landing window.",
    ),
    Family(
        "extauthz_ledger_writes_total", "counter", "writes", ("result",),
        "Writes of the ledger that gates share: ok, conflict (another gate was first), unclear, refused, too-large.",
    ),
    Family(
        "extauthz_ledger_grants_total", "counter", "grants", (),
        "Grants that these writes recorded. Grants that arrive together share one write.",
    ),
    Family(
        "extauthz_unreadable_objects_total", "counter", "objects", ("resource",),
        "Objects of the cluster that could not be read, each counted once until it is good again.",
    ),
    Family("extauthz_stale", "gauge", "0 or 1", (), "Whether a source is stalled (setting allow-unknown)."),
    Family(
        "extauthz_watch_age_seconds", "gauge", "seconds", ("resource",),
        "Time since the API server last sent something on this watch, bookmarks included.",
    ),
    Family(
        "extauthz_watch_relists_total", "counter", "lists", ("resource",),
        "Lists taken again because a watch could not be resumed.",
    ),
    Family("extauthz_api_calls_total", "counter", "requests", ("verb",), "Requests sent to the API server."),
    Family(
        "extauthz_status_writes_total", "counter", "writes", ("result",),
        "Statuses written to WorkspaceQuotas: written, failed, lost (the object has gone or has changed).",
    ),
    Family(
        "extauthz_event_writes_total", "counter", "writes", ("result",),
        "Kubernetes events about refused workloads: created, updated, failed.",
    ),
    Family(
        "extauthz_source_requests_total", "counter", "requests", ("source", "result"),
        "Requests to services that are asked over HTTP: ok, not-modified, unreachable, timeout, unauthorized, refused, "
        "malformed, too-large, credentials, circuit-open and busy (not sent).",
    ),
    Family(
        "extauthz_source_answered_timestamp_seconds", "gauge", "seconds since 1970", ("source",),
        "When such a service last gave a good answer.",
    ),
    Family(
        "extauthz_recounts_total", "counter", "recounts", ("result",),
        "Recounts of all usage: exact, drifted (and repaired), overtaken (everything is counted anew anyway, "
        "because quotas or pod costs have changed).",
    ),
    Family(
        "extauthz_drift", "gauge", "numbers", (),
        "Numbers (used, reserved and so on, of each quota and resource) that the last recount found wrong.",
    ),
    Family("extauthz_drift_repaired_total", "counter", "numbers", (), "Wrong numbers that recounts have repaired."),
    Family(
        "extauthz_certificate_ends_in_seconds", "gauge", "seconds", ("use",),
        "Time until a certificate that the gate shows ends: grpc, webhook, api; and webhook-authority, where the gates "
        "make it themselves.",
    ),
    Family(
        "extauthz_notices_total", "counter", "notices", ("receiver", "result"),
        "Notices by what became of them: delivered; retried (an attempt failed, another follows); dropped as refused, "
        "expired, overflow, unsent (the gate stopped) or failed. Receiver -: dropped before it was known whom to tell.",
    ),
    Family("extauthz_workloads", "gauge", "workloads", (), "Workloads that the gate knows."),
    Family(
        "extauthz_reload_total", "counter", "reloads", ("source", "result"),
        "Changes of a source (quotas, state) by result: ok, refused.",
    ),
    Family(
        "extauthz_source_last_good_timestamp_seconds", "gauge", "seconds since 1970", ("source",),
        "When what is in force was read. An old value is normal, unless reloads are refused.",
    ),
    Family("extauthz_ready", "gauge", "0 or 1", (), "Whether /readyz says ready."),
    Family(
        "extauthz_log_dropped_total", "counter", "lines", (),
        "Log lines dropped because their reader was too slow or gone.",
    ),
    Family(
        "extauthz_record_dropped_total", "counter", "lines", (),
        "Lines of the record that were dropped: they leave a gap.",
    ),
)  # fmt: skip

BY_NAME = {family.name: family for family in TABLE}


def markdown() -> str:
    """The table of ``docs/metrics.md``."""
    lines = ["| name | type, unit | labels | meaning |", "| --- | --- | --- | --- |"]
    for family in TABLE:
        labels = ", ".join(f"`{label}`" for label in family.labels) or "–"
        lines.append(f"| `{family.name}` | {family.kind}, {family.unit} | {labels} | {family.help} |")
    return "\n".join(lines) + "\n"
