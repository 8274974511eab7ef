"""What the gate does not know of a write, and what it does about it (design.md rule 6)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from extauthz.core import texts
from extauthz.core.decision import sentences
from extauthz.core.decision.cluster_state import ClusterState
from extauthz.core.decision.known import Case, Grounds
from extauthz.core.decision.weighing import templates
from extauthz.core.footprint import FootprintError
from extauthz.core.ledger.ledger import Proposal
from extauthz.core.model import (
    ANY_LABELS,
    Decision,
    Fetch,
    NeedsFetch,
    NotACount,
    OnUnknown,
    Requester,
    Unknown,
    Unreadable,
    Verdict,
)


def unreadable(state: ClusterState, found: Unreadable, decision_id: str, requester: Requester | None) -> Decision:
    """The answer to a request that may be a write and cannot be read."""
    ref, coverage = found.ref, state.ledger.coverage
    if ref is not None and state.synced and not state.coverage_is_stale and not coverage.may_cover(ref.namespace):
        return Decision(decision_id, Verdict.ALLOW, "no-quota", "no quota covers this namespace", ref)
    concerned = coverage.candidates(ref.namespace) if ref is not None else ()
    allow = state.policy.on(Unknown.UNREADABLE, concerned, requester) == "allow"
    why = f"cannot read it ({found.code}): {found.detail}"
    verdict = Verdict.ALLOW if allow else Verdict.UNAVAILABLE
    return Decision(decision_id, verdict, found.code, sentences.unavailable(ref, why), ref)


NOT_A_COUNT: Final = "not-a-count"


def not_a_count(state: ClusterState, found: NotACount, decision_id: str, requester: Requester | None) -> Decision:
    """The answer at Envoy to a request that may change more than a count (``Policy.objects``)."""
    ref, coverage = found.ref, state.ledger.coverage
    if state.synced and not state.coverage_is_stale and not coverage.may_cover(ref.namespace):
        return Decision(decision_id, Verdict.ALLOW, "no-quota", "no quota covers this namespace", ref)
    concerned = coverage.candidates(ref.namespace)
    if state.policy.objects == "refuse" and (not concerned or any(node.binds(requester) for node in concerned)):
        why = f"decides replica counts at Envoy, and this is more: {found.why}; {_CURE}"
        return Decision(decision_id, Verdict.UNAVAILABLE, NOT_A_COUNT, sentences.unavailable(ref, why), ref)
    reason, why = _PASSED["webhook" if state.policy.objects == "webhook" else "observe"]
    return Decision(decision_id, Verdict.ALLOW, reason, f"{found.why}: {why}", ref)


_CURE: Final = "send it past Envoy, to an API server that asks the webhook, or write spec.replicas alone"

_PASSED: Final = {
    "webhook": ("left-to-webhook", "the webhook decides it, as the API server stores it"),
    "observe": ("not-gated", "it counts once it is observed"),
}
"""Setting to reason and explanation of what passes undecided."""


# Before a write is weighed.


def missing(asked: Case) -> Decision | None:
    """The answer where it cannot be weighed: quotas, cluster, namespace or workload are not known."""
    state, namespace = asked.state, asked.ref.namespace
    if not (state.quotas_known and state.state_known):
        why = "has not seen the cluster yet" if state.quotas_known else "does not know the quotas yet"
        return asked.unavailable("unsynced", f"{why}; try again shortly", _setting(asked, Unknown.UNSYNCED))
    known = state.ledger.coverage.namespaces.get(namespace)
    if known is not None and not known.covered:  # but quotas or labels may have changed since
        return _outdated(asked) if state.coverage_is_stale else None
    if asked.observed is None and not asked.is_known:  # it may have been created a moment ago
        reason, why = "unknown-workload", f'has not seen it in namespace "{namespace}", so cannot tell what it costs'
    elif known is None:
        why = f'has not seen the namespace "{namespace}", so cannot tell which quotas cover it'
        reason = "unknown-namespace"
    else:
        return None
    needs = NeedsFetch(Fetch.WORKLOAD, asked.write.ref)
    return asked.unavailable(reason, why, _setting(asked, Unknown.WORKLOAD), needs)


def _outdated(asked: Case) -> Decision | None:
    observed = asked.observed
    if observed is not None and not asked.alters and (asked.pending_write.replicas or 0) <= observed.replicas:
        return None
    setting = _setting(asked, Unknown.STALE)
    why = f"may be out of date, so cannot tell which quotas cover it: {asked.state.stale_why}"
    return asked.unavailable("stale", why, setting) if setting == "deny" else None


def _setting(asked: Case, unknown: Unknown) -> OnUnknown:
    """What to do if it is not known which quotas of the namespace a write concerns."""
    state = asked.state
    return state.policy.on(unknown, state.ledger.coverage.candidates(asked.ref.namespace), asked.question.requester)


# Once it is weighed.


def unseen_owner(asked: Case, proposal: Proposal, grounds: Grounds) -> Decision | Grounds:
    """The refusal of a write that names an owner that no source has shown: nobody can tell what comes of that.

    What is made with an owner is charged by itself until that is seen.
    """
    joins = proposal.joins
    if joins is None or joins.labels != (ANY_LABELS,):
        return grounds
    owner = joins.owner.ref
    why = f'has not seen its owner, {owner.resource} "{owner.name}", so cannot tell what that comes to'
    needs = NeedsFetch(Fetch.WORKLOAD, owner)
    return asked.unavailable("unknown-workload", why, _setting(asked, Unknown.WORKLOAD), needs)


def uncertain(asked: Case, proposal: Proposal, grounds: Grounds) -> Decision | Grounds:
    """What it takes is known, and something that bears on that is not."""
    if asked.state.stale_why is not None and not proposal.step.after.envelope_in:
        refused = _outdated(asked)  # no quota is known to cover it, but its labels or the quotas may have changed
        if refused is not None:
            return refused
    if not proposal.growth.grows:
        return _held(asked) or grounds
    unknowns = list(_not_known(asked, proposal))
    for setting, reason, why in unknowns:
        if setting == "deny":
            return asked.unavailable(reason, why)
    _, reason, why = unknowns[0]
    return grounds._replace(reason=reason, why=f"fits as far as can be told; the quota gate {why}")


def _held(asked: Case) -> Decision | None:
    """It grows nothing by itself, but a count that an earlier run has allowed may still land on it."""
    until_s = asked.state.hold_until_s
    if until_s is None or not asked.may_raise or _setting(asked, Unknown.UNSYNCED) == "allow":
        return None
    left = _left(until_s - asked.question.now_s)
    why = f"grants no change of a template, labels or owner for {left}: a count that was allowed before"
    return asked.unavailable("hold", f"{why} may still land on it")


def _left(left_s: float) -> str:
    return sentences.about(left_s) if left_s > 0 else "a little longer"


MAX_CLAIMS: Final = 8
"""Names in a sentence."""


class _NotKnown(NamedTuple):
    """Something that the gate does not know, and what to do about it."""

    setting: OnUnknown
    reason: str
    why: str


def _not_known(asked: Case, proposal: Proposal) -> Iterator[_NotKnown]:
    """Everything that is unknown about growth, the gravest first."""
    growth, state, who = proposal.growth, asked.state, asked.question.requester
    grown, policy = growth.grows, state.policy
    if state.hold_until_s is not None:
        left = _left(state.hold_until_s - asked.question.now_s)
        why = f"grants no growth for {left}: writes that were allowed before may still land"
        yield _NotKnown(policy.on(Unknown.UNSYNCED, grown, who), "hold", why)
    if state.stale_why is not None:
        yield _NotKnown(policy.on(Unknown.STALE, grown, who), "stale", f"may be out of date: {state.stale_why}")
    timed = [node for node in grown if node.timed] if state.clock_why is not None else []
    if timed:
        why = f"cannot tell which amounts hold now: {state.clock_why}"
        yield _NotKnown(policy.on(Unknown.STALE, timed, who), "stale", why)
    if growth.illegible:
        concerned = [node for node in grown if node.illegible]
        why = f"cannot read the limits of quota {', '.join(growth.illegible)}"
        yield _NotKnown(policy.on(Unknown.STALE, concerned or grown, who), "illegible-quota", why)
    if proposal.step.after.unknown:
        setting = policy.on(Unknown.FOOTPRINT, grown, who)
        yield _NotKnown(setting, "unknown-footprint", "does not know what one of its pods costs")
    if growth.unknown_devices:
        why = ": ".join(("does not know what devices its pods take", *_unknown_devices(asked, proposal)))
        yield _NotKnown(policy.on(Unknown.FOOTPRINT, growth.unknown_devices, who), "unknown-footprint", why)
    if growth.unpriced:
        concerned = [node for node in grown if node.quota.name in growth.unpriced]
        names = ", ".join(growth.unpriced)
        why = f"does not know what quota {names} has in use: some workload has no known cost"
        yield _NotKnown(policy.on(Unknown.FOOTPRINT, concerned, who), "unknown-usage", why)


def _unknown_devices(asked: Case, proposal: Proposal) -> Iterator[str]:
    """What is not known, the first few by name; nothing, if it is no template of the write."""
    found: dict[str, None] = {}
    for template in templates(asked, proposal):
        with suppress(FootprintError):
            found |= dict.fromkeys(asked.state.ledger.pod_costs.unknown_devices(asked.ref.namespace, template))
    if found:
        names = ", ".join(f'"{texts.cut(name, texts.MAX_NAME)}"' for name in list(found)[:MAX_CLAIMS])
        yield f"ResourceClaimTemplate {names}"
