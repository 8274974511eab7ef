"""One gate with its replica of the ledger object, step by step on a clock that stands still, for tests."""

from __future__ import annotations

from typing import Any

from extauthz.core.ledger.pending_write import PendingWrite
from extauthz.core.model import Request
from extauthz.ledger_store.replica import Replica
from extauthz.ledger_store.store import Stored
from extauthz.testing.builders import Asker, gate, quota, workload
from tests.unit.ledger_store.gates import Sight

W = 90.0
TEN = [quota("acme", {"requests.cpu": "10"})]


class Seat:
    """One gate with its replica, and a clock that has nothing to do with that of others."""

    def __init__(self, prefix: str, now_s: float = 1000.0, quotas: Any = TEN, **flags: bool) -> None:
        self.now_s = now_s
        self.told: list[tuple[str, str]] = []
        self.sight = Sight()
        self.gate = made = gate(quotas, workload("web", 1), workload("api", 1))
        self._ask = Asker(made, prefix)
        self.ledger = made.ledger
        self.replica = Replica(made.ledger, self.sight, W, lambda: self.now_s, self._tell, **flags)

    def _tell(self, level: str, event: str, **fields: str) -> None:
        self.told.append((level, event))

    def ask(self, request: Request) -> str:
        self._ask.now_s = self.now_s
        decision = self._ask(request)
        assert decision.pending_write, decision
        return decision.pending_write

    def write(self, version: int, uid: str = "u") -> Stored:
        """The object as this gate writes it now, and takes it."""
        text, _ = self.replica.next_text()
        stored = Stored(text, str(version), uid)
        self.replica.take(stored, self.now_s)
        return stored

    def left_s(self, pending_id: str) -> float:
        return self.pending(pending_id).expires_s - self.now_s

    def pending(self, pending_id: str) -> PendingWrite:
        found = self.ledger.pending.get(pending_id)
        assert found is not None
        return found[1]
