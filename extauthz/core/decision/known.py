"""The first phase: what is context, what is known of the workload, and what the write may leave of it.

A pod that is resized in place is in a group of pods, which its owner covers. So what a resize adds is an entry of its
own beside that, in the quotas in which the pod counts. It ends with the next version of the pod, which then counts as
it is. Two resizes may follow each other before the gate has seen the first. So each is charged with what it adds to the
least that the pod is known to hold: by the gate, or by the API server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from extauthz.core import texts
from extauthz.core.decision import sentences
from extauthz.core.decision.cluster_state import ClusterState
from extauthz.core.errors import ObjectError
from extauthz.core.footprint import UNSEEN_CLASS
from extauthz.core.kinds import PODS, RESIZES
from extauthz.core.ledger.entry import Entry, PendingWrite, is_newer
from extauthz.core.ledger.ledger import Proposal
from extauthz.core.ledger.pod_costs import NamespaceCosts
from extauthz.core.model import (
    ANY_LABELS,
    NO_EVIDENCE,
    Amounts,
    Decision,
    Evidence,
    Fetch,
    Growth,
    Labels,
    NeedsFetch,
    NotACount,
    Observed,
    OnUnknown,
    Operation,
    PolicyAnswer,
    Precondition,
    Requester,
    Resize,
    Template,
    Todo,
    Unknown,
    Unreadable,
    Unspecified,
    Verdict,
    WorkloadRef,
    Write,
)
from extauthz.core.objects.workloads import intern
from extauthz.core.quota.tree import QuotaNode


class Asking(NamedTuple):
    """Who asks, when, and how."""

    id: str
    now_s: float
    source: str
    charge: bool
    """``False``: nothing is recorded."""
    requester: Requester | None


class WriteContext(NamedTuple):
    """One write, what is known, and what it may leave. No phase changes it."""

    question: Asking
    write: Write
    ref: WorkloadRef
    """Its key in the ledger. A create with ``generateName`` has one of its own."""
    state: ClusterState
    entry: Entry | None
    """The ledger's entry for it."""
    observed: Observed | None
    creates: bool
    """It creates the object, where there is none."""
    pending_write: PendingWrite
    """What it may leave, in the form that the ledger follows."""
    expected: Observed | None
    """The object that a create makes where there is none."""
    free: str
    """Why nothing of it is recorded; empty: it is recorded."""
    counts_alone: bool
    """It may change a count and nothing else (``PendingWrite.counts_alone``)."""
    lowers: bool
    """A count that is no higher than what is observed: it takes no room, and is never refused for want of it."""
    resizes: bool = False
    """It resizes a pod."""
    adds: bool = True
    """``False``: a resize to no more than the pod holds. It passes whatever is not known of quotas."""

    @property
    def base(self) -> Observed | None:
        """What the write finds: the observed object, or the one that a pending create makes."""
        if self.observed is not None or self.entry is None or not self.entry.is_known:
            return self.observed
        return self.entry.expected

    @property
    def is_known(self) -> bool:
        """There is an object, or the write creates it."""
        return self.creates or (self.entry is not None and self.entry.is_known)

    @property
    def has_count(self) -> bool:
        """A smaller count may be asked for: it is no pod, and its kind has a scale."""
        shapes = self.state.shapes.get(self.ref[:2], {})
        return self.write.ref[:2] != PODS and all(one.replicas for one in shapes.values())

    @property
    def alters(self) -> bool:
        """It leaves another template, labels or owner than are observed."""
        pending_write, observed = self.pending_write, self.observed
        return pending_write.touches and (observed is None or pending_write.changes(observed))

    @property
    def may_raise(self) -> bool:
        """It alters what a count of an earlier run may land on, so that this may come to more: a pod costs more, or
        counts in other quotas or families."""
        write, observed, ledger = self.pending_write, self.observed, self.state.ledger
        if observed is None or self.entry is None or not self.alters:
            return self.alters
        if write.frees or write.owner not in (None, observed.owner):
            return True
        nodes = ledger.coverage.nodes(self.ref.namespace, observed.labels)
        moved = [one for one in write.labels if one != observed.labels]
        if any(self.entry.head is not None or ledger.coverage.nodes(self.ref.namespace, one) != nodes for one in moved):
            return True
        costs = NamespaceCosts(self.ref.namespace, ledger.pod_costs)
        return costs.is_dearer(write.templates, observed.template) or costs.unknown

    def unavailable(
        self, reason: str, why: str, setting: OnUnknown = "deny", needs: NeedsFetch | None = None
    ) -> Decision:
        """A refusal because something is not known. With ``setting`` "allow" the write passes, with the same reason."""
        verdict = Verdict.ALLOW if setting == "allow" else Verdict.UNAVAILABLE
        return self.answer(verdict, reason, sentences.unavailable(self.write.ref, why), todo=needs)

    def answer(
        self,
        verdict: Verdict,
        reason: str,
        sentence: str,
        replicas: int | None = None,
        evidence: Evidence = NO_EVIDENCE,
        todo: Todo | None = None,
        pending_write: str | None = None,
    ) -> Decision:
        """The decision, with the workload that it is about."""
        write = self.write
        before = self.observed.replicas if self.observed is not None else None
        return Decision(
            self.question.id,
            verdict,
            reason,
            sentence,
            write.ref,
            write.operation,
            write.scale,
            write.dry_run,
            replicas,
            before,
            pending_write,
            None,
            evidence,
            todo,
            self.counts_alone,
        )


