"""What most tests of decisions and the ledger begin with: a gate with one quota, and its books."""

from __future__ import annotations

from typing import Any

from extauthz.core.decision.policy import Policy
from extauthz.testing import Asker, gate, quota

CPU = "requests.cpu"
NANO = 10**9


def asker(*objects: Any, hard: str = "10", policy: Policy | None = None, **more: str) -> Asker:
    """Asks a gate that has seen these objects, and has one quota: ``hard`` CPUs in workspace ``acme``, and ``more``."""
    return Asker(gate([quota("acme", {CPU: hard, **more})], *objects, policy=policy))


def books(ask: Asker, name: str = "acme", key: str = CPU) -> tuple[int, int]:
    """Used and reserved of one quota, in whole units, once a count from scratch has said the same."""
    assert ask.gate.ledger.drift() == {}
    (row,) = [row for row in ask.gate.usage() if (row.quota, row.resource) == (name, key)]
    return row.used // NANO, row.reserved // NANO
