"""How many allowed writes may be under way at once: of one workload, one client, one tree of quotas, and in all.

Each holds room and memory until it has landed or no longer can, so a flood of them must end, and end for its sender
alone: the bounds of a client and of a tree are far below the one of all. Retries of one workload's write are few:
beyond ``MAX_IDENTICAL`` the newest one stands for those that follow.
"""

from __future__ import annotations

from collections.abc import Mapping

from extauthz.core.decision import sentences
from extauthz.core.decision.policy import Policy
from extauthz.core.decision.question import Question
from extauthz.core.ledger.intents import Intent, State
from extauthz.core.ledger.ledger import Ledger, Proposal
from extauthz.core.model import NO_PRECONDITION, Decision, Verdict

MAX_IDENTICAL = 16
"""An HPA asks every 15 s and has nine within W. Each of them is ended by its own answer."""


def twin(intent: Intent, proposal: Proposal) -> Intent | None:
    """The open write that stands for ``intent`` too, as enough of the same effect are under way."""
    live = proposal.entry.intents
    if live is None or len(live) < MAX_IDENTICAL or intent.precondition != NO_PRECONDITION:
        return None
    alike = [
        one
        for one in live.values()
        if one.state is State.OPEN and one.replicas == intent.replicas and one.effect == intent.effect
    ]
    return max(reversed(alike), key=lambda one: one.expires_s) if len(alike) >= MAX_IDENTICAL else None


def refusal(policy: Policy, ledger: Ledger, question: Question, intent: Intent, proposal: Proposal) -> Decision | None:
    """Of one more write, where as many as may be are under way already."""
    found = _bound_met(policy, ledger, question, intent, proposal)
    if found is None:
        return None
    reason, whose = found
    why = f"already follows {whose} that may still land; the oldest is forgotten after W"
    return question.answer(Verdict.UNAVAILABLE, reason, sentences.unavailable(question.write.ref, why))


def _bound_met(
    policy: Policy, ledger: Ledger, question: Question, intent: Intent, proposal: Proposal
) -> tuple[str, str] | None:
    """The reason, and whose writes these are."""
    source = question.source
    if source and ledger.pending.of_source(source) >= policy.max_intents_per_source:
        return "too-many-intents-of-source", f"{policy.max_intents_per_source} writes of {source}"
    live = proposal.entry.intents or {}
    if len(live) >= policy.max_intents_per_workload and _effects(intent, live) > policy.max_intents_per_workload:
        return "too-many-intents", f"{policy.max_intents_per_workload} different writes to it"
    if ledger.intents >= policy.max_intents:
        return "too-many-intents", f"{ledger.intents} writes"
    for root in proposal.after.trees:
        if ledger.pending.of_tree(root) >= policy.max_intents_per_tree:
            return "too-many-intents-in-tree", f"{policy.max_intents_per_tree} writes under workspace quota {root}"
    return None


def _effects(intent: Intent, live: Mapping[str, Intent]) -> int:
    """How many different effects there would be; none too many where ``intent`` is a retry."""
    different = {one.effect for one in live.values()}
    return len(different) + 1 if intent.effect not in different else 0
