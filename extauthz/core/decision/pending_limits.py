"""How many writes may be pending at once: of one workload, one client, one tree of quotas, and in all.

Each takes room and memory until it has landed or no longer can. So a flood must be stopped, and only for its sender:
the bounds for one client and for one tree are far below the bound for all. Of identical retries ``MAX_IDENTICAL`` are
kept. After that the newest one stands for those that follow.
"""

from __future__ import annotations

from collections.abc import Mapping

from extauthz.core.decision import sentences
from extauthz.core.decision.evaluation import Evaluation
from extauthz.core.ledger import memory
from extauthz.core.ledger.coverage import leaves
from extauthz.core.ledger.ledger import Ledger, Proposal
from extauthz.core.ledger.pending_write import PendingWrite, State
from extauthz.core.ledger.pending_writes import UNCOVERED
from extauthz.core.model import NO_PRECONDITION, Decision

MAX_IDENTICAL = 16
"""An HPA asks every 15 s: nine times in a landing window. The answer to each write ends it."""

MAX_BYTES_IN_QUOTA = 32 * 1024 * 1024
"""What the changes of one tenant may hold while they are under way. A Deployment as ``kubectl apply`` sends it holds
some 30 KiB; the costliest body that is read at all, less than 32 MiB."""

MAX_BYTES_UNCOVERED = 128 * 1024
"""The same of all workloads without a quota: a quarter of what a ledger object takes. The room is of those that have
one."""

MAX_BYTES = 8 * MAX_BYTES_IN_QUOTA
"""The same for all, so that no tenant by itself can use it up."""


def reached(asked: Evaluation) -> Decision | None:
    """Step: one more write would be too many, and no pending write stands for it too."""
    if asked.free:
        return None
    asked.twin = _twin(asked.pending_write, asked.proposal)
    found = _bound_met(asked) if asked.twin is None else None
    if found is None:
        return None
    reason, whose = found
    latest = sentences.about(asked.policy.window_s)
    why = f"already follows {whose} that may still land; try again in {latest} at the latest"
    return asked.unavailable(reason, why)


def _twin(pending_write: PendingWrite, proposal: Proposal) -> PendingWrite | None:
    """The open write that stands for ``pending_write`` too, once enough writes of the same effect are under way."""
    live = proposal.entry.pending_writes
    if live is None or len(live) < MAX_IDENTICAL or pending_write.precondition != NO_PRECONDITION:
        return None
    alike = [
        one
        for one in live.values()
        if one.state is State.OPEN and one.replicas == pending_write.replicas and one.effect == pending_write.effect
    ]
    return max(reversed(alike), key=lambda one: one.expires_s) if len(alike) >= MAX_IDENTICAL else None


def _bound_met(asked: Evaluation) -> tuple[str, str] | None:
    """The code of the bound that is met, and whose writes they are; ``None``: none is met.

    Nobody has more pending writes than there are in all.
    """
    policy, ledger, source, pending_write = asked.policy, asked.state.ledger, asked.source, asked.pending_write
    in_all = len(ledger.pending)
    if source and in_all >= policy.max_intents_per_source <= ledger.pending.of_source(source):
        return "too-many-intents-of-source", f"{policy.max_intents_per_source} writes of {source}"
    live = asked.proposal.entry.pending_writes or {}
    if _is_one_too_many(pending_write, live, policy.max_intents_per_workload):
        return "too-many-intents", f"{policy.max_intents_per_workload} different writes to it"
    if in_all >= policy.max_intents:
        return "too-many-intents", f"{in_all} writes"
    if in_all >= policy.max_intents_per_tree:
        for root in asked.proposal.step.after.trees:
            if ledger.pending.of_tree(root) >= policy.max_intents_per_tree:
                return "too-many-intents-in-tree", f"{policy.max_intents_per_tree} writes under workspace quota {root}"
    return None if pending_write.counts_alone else _memory_met(ledger, asked.proposal, pending_write)


def _memory_met(ledger: Ledger, proposal: Proposal, pending_write: PendingWrite) -> tuple[str, str] | None:
    """The same of what changes hold in memory. A write of a count alone is never refused for it."""
    more = pending_write.held_bytes = memory.held_by(pending_write)
    for quota in leaves(proposal.step.after.envelope_in) or UNCOVERED:
        held = ledger.pending.bytes_held_in(quota)
        if held + more > (MAX_BYTES_IN_QUOTA if quota else MAX_BYTES_UNCOVERED):
            whose = f"under workspace quota {quota}" if quota else "that no workspace quota covers"
            return "too-many-bytes-in-quota", f"{held // 1024} KiB of changes {whose}"
    if ledger.pending.bytes_held + more > MAX_BYTES:
        return "too-many-bytes", f"{ledger.pending.bytes_held // 1024} KiB of changes"
    return None


def _is_one_too_many(pending_write: PendingWrite, live: Mapping[str, PendingWrite], most: int) -> bool:
    """Whether there are ``most`` different effects already. A retry adds none."""
    if len(live) < most:
        return False
    different = {one.effect for one in live.values()}
    return pending_write.effect not in different and len(different) >= most
