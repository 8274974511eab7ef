"""Every reason code of a decision: what it means, who can cure it, and how. ``docs/reasons.md`` is rendered from it."""

from __future__ import annotations

from typing import Final, NamedTuple


class Reason(NamedTuple):
    code: str
    verdict: str
    """``allow``, ``deny`` or ``unavailable``."""
    meaning: str
    who: str
    """Who can do something about it; empty: nothing is wrong."""
    cure: str


OWNER, ADMIN, OPERATOR = "owner", "administrator of the quota", "operator of the gate"

UNREADABLE: Final = Reason(
    "CODE", "unavailable",
    "The gate cannot read the request as the API server does: any code that is not in this list.",
    "whoever sends it",
    "Send the usual form of the write (`kubectl scale`, a merge patch, a PUT). The sentence names the field. Setting "
    "`allow-unknown`.",
)  # fmt: skip

TABLE: Final = (
    Reason("fits", "allow", "It fits every quota.", "", ""),
    Reason("no-growth", "allow", "It raises nothing that a quota limits.", "", ""),
    Reason("no-quota", "allow", "No quota covers the workload or its namespace.", "", ""),
    Reason("zero", "allow", "A target of zero always passes.", "", ""),
    Reason("no-count", "allow", "It leaves the count, the pod template, the labels and the owner as they are.", "", ""),
    Reason("left-to-webhook", "allow", "At Envoy it may change more than a count; the webhook decides it.", "", ""),
    Reason("not-gated", "allow", "At Envoy it may change more than a count; it counts once it is observed.", "", ""),
    Reason("not-bound", "allow", "The quota that has no room does not bind who asks.", "", ""),
    Reason(
        "clamped", "allow", "In answer to a question: a quota in mode Clamp grants a lower count.", ADMIN,
        "Ask for at most the count that the sentence names, or have the limit raised.",
    ),
    Reason(
        "would-refuse", "allow", "A quota in mode Audit would have refused it.", ADMIN,
        "Raise the limit before the mode becomes Clamp or Enforce, or tell the owner.",
    ),
    Reason(
        "exceeded-quota", "deny", "A quota, or one above it, has no room for it.", f"{OWNER}, {ADMIN}",
        "Ask for at most the count that the sentence names, use less elsewhere (`kubectl wsq top`), or have the limit "
        "raised.",
    ),
    Reason(
        "not-its-turn", "deny", "What is left is kept for others who come first (`turns: Share`).", OWNER,
        "Wait: the sentence says how many come first.",
    ),
    Reason(
        "must-specify", "deny", "A container does not say what it needs of a resource that a quota limits.", OWNER,
        "Set the request or limit that the sentence names on each container that it names.",
    ),
    Reason(
        "exceeded-max-scale", "deny", "It is more than the platform's own service allows.", ADMIN,
        "Ask for at most the count that the sentence names, or have that service allow more.",
    ),
    Reason(
        "policy-refused", "deny", "A policy does not let it grow, or not so far.", f"{OWNER}, {ADMIN}",
        "The sentence has the policy's own words.",
    ),
    Reason(
        "policy-not-yet", "deny", "A policy does not let it grow yet.", OWNER, "Wait; the sentence says how long.",
    ),
    Reason(
        "policy-unknown", "unavailable", "A policy fails, is slow or is missing.", OPERATOR,
        "Mend the policy; the log has `policy-failed`. Setting `allow-unknown` (`unknown-policy`).",
    ),
    Reason(
        "illegible-quota", "unavailable", "The spec of a quota that covers it was never good.", ADMIN,
        "`kubectl describe wsq` says what is wrong with it.",
    ),
    Reason(
        "unknown-workload", "unavailable", "The gate has not seen the workload.", OPERATOR,
        "Try again. If it stays so, the gate may not list that kind (`extauthz doctor`). Setting "
        "`allow-unknown`.",
    ),
    Reason(
        "unknown-namespace", "unavailable", "The gate has not seen the namespace.", OPERATOR,
        "Try again. If it stays so, see `/readyz` and `extauthz doctor`.",
    ),
    Reason(
        "unknown-footprint", "unavailable", "What a pod of it costs is not known.", f"{OWNER}, {OPERATOR}",
        "Correct the amounts in its template; of a custom resource declare where its template is "
        "(`pod-groups`). Setting `allow-unknown` (`unknown-footprint`).",
    ),
    Reason(
        "unknown-usage", "unavailable", "What another workload of the quota costs is not known.", ADMIN,
        "The condition `UsageKnown` of the quota says how many. Setting `allow-unknown` (`unknown-footprint`).",
    ),
    Reason(
        "unsynced", "unavailable", "The gate has not read all quotas or objects yet.", OPERATOR,
        "Wait some seconds; `/readyz` says what is missing. Setting `allow-unknown` (`unsynced`).",
    ),
    Reason(
        "stale", "unavailable", "What the gate knows may be out of date.", OPERATOR,
        "`/readyz` and the log line `stale` name the source. Setting `allow-unknown` (`stale`).",
    ),
    Reason(
        "hold", "unavailable", "Writes of before may still land: after an unclean start, or with a new ledger.", OWNER,
        "Wait about 2 minutes (`window-s`); the sentence says how long.",
    ),
    Reason(
        "not-a-count", "unavailable", "At Envoy it may change more than a replica count, which is not decided there.",
        OPERATOR,
        "Send it past Envoy to an API server that asks the webhook, or write `spec.replicas` alone. Setting `objects`.",
    ),
    Reason(
        "move-waits", "unavailable",
        "It would bring a workload to other quotas while a change of its pods or members may still land.", OWNER,
        "Try again; the sentence says when at the latest.",
    ),
    Reason(
        "max-scale-unasked", "unavailable", "The platform's own service has not been asked yet.", OWNER, "Try again.",
    ),
    Reason(
        "max-scale-unknown", "unavailable", "The platform's own service does not answer.", OPERATOR,
        "See that service. Setting `allow-unknown` (`max-scale-unknown`).",
    ),
    Reason(
        "max-scale-stale", "allow", "It does not answer now, and what it said last allows it.", OPERATOR,
        "See that service.",
    ),
    *(
        Reason(
            code, "unavailable", f"Too many writes are under way: {where}.", OWNER,
            "Wait until some have landed, about 2 minutes at most; see who sends so many.",
        )
        for code, where in (
            ("too-many-intents", "of this workload"),
            ("too-many-intents-in-tree", "in this tree of quotas"),
            ("too-many-intents-of-source", "of this client"),
            ("too-many-bytes", "they are too large in all"),
            ("too-many-bytes-in-quota", "they are too large in this quota"),
        )
    ),
    Reason(
        "internal-error", "unavailable", "The gate failed. It is a bug.", OPERATOR,
        "The log has a traceback. Please report it.",
    ),
    UNREADABLE,
)  # fmt: skip
"""The order of the page."""

BY_CODE: Final = {one.code: one for one in TABLE}
