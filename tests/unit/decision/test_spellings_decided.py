"""Rule 8, end to end: with every quota exactly full, no spelling that a real API server took for growth is allowed.

And rule 2 beside it: what the server took for no growth is not denied for quota. The spellings and what the server made
of them are those of tests/unit/intake/test_spellings.py.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from extauthz.core import footprint
from extauthz.core.decision.gate import Gate
from extauthz.core.intake.counts import read
from extauthz.core.model import Decision, Verdict
from extauthz.core.quota.selectors import LabelSelector
from extauthz.core.quota.spec import WorkspaceQuota
from extauthz.core.quota.tree import QuotaTree
from extauthz.testing import snapshot
from tests.controlplane.judging import as_a_door_hands_it_over, packed_body

DATA = Path(__file__).parents[2] / "data"
ROWS: dict[str, Any] = {row["id"]: row for row in map(json.loads, (DATA / "spellings.jsonl").read_text().splitlines())}
BEFORE: dict[str, Any] = json.loads((DATA / "spellings-before.json").read_text())
BUILT_IN = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController")
NAMESPACES = {tree["metadata"]["namespace"]: {} for tree in BEFORE.values()}
KEYS = (
    "requests.cpu", "limits.cpu", "requests.memory", "limits.memory", "pods", "requests.storage",
    "requests.nvidia.com/gpu", "count/deployments.apps", "count/statefulsets.apps", "count/replicationcontrollers",
    "requests.ephemeral-storage", "limits.ephemeral-storage", "persistentvolumeclaims",
)  # fmt: skip

SILENT = footprint.UNSPECIFIED


def gate_with(hard: dict[str, int]) -> Gate:
    gate = Gate()
    quota = WorkspaceQuota("all", namespace_selector=LabelSelector(), hard=hard)
    gate.load_quotas(QuotaTree.build([quota]), 0.0)
    gate.load_state(
        snapshot(*(tree for tree in BEFORE.values() if tree["kind"] in BUILT_IN), namespaces=NAMESPACES), 0.0
    )
    return gate


@cache
def full_gate() -> Gate:
    """A gate whose one quota is exactly full."""
    return gate_with({row.resource: row.used for row in gate_with(dict.fromkeys(KEYS, 0)).usage()})


def decide(row: Any) -> Decision:
    asked = row["request"]
    head = asked["method"], asked["target"], asked["headers"]
    reading = read(as_a_door_hands_it_over(*head, packed_body(asked)))
    return full_gate().decide(reading, row["id"], 0.0, charge=False)


def cost(replicas: int, template: Any) -> dict[str, int]:
    """What so many pods cost, and how many of them say nothing of what the quota limits: more of them is growth too."""
    silent = {SILENT[key]: 1 for key in footprint.unspecified(template)}
    return {key: replicas * amount for key, amount in (footprint.per_pod(template) | silent).items()}


def is_built_in(ref: str) -> bool:
    return ref.startswith(tuple(f"{kind.lower()}s" for kind in BUILT_IN))


def grew(ref: str, change: Any) -> set[str]:
    """What there is more of, once the server has left something dearer, or something new, behind."""
    tree = BEFORE.get(ref, {"kind": ref})
    if tree["kind"] not in BUILT_IN:
        return {"count"} if "replicas" in change and is_built_in(ref) else set()
    spec = tree["spec"]
    old = cost(spec["replicas"], {key: spec[key] for key in ("template", "volumeClaimTemplates") if key in spec})
    template = change.get("template") or {k: spec[k] for k in ("template", "volumeClaimTemplates") if k in spec}
    new = cost(change.get("replicas", spec["replicas"]) or 0, template)
    return {key for key, amount in new.items() if amount > old.get(key, 0)}


GROWN = [row for row in ROWS.values() if any(grew(ref, change) for ref, change in row["changed"].items())]
NOT_GROWN = [row for row in ROWS.values() if row["changed"] and row not in GROWN]


def test_the_corpus_holds_both_kinds():
    assert len(GROWN) > 1000
    assert len(NOT_GROWN) > 50


@pytest.mark.parametrize("row", [pytest.param(row, id=row["id"]) for row in GROWN])
def test_what_the_server_took_for_growth_is_not_allowed(row: Any):
    decision = decide(row)
    assert decision.verdict is not Verdict.ALLOW, f"{row['why']}: {decision.reason}"


@pytest.mark.parametrize("row", [pytest.param(row, id=row["id"]) for row in NOT_GROWN])
def test_what_the_server_took_for_no_growth_is_not_denied_for_quota(row: Any):
    decision = decide(row)
    assert decision.verdict is not Verdict.DENY, decision.sentence
