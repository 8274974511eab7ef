"""The request path: an id and the time for the pure gate, and the observers told of what it decided."""

from __future__ import annotations

import time
import traceback
from random import Random
from typing import Protocol

from extauthz.core.model import Decision, Request, Verdict
from extauthz.observe.log import Log
from extauthz.observe.metrics import Metrics

INTERNAL_ERROR = "internal-error"


class Decides(Protocol):
    """What the request path wants of the gate."""

    def decide(self, request: Request, decision_id: str, now_s: float, *, charge: bool = True) -> Decision:
        """Answer ``request``; ``now_s`` on the process's monotonic clock."""


class Deciding:
    """Callable by every door. Never raises and never waits: what goes wrong inside is an answer too.

    Args:
        gate: the decision engine.
        metrics: told of each decision and what it took.
        log: told of each decision, and of the traceback where we are at fault.
    """

    def __init__(self, gate: Decides, metrics: Metrics, log: Log) -> None:
        self._gate = gate
        self._metrics = metrics
        self._log = log

    def __call__(self, request: Request) -> Decision:
        now_s = time.monotonic()
        decision_id = new_id()
        try:
            decision = self._gate.decide(request, decision_id, now_s)
        except Exception:  # noqa: BLE001 (whatever it is, the request must be refused by name and not by a broken call)
            decision = self._failed(decision_id)
        self._metrics.decision(decision, time.monotonic() - now_s)
        self._log.decision(decision, request.headers.get("user-agent", ""))
        return decision

    def _failed(self, decision_id: str) -> Decision:
        self._log.event("error", INTERNAL_ERROR, id=decision_id, traceback=traceback.format_exc())
        sentence = f"this write was not decided: the quota gate failed (decision {decision_id}); its log says why"
        return Decision(decision_id, Verdict.UNAVAILABLE, INTERNAL_ERROR, sentence)


_RANDOM = Random()  # noqa: S311 (seeded by the system; an id is a name and no secret)


def new_id() -> str:
    """64 random bits in hex: by a million decisions a day, a repeated id within a year has odds of 1 in 270."""
    return f"{_RANDOM.getrandbits(64):016x}"