class Grant(NamedTuple):
    """Why a write may pass, as far as it was judged, and what a grant says of that."""

    reason: str = "fits"
    why: str = "fits every quota"
    remark: str = ""
    """What was uncertain about its bound."""
    unspecified: tuple[Unspecified, ...] = ()
    """What only auditing quotas would have refused."""
    policies: tuple[PolicyAnswer, ...] = ()
    """What policies have against it that refuses nothing."""
    growth: Growth | None = None
    """What policies were asked; ``None``: there are none, or it grows nothing."""


FITS = Grant()


def of_write(state: ClusterState, write: Write, question: Asking) -> WriteContext:
    """What is known of a write."""
    ref = write.ref if write.ref.name else write.ref._replace(name=f"#{question.id}")
    entry = state.ledger.workloads.get(ref)
    observed = entry.observed if entry is not None else None
    creates, made, policy = write.operation is Operation.CREATE, write.object, state.policy
    expires_s = question.now_s + (policy.window_s if made is None else policy.for_admitted_s)
    templates: tuple[Template, ...] = ()
    labels: tuple[Labels, ...] = ()
    if made is not None:
        labels = (made.labels,)
        if made.template is not None:  # else it is a custom resource: its pods say what it costs
            takes_up = state.ledger.ownership.adoptable(ref, made) if creates else ()
            templates = tuple(dict.fromkeys((made.template, *takes_up)))
    pending_write = PendingWrite(
        question.id, write.replicas, templates, labels, False, write.precondition, expires_s, source=question.source
    )
    if made is not None:
        pending_write.creates, pending_write.owner = creates, made.owner
        pending_write.frees = made.owner is None and (creates or _may_have_owner(entry))
    expected = made if creates and observed is None else None
    free = _why_not_recorded(state, write.dry_run) or _why_it_cannot_land(observed, pending_write)
    is_lower = observed is not None and write.replicas is not None and write.replicas <= observed.replicas
    lowers = made is None and is_lower
    return WriteContext(
        question, write, ref, state, entry, observed, creates, pending_write, expected, free, made is None, lowers
    )


def _may_have_owner(entry: Entry | None) -> bool:
    """There is a controller, or may come to be one."""
    observed = entry.observed if entry is not None else None
    pending = entry.live_pending_writes() if entry is not None else ()
    return (observed is not None and observed.owner is not None) or any(one.owner is not None for one in pending)


def _why_not_recorded(state: ClusterState, dry_run: bool) -> str:
    if dry_run:
        return "; a question, charged nothing"
    return "; mode audit, charged as observed" if state.policy.mode == "audit" else ""


def _why_it_cannot_land(observed: Observed | None, pending_write: PendingWrite) -> str:
    version = pending_write.precondition.resource_version
    if version is None or observed is None:
        return ""
    if is_harmless(observed, pending_write):
        return "; can land only on what is observed"
    if is_newer(observed.resource_version, version):  # passed already (design.md L3d)
        return "; can land no more: a newer version is observed"
    return ""


def is_harmless(observed: Observed, pending_write: PendingWrite) -> bool:
    """The API server will take it only on exactly what is observed, and it raises neither count nor cost of that.

    Each by itself: a dearer template under fewer replicas would meet the count of another write that lands later.
    """
    version = pending_write.precondition.resource_version
    if not version or version != observed.resource_version or pending_write.changes(observed):
        return False
    return pending_write.replicas is None or pending_write.replicas <= observed.replicas


def templates(context: WriteContext, proposal: Proposal) -> Iterable[Template]:
    """The one that it brings; of a count those that it may multiply.

    Of each write the first. A server-side apply may also remove fields that its manager owned and no longer names; the
    gate cannot know these. If that made the template unknown, every apply of any field would be refused. The removal
    is observed afterwards.
    """
    if context.pending_write.templates:
        return context.pending_write.templates[:1]
    shown, pending = proposal.entry.shown, proposal.entry.live_pending_writes()
    there = [shown.template] if shown is not None and shown.template is not None else []
    return [*there, *(one.templates[0] for one in pending if one.templates)]


