"""What a refused write would get now, without anybody asking again: for episodes, whose numbers are today's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from extauthz.core.decision import sentences
from extauthz.core.decision.weighing import EXCEEDED
from extauthz.core.model import Decision, Verdict
from extauthz.core.queries import Queries

Outlook: TypeAlias = Callable[[Decision], Decision | None]
"""``None``: its workload is gone. Else an allowance, or the refusal with today's numbers."""

FITS: Final = "fits"


def outlook(queries: Queries, is_known: Callable[[], bool]) -> Outlook:
    """By what is in memory.

    Args:
        is_known: whether the quotas and the cluster are known and current. If not, a refusal stays what it was.
    """

    def now(refused: Decision) -> Decision | None:
        if refused.ref is None or not is_known():
            return refused
        if queries.observed(refused.ref) is None:
            return None
        if refused.reason != EXCEEDED or refused.replicas is None:
            return refused  # of others only the next request can tell
        found = queries.growth(refused.ref, refused.replicas, {row.quota for row in refused.shortages})
        if not found.is_certain:
            return refused
        if not found.shortages:
            return refused._replace(verdict=Verdict.ALLOW, reason=FITS, shortages=())
        sentence = sentences.exceeded(refused.ref, found.shortages, found.fits, 0)
        return refused._replace(
            shortages=found.shortages,
            fits=found.fits,
            sentence=sentence,
            replicas_before=found.observed,
            never_fits=found.never_fits,
        )

    return now
