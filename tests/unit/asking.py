"""What most tests of decisions and the ledger begin with: a gate with one quota, and its books."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from extauthz import testing as builders
from extauthz.core import records
from extauthz.core.decision.gate import Gate
from extauthz.core.decision.policy import Policy
from extauthz.testing import Asker, quota

CPU = "requests.cpu"
NANO = 10**9


def asker(*objects: Any, hard: str = "10", policy: Policy | None = None, **more: str) -> Asker:
    """Asks a gate that has seen these objects, and has one quota: ``hard`` CPUs in workspace ``acme``, and ``more``."""
    return Asker(builders.gate([quota("acme", {CPU: hard, **more})], *objects, policy=policy))


def books(ask: Asker, name: str = "acme", key: str = CPU) -> tuple[int, int]:
    """Used and reserved of one quota, in whole units, once a count from scratch has said the same."""
    assert ask.gate.ledger.drift() == {}
    (row,) = [row for row in ask.gate.usage() if (row.quota, row.resource) == (name, key)]
    return row.used // NANO, row.reserved // NANO


def told(gate: Gate, now_s: float = 0.0) -> list[dict[str, Any]]:
    """What pends at a gate, as another gate is told of it, with the seconds that are left of each landing window."""
    found = [{**records.dump(ref, one), "left_s": one.expires_s - now_s} for ref, one in gate.ledger.pending]
    return json.loads(json.dumps(found))


def adopt(gate: Gate, of_another: Iterable[dict[str, Any]], now_s: float = 0.0) -> None:
    """Another gate takes what it was told."""
    for record in of_another:
        gate.ledger.adopt(*records.load(record, now_s + record["left_s"], now_s))