def of_resize(state: ClusterState, resize: Resize, question: Asking) -> WriteContext:
    """What is known of a resize, as of a write that makes what it adds.

    Raises:
        ObjectError: the API server would not accept the pod.
    """
    seen = state.ledger.observations.pod(resize.ref)
    write = Write(resize.ref, Operation.UPDATE, False, resize.dry_run, 1, precondition=Precondition(resize.version))
    added = _added(state, resize, seen)
    pending_write = PendingWrite(
        id=question.id,
        replicas=1,
        templates=(Template(intern({"resize": dict(added)}).text),),
        labels=seen.family_labels() if seen is not None else (ANY_LABELS,),
        creates=True,
        precondition=write.precondition,
        expires_s=question.now_s + state.policy.for_admitted_s,
        source=question.source,
    )
    ref = resize.ref._replace(resource=RESIZES[1])
    free = _why_not_recorded(state, write.dry_run) or ("" if added else "; it holds as much already")
    return WriteContext(
        question,
        write,
        ref,
        state,
        state.ledger.workloads.get(ref),
        None,
        seen is not None,
        pending_write,
        pending_write.made,
        free,
        counts_alone=False,
        lowers=False,
        resizes=True,
        adds=bool(added),
    )


def _added(state: ClusterState, resize: Resize, seen: Entry | None) -> Amounts:
    """What it takes beyond the least that the pod is known to hold."""
    costs, namespace = state.ledger.pod_costs, resize.ref.namespace
    held = [costs.per_pod(namespace, resize.before)]
    if seen is not None and seen.observed is not None and seen.observed.template is not None:
        held.append(costs.per_pod(namespace, seen.observed.template))
    wanted = costs.per_pod(namespace, resize.after)
    added = {key: amount - min(one.get(key, 0) for one in held) for key, amount in wanted.items()}
    root = seen.root if seen is not None else None
    is_price = root is not None and root.observed is not None and root.observed.by_pods
    count = max(root.top_replicas(), 1) if root is not None and is_price else 1  # each replica costs what that pod does
    return {key: count * amount for key, amount in added.items() if amount > 0}


# What is not known, and what the gate does about it (design.md rule 6).


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


def missing(context: WriteContext) -> Decision | None:
    """The answer where it cannot be weighed: quotas, cluster, namespace or workload are not known."""
    state, namespace = context.state, context.ref.namespace
    if not (state.quotas_known and state.state_known):
        why = "has not seen the cluster yet" if state.quotas_known else "does not know the quotas yet"
        return context.unavailable("unsynced", f"{why}; try again shortly", _setting(context, Unknown.UNSYNCED))
    known = state.ledger.coverage.namespaces.get(namespace)
    if known is not None and not known.covered:  # but quotas or labels may have changed since
        return _outdated(context) if state.coverage_is_stale else None
    if context.observed is None and not context.is_known:  # it may have been created a moment ago
        reason, why = "unknown-workload", f'has not seen it in namespace "{namespace}", so cannot tell what it costs'
    elif known is None:
        why = f'has not seen the namespace "{namespace}", so cannot tell which quotas cover it'
        reason = "unknown-namespace"
    else:
        return None
    needs = NeedsFetch(Fetch.WORKLOAD, context.write.ref)
    return context.unavailable(reason, why, _setting(context, Unknown.WORKLOAD), needs)


def _outdated(context: WriteContext) -> Decision | None:
    observed = context.observed
    if observed is not None and not context.alters and (context.pending_write.replicas or 0) <= observed.replicas:
        return None
    setting = _setting(context, Unknown.STALE)
    why = f"may be out of date, so cannot tell which quotas cover it: {context.state.stale_why}"
    return context.unavailable("stale", why, setting) if setting == "deny" else None


def _setting(context: WriteContext, unknown: Unknown) -> OnUnknown:
    """What to do if it is not known which quotas of the namespace a write concerns."""
    state = context.state
    return state.policy.on(unknown, state.ledger.coverage.candidates(context.ref.namespace), context.question.requester)


# Once it is weighed.


def unseen_owner(context: WriteContext, proposal: Proposal, grant: Grant) -> Decision | Grant:
    """The refusal of a write that names an owner that no source has shown: nobody can tell what comes of that.

    What is made with an owner is charged by itself until that is seen.
    """
    joins = proposal.joins
    if joins is None or joins.labels != (ANY_LABELS,):
        return grant
    owner = joins.owner.ref
    why = f'has not seen its owner, {owner.resource} "{owner.name}", so cannot tell what that comes to'
    needs = NeedsFetch(Fetch.WORKLOAD, owner)
    return context.unavailable("unknown-workload", why, _setting(context, Unknown.WORKLOAD), needs)


