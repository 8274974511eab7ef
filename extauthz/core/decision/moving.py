"""A workload is not brought under other quotas while something is charged where it counts now, and follows it.

That is a resize of one of its pods, or a workload that is about to join its family. Both last seconds. Autoscalers move
nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from extauthz.core.decision import sentences
from extauthz.core.decision.evaluation import Evaluation
from extauthz.core.kinds import PODS, RESIZES
from extauthz.core.ledger.entry import Entry
from extauthz.core.ledger.pending_write import PendingWrite
from extauthz.core.model import Decision, Observed

REASON: Final = "move-waits"


def waits(asked: Evaluation) -> Decision | None:
    """Step: it may move, and what follows it may still land."""
    if asked.entry is None or not _moves(asked.pending_write, asked.observed):
        return None
    followers = _followers_of(asked.entry, asked)
    if not followers:
        return None
    left = sentences.about(max(one.expires_s for one in followers) - asked.now_s)
    why = "cannot move it to other quotas while changes of its pods or members may still land; try again in"
    return asked.unavailable(REASON, f"{why} {left} at the latest")


def _moves(pending_write: PendingWrite, observed: Observed | None) -> bool:
    """Whether it may bring what is there under other quotas."""
    return observed is not None and replace(pending_write, templates=()).changes(observed)


def _followers_of(entry: Entry, asked: Evaluation) -> list[PendingWrite]:
    """Writes that are charged where ``entry`` counts now: what may enter its family, and resizes of its pods."""
    ledger = asked.state.ledger
    found = [one for one in entry.live_pending_writes() if not ledger.pending.follows(one.id)]
    for ref in ledger.workloads.of_unit(RESIZES, entry.ref.namespace):
        pod, resizes = ledger.observations.pod(ref._replace(resource=PODS[1])), ledger.get(ref)
        if pod is not None and resizes is not None and pod.root.ref == entry.root.ref:
            found += resizes.live_pending_writes()
    return found
