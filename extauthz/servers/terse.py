"""Refusals that name no quota and no number: only that the write was refused, a stable code, and the decision's id.

A client is refused before the API server has asked who it is. What it is told is therefore told to anybody who may
reach Envoy (docs/security.md). The log, the metrics and the events for owners are as full as ever.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from extauthz.core import texts
from extauthz.core.decision import sentences
from extauthz.core.model import Decision, Refusal, Verdict

Asked = TypeVar("Asked")

WHY = {
    Verdict.DENY: "is forbidden: exceeded a workspace quota",
    Verdict.UNAVAILABLE: "was not decided by the quota gate; it is safe to try again",
}

BY_POLICY = "is forbidden by a policy"
"""In place of its message."""

UNSPECIFIED = "is forbidden: its containers must specify what a workspace quota limits"
"""In place of ``must specify requests.cpu for: c``."""


def terse(
    decide: Callable[[Asked], Decision | Awaitable[Decision]],
) -> Callable[[Asked], Decision | Awaitable[Decision]]:
    """The same decisions, with sentences that only the id leads further from: the log has it."""

    def decided(asked: Asked) -> Decision | Awaitable[Decision]:
        found = decide(asked)
        return shortened(found) if isinstance(found, Decision) else _later(found)

    return decided


async def _later(found: Awaitable[Decision]) -> Decision:
    return shortened(await found)


def shortened(decision: Decision) -> Decision:
    """With the terse sentence if it is a refusal. The rest of it stays, which no client sees."""
    is_silent = decision.verdict is Verdict.DENY and decision.evidence.unspecified
    why = UNSPECIFIED if is_silent else WHY.get(decision.verdict)
    if decision.refusal in (Refusal.FORBIDDEN_BY_POLICY, Refusal.HELD_BY_POLICY) and why is not None:
        why = BY_POLICY
    if why is None:
        return decision
    who = "this write" if decision.ref is None else texts.cut(sentences.subject(decision.ref), texts.MAX_NAME)
    return decision._replace(sentence=f"{who} {why} (decision {decision.id})")
