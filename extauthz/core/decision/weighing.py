"""What a write takes of every quota that covers the workload, and whether there is room for it."""

from __future__ import annotations

from extauthz.core.decision import sentences
from extauthz.core.decision.evaluation import Evaluation
from extauthz.core.ledger.coverage import Nodes
from extauthz.core.model import Decision, Requester, Shortage, Verdict

EXCEEDED = "exceeded-quota"


def weighed(asked: Evaluation) -> None:
    """Step: what it takes. A write that grows nothing passes whatever quotas say."""
    asked.propose()
    if asked.proposal.growth.grows:
        return
    if asked.proposal.step.after.envelope_in:
        asked.reason, asked.why = "no-growth", "grows nothing"
    else:
        asked.reason, asked.why = "no-quota", "no quota covers this workload"


def exceeded(asked: Evaluation) -> Decision | None:
    """Step: some quota has no room for what grows."""
    short, free = refusing(asked)
    if not short:
        return None
    proposal, pending_write, ledger = asked.proposal, asked.pending_write, asked.state.ledger
    fits = ledger.largest_replicas(asked.ref, pending_write, proposal, free)
    sentence = sentences.exceeded(asked.write.ref, short, fits, ledger.surge(proposal, pending_write))
    return asked.answer(Verdict.DENY, EXCEEDED, sentence, pending_write.replicas, short, proposal.growth.audit, fits)


def refusing(asked: Evaluation) -> tuple[tuple[Shortage, ...], Nodes]:
    """What has too little room, of quotas that bind who asks; and the quotas that do not."""
    growth = asked.proposal.growth
    if not growth.shortages:
        return (), ()
    free = unbound(growth.grows, asked.requester)
    short = _of_others(growth.shortages, free)
    if not short:
        asked.reason, asked.why = "not-bound", f"fits every quota that binds who asks; {_names(free)} does not"
    return short, free


def unbound(nodes: Nodes, requester: Requester | None) -> Nodes:
    """Those that do not bind who asks. They refuse nothing, and are charged."""
    return tuple(node for node in nodes if not node.binds(requester))


def _of_others(shortages: tuple[Shortage, ...], free: Nodes) -> tuple[Shortage, ...]:
    """What quotas say that do bind. In no tree two have the same name."""
    names = {node.quota.name for node in free}
    return tuple(row for row in shortages if row.quota not in names) if names else shortages


def _names(nodes: Nodes) -> str:
    return ", ".join(node.quota.name for node in nodes)
