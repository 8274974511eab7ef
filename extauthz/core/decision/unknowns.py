"""What the gate does not know of a write, and what it does about it (docs/design.md rule 6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from extauthz.core.decision import sentences
from extauthz.core.decision.cluster_state import ClusterState
from extauthz.core.decision.evaluation import Evaluation
from extauthz.core.decision.policy import Policy
from extauthz.core.model import Decision, Fetch, NeedsFetch, OnUnknown, Requester, Unknown, Unreadable, Verdict


def unreadable(
    state: ClusterState, policy: Policy, found: Unreadable, decision_id: str, requester: Requester | None
) -> Decision:
    """The answer to a request that may be a write and cannot be read."""
    ref, coverage = found.ref, state.ledger.coverage
    if ref is not None and state.synced and not state.coverage_is_stale and not coverage.may_cover(ref.namespace):
        return Decision(decision_id, Verdict.ALLOW, "no-quota", "no quota covers this namespace", ref)
    concerned = coverage.candidates(ref.namespace) if ref is not None else ()
    allow = policy.on(Unknown.UNREADABLE, concerned, requester) == "allow"
    why = f"cannot read it ({found.code}): {found.detail}"
    verdict = Verdict.ALLOW if allow else Verdict.UNAVAILABLE
    return Decision(decision_id, verdict, found.code, sentences.unavailable(ref, why), ref)


def unsynced(asked: Evaluation) -> Decision | None:
    """Step: the quotas or the cluster are not known yet."""
    if asked.state.synced:
        return None
    why = "has not seen the cluster yet" if asked.state.quotas_known else "does not know the quotas yet"
    return asked.unavailable("unsynced", f"{why}; try again shortly", _setting(asked, Unknown.UNSYNCED))


def outdated_namespace(asked: Evaluation) -> Decision | None:
    """Step: nothing is known to cover its namespace, but quotas or labels may have changed since."""
    state = asked.state
    if not state.coverage_is_stale or state.ledger.coverage.may_cover(asked.ref.namespace):
        return None
    return _outdated(asked)


def outdated_coverage(asked: Evaluation) -> Decision | None:
    """Step: no quota is known to cover it, but its labels or the quotas may have changed since."""
    if asked.state.stale_why is None or asked.proposal.after.envelope_in:
        return None
    return _outdated(asked)


def _outdated(asked: Evaluation) -> Decision | None:
    observed = asked.observed
    if observed is not None and not asked.alters and (asked.pending_write.replicas or 0) <= observed.replicas:
        return None
    setting = _setting(asked, Unknown.STALE)
    why = f"may be out of date, so cannot tell which quotas cover it: {asked.state.stale_why}"
    return asked.unavailable("stale", why, setting) if setting == "deny" else None


def unseen(asked: Evaluation) -> Decision | None:
    """Step: no source has shown the workload or its namespace. It may have been created a moment ago."""
    namespace = asked.ref.namespace
    if not asked.is_known:
        reason, why = "unknown-workload", f'has not seen it in namespace "{namespace}", so cannot tell what it costs'
    elif namespace not in asked.state.ledger.coverage.namespaces:
        why = f'has not seen the namespace "{namespace}", so cannot tell which quotas cover it'
        reason = "unknown-namespace"
    else:
        return None
    answer = asked.unavailable(reason, why, _setting(asked, Unknown.WORKLOAD))
    return answer._replace(needs=NeedsFetch(Fetch.WORKLOAD, asked.write.ref))


def _setting(asked: Evaluation, unknown: Unknown) -> OnUnknown:
    """What to do if it is not known which quotas of the namespace a write concerns."""
    return asked.policy.on(unknown, asked.state.ledger.coverage.candidates(asked.ref.namespace), asked.requester)


def held(asked: Evaluation) -> Decision | None:
    """Step: it grows nothing by itself, but a count that an earlier run has allowed may still land on it."""
    until_s = asked.state.hold_until_s
    if until_s is None or asked.proposal.grows or not asked.alters or _setting(asked, Unknown.UNSYNCED) == "allow":
        return None
    left = _left(until_s - asked.now_s)
    why = f"restarted and grants no change of a template, labels or owner for {left}: a count that was allowed before"
    return asked.unavailable("hold", f"{why} may still land on it")


def _left(left_s: float) -> str:
    return sentences.about(left_s) if left_s > 0 else "a little longer"


def of_growth(asked: Evaluation) -> Decision | None:
    """Step: it grows, and something about that is not known. What may pass is still checked."""
    proposal, state = asked.proposal, asked.state
    if not proposal.grows:
        return None
    if state.is_certain and not (proposal.after.unknown or proposal.unpriced or proposal.illegible):
        return None  # nearly always
    unknowns = list(_of_growth(asked))
    for setting, reason, why in unknowns:
        if setting == "deny":
            return asked.unavailable(reason, why)
    _, reason, why = unknowns[0]
    asked.reason, asked.why = reason, f"fits as far as can be told; the quota gate {why}"
    return None


class _NotKnown(NamedTuple):
    """Something that the gate does not know, and what to do about it."""

    setting: OnUnknown
    reason: str
    why: str


def _of_growth(asked: Evaluation) -> Iterator[_NotKnown]:
    """Everything that is unknown about growth, the gravest first."""
    policy, proposal, state, who = asked.policy, asked.proposal, asked.state, asked.requester
    grown = proposal.grows
    if state.hold_until_s is not None:
        left = _left(state.hold_until_s - asked.now_s)
        why = f"restarted and grants no growth for {left}: writes that were allowed before may still land"
        yield _NotKnown(policy.on(Unknown.UNSYNCED, grown, who), "hold", why)
    if state.stale_why is not None:
        yield _NotKnown(policy.on(Unknown.STALE, grown, who), "stale", f"may be out of date: {state.stale_why}")
    if proposal.illegible:
        concerned = [node for node in grown if node.illegible]
        why = f"cannot read the limits of quota {', '.join(proposal.illegible)}"
        yield _NotKnown(policy.on(Unknown.STALE, concerned or grown, who), "illegible-quota", why)
    if proposal.after.unknown:
        setting = policy.on(Unknown.FOOTPRINT, grown, who)
        yield _NotKnown(setting, "unknown-footprint", "does not know what one of its pods costs")
    if proposal.unpriced:
        concerned = [node for node in grown if node.quota.name in proposal.unpriced]
        why = f"does not know what quota {', '.join(proposal.unpriced)} has in use: some workload has no known cost"
        yield _NotKnown(policy.on(Unknown.FOOTPRINT, concerned, who), "unknown-usage", why)
