"""How many allowed writes may be under way at once: of one workload, one client, one tree of quotas, and in all.

Each holds room and memory until it has landed or no longer can, so a flood of them must end, and end for its sender
alone: the bounds of a client and of a tree are far below the one of all.
"""

from __future__ import annotations

from extauthz.core.decision import sentences
from extauthz.core.decision.policy import Policy
from extauthz.core.decision.question import Question
from extauthz.core.ledger.ledger import Ledger, Proposal
from extauthz.core.model import Decision, Verdict


def refusal(policy: Policy, ledger: Ledger, question: Question, proposal: Proposal) -> Decision | None:
    """Of one more write, where as many as may be are under way already."""
    found = _bound_met(policy, ledger, question, proposal)
    if found is None:
        return None
    reason, whose = found
    why = f"already follows {whose} that may still land; the oldest is forgotten after W"
    return question.answer(Verdict.UNAVAILABLE, reason, sentences.unavailable(question.write.ref, why))


def _bound_met(policy: Policy, ledger: Ledger, question: Question, proposal: Proposal) -> tuple[str, str] | None:
    """The reason, and whose writes these are."""
    source, entry = question.source, question.entry
    if source and ledger.intents_of(source) >= policy.max_intents_per_source:
        return "too-many-intents-of-source", f"{policy.max_intents_per_source} writes of {source}"
    here = len(entry.intents) if entry is not None and entry.intents else 0
    if here >= policy.max_intents_per_workload:
        return "too-many-intents", f"{here} writes to it"
    if ledger.intents >= policy.max_intents:
        return "too-many-intents", f"{ledger.intents} writes"
    for root in proposal.after.trees:
        if ledger.intents_in(root) >= policy.max_intents_per_tree:
            return "too-many-intents-in-tree", f"{policy.max_intents_per_tree} writes under workspace quota {root}"
    return None
