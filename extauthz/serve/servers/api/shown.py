"""The JSON of the API: amounts as Kubernetes quantities, names as Kubernetes has them.

``docs/api.md`` explains the fields. ``openapi.yaml`` has their schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from extauthz.core import quantities
from extauthz.core.model import Amounts, Decision, Shortage, WorkloadRef

if TYPE_CHECKING:
    from extauthz.core.ledger.entry import PendingWrite
    from extauthz.core.ledger.line import Seen
    from extauthz.core.queries import Headroom, QuotaUse, WorkloadUse

Json: TypeAlias = dict[str, Any]


def quota(use: QuotaUse) -> Json:
    """One quota with its place in the tree."""
    spec = use.node.quota
    return {
        "name": spec.name,
        "path": list(use.node.path),
        "parent": use.node.parent.quota.name if use.node.parent is not None else None,
        "mode": spec.mode.value,
        "resources": {
            row.resource: {
                "used": quantities.format(row.used, row.resource),
                "reserved": quantities.format(row.reserved, row.resource),
                "hard": quantities.format(row.hard, row.resource),
                "kept": quantities.format(row.kept, row.resource),
                "guaranteed": quantities.format(row.guaranteed, row.resource),
                "over": row.used + row.reserved > row.hard,
            }
            for row in use.rows
        },
        "override": now.told(ends=True) if (now := use.node.override) is not None else None,
        "nextOverride": then.told(ends=False) if (then := use.node.next_override) is not None else None,
        "workloads": use.workloads,
        "unpricedWorkloads": use.unpriced,
        "selectsNamespace": use.selects_namespace,
        "readable": not spec.illegible,
        "waiting": use.waiting,
    }


def override(one: Json) -> str:
    """Which override of a quota is in force, or begins next; empty: neither."""
    now, then = one["override"], one["nextOverride"]
    if now:
        return f"override {now['name']} is in force until {now['until']}{_because(now)}"
    return f"override {then['name']} begins at {then['from']}{_because(then)}" if then else ""


def _because(told: Json) -> str:
    return f" ({told['reason']})" if told["reason"] else ""


def place(seen: Seen, quota: str) -> Json:
    """One that waits in line for a quota, or for one below it."""
    return named(seen.ref) | {
        "place": seen.place,
        "waitsSeconds": round(seen.waits_s),
        "replicas": seen.replicas,
        "needs": amounts(seen.needs.get(quota, {})),
        "asksEverySeconds": round(seen.again_s),
    }


def turn(decided: Decision) -> Json | None:
    """Whose turn it is not; ``None``: that is not why."""
    found = decided.evidence.turn
    if found is None:
        return None
    return {"quota": found.quota, "place": found.place, "againSeconds": round(found.again_s)}


def workload(use: WorkloadUse) -> Json:
    """What one workload uses, with all that it covers."""
    return named(use.ref) | {
        "replicas": use.replicas,
        "used": amounts(use.used),
        "reserved": amounts(use.reserved),
        "priced": use.is_priced,
    }


REPLICAS, PARALLELISM, OBJECTS = "replicas", "parallelism", "objects"
"""What a headroom counts: of a Job pods at once; of what has no scale, whole objects like it."""


def headroom(ref: WorkloadRef, found: Headroom, counts: str = REPLICAS, asks: int | None = None) -> Json:
    """How many replicas a workload may have, and what stands in the way of one more.

    Args:
        counts: what ``replicas`` are.
        asks: the most that an autoscaler may ask for; ``None``: none is known.
    """
    return (
        named(ref)
        | {
            "counts": counts,
            "replicas": found.replicas,
            "observedReplicas": found.observed,
            "resourceVersion": found.version,
            "bound": shortage(found.bound) if found.bound is not None else None,
            "guaranteedReplicas": found.guaranteed,
            "mayAskFor": asks,
            "certain": found.is_certain,
            "auditReplicas": found.audited,
            "auditBound": shortage(found.audits) if found.audits is not None else None,
        }
        | _one_more(found.refused if counts != OBJECTS else None)
    )


def _one_more(refused: Decision | None) -> Json:
    """Why one replica more would be refused; ``None``: it would not be."""
    if refused is None:
        return {"reason": None, "sentence": None, "turn": None, "policies": [], "unspecified": []}
    whole = decision(refused)
    return {field: whole[field] for field in ("reason", "sentence", "turn", "policies", "unspecified")}


def has(found: Json) -> str:
    """``has 2 replicas``, of a headroom."""
    count, counts = found["observedReplicas"], found["counts"]
    if counts == OBJECTS:
        return "is one object" if count else "is not there"
    number = f"{count:,} {'pod' if counts == PARALLELISM else 'replica'}{'' if count == 1 else 's'}"
    return f"runs up to {number} at once" if counts == PARALLELISM else f"has {number}"


def may(found: Json) -> str:
    """``may have 4``, of a headroom with a bound."""
    most, counts = found["replicas"], found["counts"]
    if counts == OBJECTS:
        more = most - found["observedReplicas"]
        return f"{more:,} more like it fit{'' if more > 1 else 's'}" if more > 0 else "no more like it fits"
    return f"may {'run' if counts == PARALLELISM else 'have'} {most:,}"


def one_more(found: Json) -> str:
    """``One more replica does not fit``, of a headroom; where some more do fit: ``5 replicas do not fit``."""
    counts = found["counts"]
    if counts == OBJECTS:
        return "One more does not fit"
    noun = "pod" if counts == PARALLELISM else "replica"
    most = found["replicas"]
    return f"{most + 1:,} {noun}s do not fit" if most > found["observedReplicas"] else f"One more {noun} does not fit"


def pending(ref: WorkloadRef, write: PendingWrite, now_s: float) -> Json:
    """A write that was allowed and may still land."""
    return named(ref) | {
        "id": write.id,
        "replicas": write.replicas,
        "changesTemplate": write.touches,
        "state": write.state.value,
        "secondsLeft": max(0, round(write.expires_s - now_s)),
    }


def decision(decided: Decision) -> Json:
    """A decision. ``docs/check.md`` explains it: ``extauthz check -o json`` prints the same."""
    ref = decided.ref
    return {
        "verdict": decided.verdict.value,
        "reason": decided.reason,
        "refusal": refusal(decided),
        "sentence": decided.sentence,
        "workload": None if ref is None else ref._asdict(),
        "operation": None if decided.operation is None else decided.operation.value,
        "scale": decided.scale,
        "dryRun": decided.dry_run,
        "replicas": {"from": decided.replicas_before, "to": decided.replicas},
        "fits": decided.evidence.fits,
        "shortages": [exact(row) for row in decided.evidence.shortages],
        "audit": [exact(row) for row in decided.evidence.audit],
        "unspecified": [row._asdict() for row in decided.evidence.unspecified],
        "policies": policies(decided),
        "turn": turn(decided),
    }


def refusing(decided: Decision) -> set[str]:
    """The quotas that its sentence may tell of."""
    by_quota = {row.quota for row in decided.evidence.shortages} | {row.quota for row in decided.evidence.unspecified}
    return by_quota | ({found.quota} if (found := decided.evidence.turn) is not None else set())


def policies(decided: Decision) -> list[Json]:
    """What policies have against it."""
    return [
        {
            "policy": row.policy,
            "step": row.step,
            "result": row.result,
            "message": row.message,
            "audits": row.audits,
            "replicas": row.replicas,
            "againSeconds": row.again_s,
        }
        for row in decided.evidence.policies
    ]


def refusal(decided: Decision) -> str | None:
    """Why it is refused, in one of the words of ``docs/status.md``."""
    return decided.refusal.value if decided.refusal is not None else None


AMOUNTS = ("requested", "used", "reserved", "kept", "hard")
"""Of a shortage."""


def exact(row: Shortage) -> Json:
    """A shortage with each amount as text and, exactly, as an integer of nano-units."""

    def both(nanos: int) -> Json:
        return {"text": quantities.format(nanos, row.resource), "nanos": nanos}

    found = {name: both(getattr(row, name)) for name in AMOUNTS}
    return {"quota": row.quota, "path": list(row.path), "resource": row.resource, **found}


def shortage(row: Shortage) -> Json:
    """A shortage with amounts as text."""
    found = {name: quantities.format(getattr(row, name), row.resource) for name in AMOUNTS}
    return {"quota": row.quota, "path": list(row.path), "resource": row.resource, **found}


def named(ref: WorkloadRef) -> Json:
    """A workload as the paths of the API name it."""
    return {"namespace": ref.namespace, "resource": ref.group_resource, "name": ref.name}


def amounts(found: Amounts) -> Mapping[str, str]:
    """Quota key to quantity."""
    return {key: quantities.format(nanos, key) for key, nanos in sorted(found.items())}


def page(kind: str, items: Iterable[Json], after: str | None) -> Json:
    """A part of a list, and where the next part begins; ``None``: it was the last."""
    return {"kind": kind, "items": list(items), "continue": after}