def uncertain(context: WriteContext, proposal: Proposal, grant: Grant) -> Decision | Grant:
    """What it takes is known, and something that bears on that is not."""
    if context.state.stale_why is not None and not proposal.step.after.envelope_in:
        refused = _outdated(context)  # no quota is known to cover it, but its labels or the quotas may have changed
        if refused is not None:
            return refused
    if not proposal.growth.grows:
        return _held(context) or grant
    unknowns = list(_not_known(context, proposal))
    if not unknowns:
        return grant  # only quotas of others are counted anew
    needs = NeedsFetch(Fetch.COUNT, context.write.ref) if _counted(context, proposal) else None
    for setting, reason, why in unknowns:
        if setting == "deny":
            return context.unavailable(reason, why, needs=needs)
    _, reason, why = unknowns[0]
    return grant._replace(reason=reason, why=f"fits as far as can be told; the quota gate {why}")


def _counted(context: WriteContext, proposal: Proposal) -> list[QuotaNode]:
    """Quotas that it grows, and that are being counted anew."""
    return list(filter(context.state.ledger.usage.accounts.is_counting, proposal.growth.grows))


def _held(context: WriteContext) -> Decision | None:
    """It grows nothing by itself, but a count that an earlier run has allowed may still land on it."""
    until_s = context.state.hold_until_s
    if until_s is None or not context.may_raise or _setting(context, Unknown.UNSYNCED) == "allow":
        return None
    left = _left(until_s - context.question.now_s)
    why = f"grants no change of a template, labels or owner for {left}: a count that was allowed before"
    return context.unavailable("hold", f"{why} may still land on it")


def _left(left_s: float) -> str:
    return sentences.about(left_s) if left_s > 0 else "a little longer"


MAX_CLAIMS: Final = 8
"""Names in a sentence."""


class _NotKnown(NamedTuple):
    """Something that the gate does not know, and what to do about it."""

    setting: OnUnknown
    reason: str
    why: str


def _not_known(context: WriteContext, proposal: Proposal) -> Iterator[_NotKnown]:
    """Everything that is unknown about growth, the gravest first."""
    growth, state, who = proposal.growth, context.state, context.question.requester
    grown, policy = growth.grows, state.policy
    if state.hold_until_s is not None:
        left = _left(state.hold_until_s - context.question.now_s)
        why = f"grants no growth for {left}: writes that were allowed before may still land"
        yield _NotKnown(policy.on(Unknown.UNSYNCED, grown, who), "hold", why)
    if counted := _counted(context, proposal):
        why = "counts what quotas have in use anew, as quotas or costs have changed; try again in a second"
        yield _NotKnown(policy.on(Unknown.UNSYNCED, counted, who), "unsynced", why)
    if state.stale_why is not None:
        yield _NotKnown(policy.on(Unknown.STALE, grown, who), "stale", f"may be out of date: {state.stale_why}")
    timed = [node for node in grown if node.timed] if state.clock_why is not None else []
    if timed:
        why = f"cannot tell which amounts hold now: {state.clock_why}"
        yield _NotKnown(policy.on(Unknown.STALE, timed, who), "stale", why)
    if growth.illegible:
        why = f"cannot read the limits of quota {', '.join(node.quota.name for node in growth.illegible)}"
        yield _NotKnown(policy.on(Unknown.STALE, growth.illegible, who), "illegible-quota", why)
    if proposal.step.after.unknown:
        unseen = UNSEEN_CLASS in proposal.step.after.envelope.amounts
        why = f"does not know what one of its pods costs{': it has not seen their RuntimeClass' if unseen else ''}"
        yield _NotKnown(policy.on(Unknown.FOOTPRINT, grown, who), "unknown-footprint", why)
    if growth.unknown_devices:
        why = ": ".join(("does not know what devices its pods take", *_unknown_devices(context, proposal)))
        yield _NotKnown(policy.on(Unknown.FOOTPRINT, growth.unknown_devices, who), "unknown-footprint", why)
    if growth.unpriced:
        names = ", ".join(node.quota.name for node in growth.unpriced)
        why = f"does not know what quota {names} has in use: some workload has no known cost"
        yield _NotKnown(policy.on(Unknown.FOOTPRINT, growth.unpriced, who), "unknown-usage", why)


def _unknown_devices(context: WriteContext, proposal: Proposal) -> Iterator[str]:
    """What is not known, the first few by name; nothing, if it is no template of the write."""
    found: dict[str, None] = {}
    for template in templates(context, proposal):
        with suppress(ObjectError):
            found |= dict.fromkeys(context.state.ledger.pod_costs.unknown_devices(context.ref.namespace, template))
    if found:
        names = ", ".join(f'"{texts.cut(name, texts.MAX_NAME)}"' for name in list(found)[:MAX_CLAIMS])
        yield f"ResourceClaimTemplate {names}"
