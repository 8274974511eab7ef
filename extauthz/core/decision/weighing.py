"""Whether there is room for what a write takes: of every quota that covers the workload, and of what the platform's own
service allows.

What is not asked for is not free (design.md rule 12). A pod that does not say what it needs of CPU or memory costs
none of it, however many there are. So where a quota limits it, every container has to say it, as ResourceQuota demands
(``Constraints`` in ``pkg/quota/v1/evaluator/core/pods.go``). Only more of such pods are refused: those that are there
stay, and may shrink.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from extauthz.core import quantities, texts
from extauthz.core.decision import sentences, turns
from extauthz.core.decision.bounds import Bound, Freshness
from extauthz.core.decision.known import Case, Grounds, templates
from extauthz.core.errors import ObjectError
from extauthz.core.ledger.coverage import Nodes
from extauthz.core.ledger.ledger import Proposal
from extauthz.core.ledger.pod_costs import NamespaceCosts
from extauthz.core.model import (
    Decision,
    Evidence,
    Fetch,
    NeedsFetch,
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
    pending_write, fits = asked.pending_write, None
    if asked.has_count:
        fits = asked.state.ledger.largest_replicas(asked.ref, asked.pending_write, proposal, free)
        short = _tightest_first(asked, short, fits, free)
    has_turns = asked.state.ledger.coverage.tree.has_turns
    rank = asked.state.policies.rank(grounds.growth) if has_turns else 0
    by_room, fits = fits, turns.within(asked, proposal, fits, rank) if has_turns else fits
    sentence = sentences.exceeded(asked.write.ref, short, fits, is_kept=fits != by_room)
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


# The bound of a platform's own service: how many replicas a workload may have, in addition to quotas.

UNASKED = "max-scale-unasked"
"""Reason of an answer that is no decision yet: the service must be asked, and then the write is decided again."""
MAX_SCALE_UNKNOWN = "max-scale-unknown"
KEPT = "max-scale-stale"
MAX_SCALE_EXCEEDED = "exceeded-max-scale"


def exceeded_max_scale(asked: Case, proposal: Proposal, grounds: Grounds) -> Decision | Grounds:
    """Whether it exceeds what the service allows, or that is not known."""
    replicas, bounds = asked.pending_write.replicas, asked.state.bounds
    if bounds is None or replicas is None or replicas <= proposal.step.before.envelope.replicas:
        return grounds  # its count is not above all that the workload may have already
    binding = bound_by_service(asked, proposal)
    if not binding:
        return grounds  # it binds whom the quotas bind that cover the workload
    bound = bounds.known(asked.write.ref, asked.question.now_s)
    if bound.freshness is Freshness.UNASKED:
        needs = NeedsFetch(Fetch.MAX_SCALE, asked.write.ref, _about(asked, proposal, binding))
        return _max_scale_unknown(asked, UNASKED, needs)
    if bound.freshness is Freshness.UNKNOWN and asked.state.policy.on_max_scale_unknown == "deny":
        return _max_scale_unknown(asked, MAX_SCALE_UNKNOWN)
    if bound.most is not None and replicas > bound.most:
        return _above_max_scale(asked, replicas, bound, bound.most, proposal.growth.audit)
    grounds = grounds._replace(max_scale=bound.most)
    if bound.freshness is Freshness.KEPT:
        remark = f"; within what the platform's service said {bound.age_s:.0f} s ago, and no later"
        return grounds._replace(reason=KEPT, remark=remark)
    if bound.freshness is Freshness.UNKNOWN:
        remark = "; the platform's service was not heard, and that lets it pass"
        return grounds._replace(reason=MAX_SCALE_UNKNOWN, remark=remark)
    return grounds


def bound_by_service(asked: Case, proposal: Proposal) -> Nodes:
    """Quotas that cover the workload, bind who asks, and do not only audit. Without one the service is not asked."""
    return tuple(node for node in proposal.step.after.envelope_in if node.binds(asked.question.requester))


MOST_LABELS = 1024
"""Characters. Of more labels the service is told nothing: a URL has no room for them."""


def _about(asked: Case, proposal: Proposal, binding: Nodes) -> tuple[tuple[str, str], ...]:
    """What the service is told of a write. What is not known is left out."""
    made = asked.write.object or asked.base
    workspace = max(binding, key=lambda node: len(node.path)).quota.name
    told = [("workspace", workspace), ("desired", str(asked.pending_write.replicas))]
    told.append(("current", str(asked.observed.replicas if asked.observed is not None else 0)))
    if asked.question.requester is not None:
        told.append(("requester", texts.cut(asked.question.requester.user, texts.MAX_NAME)))
    if made is not None and made.labels and len(made.labels) <= MOST_LABELS:
        told.append(("labels", made.labels))
    if made is not None and made.owner is not None:
        told.append(("owner", f"{made.owner.kind}/{made.owner.name}"))
    cost = NamespaceCosts(asked.ref.namespace, asked.state.ledger.pod_costs).highest(templates(asked, proposal))
    limited = {key for node in binding for key in node.quota.hard}
    told.extend((f"pod.{key}", quantities.format(cost[key], key)) for key in sorted(limited & cost.keys()))
    return tuple(told)


def _max_scale_unknown(asked: Case, reason: str, needs: NeedsFetch | None = None) -> Decision:
    why = "could not learn from the platform's service how many replicas it may have; try again shortly"
    return asked.unavailable(reason, why, needs=needs)


def _above_max_scale(asked: Case, replicas: int, bound: Bound, most: int, audit: tuple[Shortage, ...]) -> Decision:
    before = asked.observed.replicas if asked.observed is not None else 0
    fits = max(most, before)
    old = f" (as of {bound.age_s:.0f} s ago)" if bound.freshness is Freshness.KEPT else ""
    sentence = sentences.exceeded_scale(asked.write.ref, replicas, before, most, fits, old)
    evidence = Evidence(audit=audit, fits=fits, never_fits=True, max_scale=most)
    return asked.answer(Verdict.DENY, MAX_SCALE_EXCEEDED, sentence, replicas, evidence)
