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
from extauthz.core.decision.known import Case, Grounds, templates
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


def exceeded(asked: Case, proposal: Proposal, grounds: Grounds) -> Decision | Grounds:
    """Whether some quota that binds who asks has no room for what grows."""
    free = unbound(proposal.growth.grows, asked.question.requester)
    short = _of_others(proposal.growth.shortages, free)
    if not short:
        return grounds._replace(
            reason="not-bound", why=f"fits every quota that binds who asks; {_names(free)} does not"
        )
    pending_write, fits, surge = asked.pending_write, None, 0
    if asked.has_count:
        fits = asked.state.ledger.largest_replicas(asked.ref, asked.pending_write, proposal, free)
        short = _tightest_first(asked, short, fits, free)
        surge = asked.state.ledger.surge(proposal, pending_write)
    has_turns = asked.state.ledger.coverage.tree.has_turns
    rank = asked.state.policies.rank(grounds.growth) if has_turns else 0
    by_room, fits = fits, turns.within(asked, proposal, fits, rank) if has_turns else fits
    sentence = sentences.exceeded(asked.write.ref, short, fits, surge, is_kept=fits != by_room)
    replicas = pending_write.replicas if asked.has_count else None
    never = proposal.step.never_fits((row.resource, row.hard) for row in short)
    places = turns.places(asked, proposal, short, rank) if has_turns else ()
    evidence = Evidence(short, proposal.growth.audit, fits, never and not places, places=places)
    return asked.answer(Verdict.DENY, EXCEEDED, sentence, replicas, evidence)


def largest(asked: Case, proposal: Proposal) -> int | None:
    """The largest count that quotas have room for; ``None``: they have room for it, or none can be named."""
    free = unbound(proposal.growth.grows, asked.question.requester)
    if not _of_others(proposal.growth.shortages, free):
        return None
    return asked.state.ledger.largest_replicas(asked.ref, asked.pending_write, proposal, free)


def _tightest_first(asked: Case, short: tuple[Shortage, ...], fits: int | None, free: Nodes) -> tuple[Shortage, ...]:
    """Quotas that have no room for one more than ``fits`` come first. Rows of one quota stay together."""
    if fits is None or all(row.quota == short[0].quota for row in short):
        return short
    tight = _short_at(asked, fits + 1, free)
    return tuple(sorted(short, key=lambda row: row.quota not in tight))


def _short_at(asked: Case, count: int, free: Nodes) -> set[str]:
    """Quotas without room for the same write with another count."""
    tried = replace(asked.pending_write, replicas=count)
    growth = asked.state.ledger.propose(asked.ref, tried, asked.expected, asked.entry).growth
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


def must_specify(asked: Case, proposal: Proposal, grounds: Grounds) -> Decision | Grounds:
    """Whether there would be more pods that do not say what they need of what a quota limits."""
    named = _containers(asked, proposal)
    rows = tuple(
        Unspecified(node.quota.name, node.path, key, named[key], node.audits)
        for node, key in proposal.growth.unspecified
        if key in named and (node.audits or _denies(asked, node))
    )
    refusing = [row for row in rows if not row.audits]
    if not refusing:
        return grounds._replace(unspecified=rows)
    sentence = sentences.must_specify(asked.write.ref, refusing)
    evidence = Evidence(audit=proposal.growth.audit, unspecified=rows)
    return asked.answer(Verdict.DENY, MUST_SPECIFY, sentence, asked.pending_write.replicas, evidence)


def _denies(asked: Case, node: QuotaNode) -> bool:
    return asked.state.policy.on(Unknown.UNSPECIFIED, (node,), asked.question.requester) == "deny"


def _containers(asked: Case, proposal: Proposal) -> Mapping[str, tuple[str, ...]]:
    """By resource, the names of containers that say nothing of it: the first few."""
    found: dict[str, set[str]] = {}
    for template in templates(asked, proposal):
        try:
            silent = asked.state.ledger.pod_costs.unspecified(asked.ref.namespace, template)
        except ObjectError:
            continue
        for key, names in silent.items():
            found.setdefault(key, set()).update(names)
    most = texts.MAX_NAME
    return {
        key: tuple(texts.cut(name, most) for name in sorted(names)[:MAX_CONTAINERS]) for key, names in found.items()
    }
