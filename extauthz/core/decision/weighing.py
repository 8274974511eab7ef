"""Whether there is room for what a write takes, in every quota that covers the workload.

What is not asked for is not free (design.md rule 12). A pod that does not say what it needs of CPU or memory costs
none of it, however many there are. So where a quota limits it, every container has to say it, as ResourceQuota demands
(``Constraints`` in ``pkg/quota/v1/evaluator/core/pods.go``). Only more of such pods are refused: those that are there
stay, and may shrink.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from extauthz.core import texts
from extauthz.core.decision import sentences, turns
from extauthz.core.decision.known import Grant, WriteContext, templates
from extauthz.core.errors import ObjectError
from extauthz.core.ledger.coverage import Nodes
from extauthz.core.ledger.ledger import Proposal
from extauthz.core.model import (
    Decision,
    Evidence,
    Requester,
    Shortage,
    Unknown,
    Unspecified,
    Verdict,
)
from extauthz.core.quota.tree import QuotaNode

EXCEEDED = "exceeded-quota"
MUST_SPECIFY = "must-specify"

MAX_CONTAINERS = 8
"""Names in a sentence, for each resource."""


# Room in quotas.


def exceeded(context: WriteContext, proposal: Proposal, grant: Grant) -> Decision | Grant:
    """Whether some quota that binds who asks has no room for what grows."""
    free = unbound(proposal.growth.grows, context.question.requester)
    short = _of_others(proposal.growth.shortages, free)
    if not short:
        return grant._replace(reason="not-bound", why=f"fits every quota that binds who asks; {_names(free)} does not")
    pending_write, fits, surge = context.pending_write, None, 0
    if context.has_count:
        fits = context.state.ledger.largest_replicas(context.ref, context.pending_write, proposal, free)
        short = _tightest_first(context, short, fits, free)
        surge = context.state.ledger.surge(proposal, pending_write)
    has_turns = context.state.ledger.coverage.tree.has_turns
    rank = context.state.policies.rank(grant.growth) if has_turns else 0
    by_room, fits = fits, turns.within(context, proposal, fits, rank) if has_turns else fits
    sentence = sentences.exceeded(context.write.ref, short, fits, surge, is_kept=fits != by_room)
    replicas = pending_write.replicas if context.has_count else None
    never = proposal.step.never_fits((row.resource, row.hard) for row in short)
    places = turns.places(context, proposal, short, rank) if has_turns else ()
    evidence = Evidence(short, proposal.growth.audit, fits, never and not places, places=places)
    return context.answer(Verdict.DENY, EXCEEDED, sentence, replicas, evidence)


def largest(context: WriteContext, proposal: Proposal) -> int | None:
    """The largest count that quotas have room for; ``None``: they have room for it, or none can be named."""
    free = unbound(proposal.growth.grows, context.question.requester)
    if not _of_others(proposal.growth.shortages, free):
        return None
    return context.state.ledger.largest_replicas(context.ref, context.pending_write, proposal, free)


def _tightest_first(
    context: WriteContext, short: tuple[Shortage, ...], fits: int | None, free: Nodes
) -> tuple[Shortage, ...]:
    """Quotas that have no room for one more than ``fits`` come first. Rows of one quota stay together."""
    if fits is None or all(row.quota == short[0].quota for row in short):
        return short
    tight = _short_at(context, fits + 1, free)
    return tuple(sorted(short, key=lambda row: row.quota not in tight))


def _short_at(context: WriteContext, count: int, free: Nodes) -> set[str]:
    """Quotas without room for the same write with another count."""
    tried = replace(context.pending_write, replicas=count)
    growth = context.state.ledger.propose(context.ref, tried, context.expected, context.entry).growth
    return {row.quota for row in _of_others(growth.shortages, free)}


def unbound(nodes: Nodes, requester: Requester | None) -> Nodes:
    """Those that do not bind who asks. They refuse nothing, and are charged."""
    return tuple(node for node in nodes if not node.binds(requester))


def _of_others(shortages: tuple[Shortage, ...], free: Nodes) -> tuple[Shortage, ...]:
    """What quotas say that do bind. In no tree two have the same name."""
    names = {node.quota.name for node in free}
    return tuple(row for row in shortages if row.quota not in names) if names else shortages


def _names(nodes: Nodes) -> str:
    return ", ".join(node.quota.name for node in nodes)


# What pods do not say.


def must_specify(context: WriteContext, proposal: Proposal, grant: Grant) -> Decision | Grant:
    """Whether there would be more pods that do not say what they need of what a quota limits."""
    named = _containers(context, proposal)
    rows = tuple(
        Unspecified(node.quota.name, node.path, key, named[key], node.audits)
        for node, key in proposal.growth.unspecified
        if key in named and (node.audits or _denies(context, node))
    )
    refusing = [row for row in rows if not row.audits]
    if not refusing:
        return grant._replace(unspecified=rows)
    sentence = sentences.must_specify(context.write.ref, refusing)
    evidence = Evidence(audit=proposal.growth.audit, unspecified=rows)
    return context.answer(Verdict.DENY, MUST_SPECIFY, sentence, context.pending_write.replicas, evidence)


def _denies(context: WriteContext, node: QuotaNode) -> bool:
    return context.state.policy.on(Unknown.UNSPECIFIED, (node,), context.question.requester) == "deny"


def _containers(context: WriteContext, proposal: Proposal) -> Mapping[str, tuple[str, ...]]:
    """By resource, the names of containers that say nothing of it: the first few."""
    found: dict[str, set[str]] = {}
    for template in templates(context, proposal):
        try:
            silent = context.state.ledger.pod_costs.unspecified(context.ref.namespace, template)
        except ObjectError:
            continue
        for key, names in silent.items():
            found.setdefault(key, set()).update(names)
    most = texts.MAX_NAME
    return {
        key: tuple(texts.cut(name, most) for name in sorted(names)[:MAX_CONTAINERS]) for key, names in found.items()
    }
