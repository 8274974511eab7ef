"""One write in the steps of a decision, and what each step has found out for later ones."""

from __future__ import annotations

from dataclasses import dataclass, field

from extauthz.core.decision import sentences
from extauthz.core.decision.bounds import Bounds
from extauthz.core.decision.cluster_state import ClusterState
from extauthz.core.decision.policy import Policy
from extauthz.core.ledger.entry import Entry
from extauthz.core.ledger.ledger import Proposal
from extauthz.core.ledger.pending_write import PendingWrite
from extauthz.core.model import (
    Decision,
    Growth,
    Observed,
    OnUnknown,
    Operation,
    PolicyAnswer,
    Requester,
    Shortage,
    Unspecified,
    Verdict,
    WorkloadRef,
    Write,
)
from extauthz.core.quota.tree import QuotaNode


@dataclass(slots=True)
class Evaluation:
    """One write, what is known, and what was found out so far."""

    id: str
    write: Write
    ref: WorkloadRef
    """Its key in the ledger. A create with ``generateName`` has one of its own."""
    now_s: float
    charge: bool
    source: str
    requester: Requester | None
    entry: Entry | None
    """The ledger's entry for it."""
    observed: Observed | None
    state: ClusterState
    policy: Policy
    bounds: Bounds | None
    """Bounds of replicas, in addition to quotas; ``None``: there are none."""

    creates: bool = field(init=False)
    """It creates the object, where there is none."""

    # What steps find out. Each is set by one step and read by later ones only.
    pending_write: PendingWrite = field(init=False)
    """What it may leave."""
    born: Observed | None = field(init=False)
    """The object that a create makes where there is none."""
    free: str = field(init=False)
    """Why nothing of it is recorded; empty: it is recorded."""
    proposal: Proposal = field(init=False)
    twin: PendingWrite | None = None
    """The pending write that also stands for this one."""

    growth: Growth | None = None
    """What policies are asked; ``None``: there are none, or it grows nothing."""
    policies: tuple[PolicyAnswer, ...] = ()
    """What policies have against it that refuses nothing."""
    bound: dict[QuotaNode, object] | None = None
    """What the expressions of a quota may use, by the quota."""

    # What a grant says.
    reason: str = "fits"
    why: str = "fits every quota"
    remark: str = ""
    """What was uncertain about its bound."""
    max_scale: int | None = None
    unspecified: tuple[Unspecified, ...] = ()
    """What only auditing quotas would have refused."""

    def __post_init__(self) -> None:
        self.creates = self.write.operation is Operation.CREATE

    @property
    def base(self) -> Observed | None:
        """What the write finds: the observed object, or the one that a pending create makes."""
        if self.observed is not None or self.entry is None or not self.entry.is_known:
            return self.observed
        return self.entry.born

    @property
    def is_known(self) -> bool:
        """There is an object, or the write creates it."""
        return self.creates or (self.entry is not None and self.entry.is_known)

    @property
    def alters(self) -> bool:
        """It leaves another template, labels or owner than are observed. A count that an earlier run has allowed may
        still land on that, and come to more."""
        pending_write, observed = self.pending_write, self.observed
        return pending_write.touches and (observed is None or pending_write.changes(observed))

    def propose(self) -> None:
        """Work out its effect on all quotas, and record nothing."""
        self.proposal = self.state.ledger.propose(self.ref, self.pending_write, self.born, self.entry)

    def unavailable(self, reason: str, why: str, setting: OnUnknown = "deny") -> Decision:
        """A refusal because something is not known. With ``setting`` "allow" the write passes, with the same reason."""
        verdict = Verdict.ALLOW if setting == "allow" else Verdict.UNAVAILABLE
        return self.answer(verdict, reason, sentences.unavailable(self.write.ref, why))

    def answer(
        self,
        verdict: Verdict,
        reason: str,
        sentence: str,
        replicas: int | None = None,
        shortages: tuple[Shortage, ...] = (),
        audit: tuple[Shortage, ...] = (),
        fits: int | None = None,
        pending_write: str | None = None,
        *,
        max_scale: int | None = None,
        pends: bool = False,
        grows: bool = False,
    ) -> Decision:
        """The decision, with the workload that it is about."""
        write = self.write
        before = self.observed.replicas if self.observed is not None else None
        return Decision(
            self.id,
            verdict,
            reason,
            sentence,
            write.ref,
            write.operation,
            write.scale,
            write.dry_run,
            replicas,
            before,
            shortages,
            audit,
            fits,
            pending_write,
            max_scale,
            pends,
            grows,
        )
