"""The first phase: what is asked, what is known of the workload, and what the write may leave of it.

A pod that is resized in place is in a group of pods, which its owner covers. So what a resize adds is an entry of its
own beside that, in the quotas in which the pod counts. It ends with the next version of the pod, which then counts as
it is. Two resizes may follow each other before the gate has seen the first. So each is charged with what it adds to the
least that the pod is known to hold: by the gate, or by the API server.
"""

from __future__ import annotations

from typing import NamedTuple

from extauthz.core.decision import sentences
from extauthz.core.decision.cluster_state import ClusterState
from extauthz.core.kinds import PODS, RESIZES
from extauthz.core.ledger.entry import Entry
from extauthz.core.ledger.pending_write import PendingWrite, is_newer
from extauthz.core.ledger.pod_costs import NamespaceCosts
from extauthz.core.model import (
    ANY_LABELS,
    NO_EVIDENCE,
    Amounts,
    Decision,
    Evidence,
    Growth,
    Labels,
    NeedsFetch,
    Observed,
    OnUnknown,
    Operation,
    PolicyAnswer,
    Precondition,
    Requester,
    Resize,
    Template,
    Todo,
    Unspecified,
    Verdict,
    WorkloadRef,
    Write,
)
from extauthz.core.objects.workloads import intern


class Asking(NamedTuple):
    """Who asks, when, and how."""

    id: str
    now_s: float
    source: str
    charge: bool
    """``False``: nothing is recorded."""
    requester: Requester | None


class Case(NamedTuple):
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
        before, after = costs.one(observed.template), costs.highest(write.templates)
        return costs.unknown or any(amount > before.get(key, 0) for key, amount in after.items())

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
        )


class Grounds(NamedTuple):
    """Why a write may pass, as far as it was judged, and what a grant says of that."""

    reason: str = "fits"
    why: str = "fits every quota"
    remark: str = ""
    """What was uncertain about its bound."""
    max_scale: int | None = None
    unspecified: tuple[Unspecified, ...] = ()
    """What only auditing quotas would have refused."""
    policies: tuple[PolicyAnswer, ...] = ()
    """What policies have against it that refuses nothing."""
    growth: Growth | None = None
    """What policies were asked; ``None``: there are none, or it grows nothing."""


FITS = Grounds()


def of_write(state: ClusterState, write: Write, question: Asking) -> Case:
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
            takes_up = state.ledger.ownership.strays(ref, made) if creates else ()
            templates = tuple(dict.fromkeys((made.template, *takes_up)))
    pending_write = PendingWrite(
        question.id, write.replicas, templates, labels, False, write.precondition, expires_s, source=question.source
    )
    if made is not None:
        pending_write.creates, pending_write.owner = creates, made.owner
        pending_write.frees = made.owner is None and (creates or _may_have_owner(entry))
    expected = made if creates and observed is None else None
    free = _why_not_recorded(state, write.dry_run) or _why_it_cannot_land(observed, pending_write)
    return Case(question, write, ref, state, entry, observed, creates, pending_write, expected, free)


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
    if not version or version != observed.resource_version:
        return False
    return (
        (pending_write.replicas is None or pending_write.replicas <= observed.replicas)
        and all(template == observed.template for template in pending_write.templates)
        and all(labels == observed.labels for labels in pending_write.labels)
        and not pending_write.frees
        and pending_write.owner in (None, observed.owner)
    )


def of_resize(state: ClusterState, resize: Resize, question: Asking) -> Case:
    """What is known of a resize, as of a write that makes what it adds.

    Raises:
        FootprintError: the pod is none that the API server would accept.
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
    return Case(
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
    return {key: amount for key, amount in added.items() if amount > 0}
