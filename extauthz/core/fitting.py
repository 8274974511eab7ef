"""How many replicas a workload may have: the highest count that ``decide`` would grant.

One answer for ``check``, the API, the page and the numbers of an episode. Quotas tell the highest count that they have
room for (``queries``); turns and policies may allow less.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import TypeAlias

from extauthz.core.decision.gate import CLAMPED
from extauthz.core.model import Decision, Operation, Reading, Verdict, WorkloadRef, Write
from extauthz.core.objects.fields import MAX_REPLICAS
from extauthz.core.queries import Headroom, Queries

Decide: TypeAlias = Callable[[Reading], Decision]
"""Decides, and charges nothing."""


def scaled(ref: WorkloadRef, replicas: int) -> Write:
    """A write of its scale."""
    return Write(ref, Operation.PATCH, True, False, replicas)


def headroom(queries: Queries, decide: Decide, ref: WorkloadRef) -> Headroom | None:
    """How many replicas a workload may have, and what one more would get; ``None``: it is not known."""
    found = queries.headroom(ref)
    if found is None:
        return None
    beyond = decide(scaled(ref, found.replicas + 1)) if found.replicas is not None else None
    if beyond is not None and beyond.would is not None:  # the gate only audits
        return found._replace(replicas=None, bound=None, audited=found.replicas, audits=found.bound)
    high = MAX_REPLICAS if found.replicas is None else found.replicas
    most, refused = most_granted(lambda count: decide(scaled(ref, count)), found.observed, high)
    if refused is None:
        return found._replace(refused=beyond)
    if refused.verdict is Verdict.UNAVAILABLE:
        return found._replace(is_certain=False, refused=refused)
    return found._replace(replicas=most, bound=next(iter(refused.evidence.shortages), None), refused=refused)


def most_granted(of: Callable[[int], Decision], there: int, high: int) -> tuple[int, Decision | None]:
    """The highest count up to ``high`` that would be granted, and what one more would get; ``None``: all are."""
    if high <= there or is_granted(of(high)):
        return max(high, there), None
    if not is_granted(first := of(there + 1)):  # usually, where it is not for want of room
        return there, first
    most = there + bisect_left(range(there + 1, high), True, key=lambda count: not is_granted(of(count)))
    return most, of(most + 1)


def is_granted(decision: Decision) -> bool:
    """Whether it gets all that it asks for."""
    return decision.verdict is Verdict.ALLOW and decision.reason != CLAMPED
