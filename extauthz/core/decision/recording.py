"""The last phase: what was allowed and may still land is recorded, within bounds.

How many writes may be pending at once is bounded: of one workload, one client, one tree of quotas, and in all. Each
takes room and memory until it has landed or no longer can. So a flood must be stopped, and only for its sender: the
bounds for one client and for one tree are far below the bound for all. Of identical retries ``MAX_IDENTICAL`` are kept.
After that the newest one stands for those that follow.

A workload is not brought under other quotas while something is charged where it counts now, and follows it. That is a
resize of one of its pods, or a workload that is about to join its family. Both last seconds. Autoscalers move nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from extauthz.core.decision import sentences
from extauthz.core.decision.known import Asked, Grounds
from extauthz.core.kinds import PODS, RESIZES
from extauthz.core.ledger.coverage import leaves
from extauthz.core.ledger.entry import Entry
from extauthz.core.ledger.ledger import Ledger, Proposal
from extauthz.core.ledger.pending_write import PendingWrite, State
from extauthz.core.ledger.pending_writes import UNCOVERED
from extauthz.core.model import NO_PRECONDITION, Decision, Shortage, Unspecified, Verdict

WOULD_REFUSE = "would-refuse"
"""Allowed, and quotas in mode Audit would have refused it."""

MOVE_WAITS: Final = "move-waits"

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


# What a grant says, and what it leaves.


class Recorded(NamedTuple):
    """How the ledger follows an allowed write."""

    remark: str
    """Why it is not recorded; empty: it is."""
    pends: bool = False
    id: str | None = None
    """Id of the pending write that stands for it."""


def granted(asked: Asked, proposal: Proposal, grounds: Grounds) -> Decision:
    """Nothing speaks against it."""
    recorded = record(asked, proposal, grounds)
    reason, why = _would_refuse(asked, proposal, grounds) or (grounds.reason, grounds.why)
    answer = asked.answer(
        Verdict.ALLOW,
        reason,
        why + recorded.remark + grounds.remark,
        None if asked.resizes else asked.pending_write.replicas,
        audit=proposal.growth.audit,
        pending_write=recorded.id,
        max_scale=grounds.max_scale,
        pends=recorded.pends,
        grows=bool(proposal.growth.grows) or asked.may_raise,
    )
    if grounds.unspecified or grounds.policies:
        return answer._replace(unspecified=grounds.unspecified, policies=grounds.policies)
    return answer


def record(asked: Asked, proposal: Proposal, grounds: Grounds) -> Recorded:
    """Record what was allowed and may still land."""
    if asked.free:
        return Recorded(asked.free)
    if not asked.question.charge:
        return Recorded("; a question, charged nothing", pends=True)
    pending_write, ledger = asked.pending_write, asked.state.ledger
    twin = _twin(pending_write, proposal)
    if twin is not None:
        ledger.pending.renew(twin, pending_write.expires_s)
        return Recorded("", pends=True, id=twin.id)
    if pending_write.labels:  # no count alone
        pending_write.held_bytes = held_by(pending_write)
    ledger.record(proposal, pending_write)
    if grounds.growth is not None:
        asked.state.policies.reserve(grounds.growth)
    return Recorded("", True, pending_write.id)


def _would_refuse(asked: Asked, proposal: Proposal, grounds: Grounds) -> tuple[str, str] | None:
    """Reason and sentence of a write that quotas in mode Audit would have refused; ``None``: none would."""
    short = proposal.growth.audit
    if not (short or grounds.unspecified):
        return None
    ref, rows = asked.write.ref, [row for row in grounds.unspecified if row.audits]
    would = [sentences.exceeded(ref, short, None, 0)] if short else []
    would += [sentences.must_specify(ref, rows)] if rows else []
    return WOULD_REFUSE, f"allowed, as {_names([*short, *rows])} only audits; else: {'; '.join(would)}"


def _names(rows: Sequence[Shortage | Unspecified]) -> str:
    return ", ".join(dict.fromkeys(f"workspace quota {row.quota}" for row in rows))


# Bounds of what pends.


def full(asked: Asked, proposal: Proposal, grounds: Grounds) -> Decision | Grounds:
    """The refusal of one more write where that would be too many, and no pending write stands for it too."""
    if asked.free or _twin(asked.pending_write, proposal) is not None:
        return grounds
    found = _bound_met(asked, proposal)
    if found is None:
        return grounds
    reason, whose = found
    latest = sentences.about(asked.state.policy.window_s)
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


def _bound_met(asked: Asked, proposal: Proposal) -> tuple[str, str] | None:
    """The code of the bound that is met, and whose writes they are; ``None``: none is met.

    Nobody has more pending writes than there are in all.
    """
    policy, ledger, pending_write = asked.state.policy, asked.state.ledger, asked.pending_write
    source, in_all = asked.question.source, len(ledger.pending)
    if source and in_all >= policy.max_intents_per_source <= ledger.pending.of_source(source):
        return "too-many-intents-of-source", f"{policy.max_intents_per_source} writes of {source}"
    live = proposal.entry.pending_writes or {}
    if _is_one_too_many(pending_write, live, policy.max_intents_per_workload):
        return "too-many-intents", f"{policy.max_intents_per_workload} different writes to it"
    if in_all >= policy.max_intents:
        return "too-many-intents", f"{in_all} writes"
    if in_all >= policy.max_intents_per_tree:
        for root in proposal.step.after.trees:
            if ledger.pending.of_tree(root) >= policy.max_intents_per_tree:
                return "too-many-intents-in-tree", f"{policy.max_intents_per_tree} writes under workspace quota {root}"
    return _memory_met(ledger, proposal, held_by(pending_write)) if pending_write.labels else None


def _memory_met(ledger: Ledger, proposal: Proposal, more: int) -> tuple[str, str] | None:
    """The same of what changes hold in memory. A write of a count alone is never refused for it."""
    for quota in leaves(proposal.step.after.envelope_in) or UNCOVERED:
        held = ledger.pending.bytes_held_in(quota)
        if held + more > (MAX_BYTES_IN_QUOTA if quota else MAX_BYTES_UNCOVERED):
            whose = f"under workspace quota {quota}" if quota else "that no workspace quota covers"
            return "too-many-bytes-in-quota", f"{held // 1024} KiB of changes {whose}"
    if ledger.pending.bytes_held + more > MAX_BYTES:
        return "too-many-bytes", f"{ledger.pending.bytes_held // 1024} KiB of changes"
    return None


def held_by(pending_write: PendingWrite) -> int:
    """Bytes of the templates and labels that it may leave. A write of a count alone holds none worth a bound."""
    return sum(len(template.text) for template in pending_write.templates) + sum(map(len, pending_write.labels))


def _is_one_too_many(pending_write: PendingWrite, live: Mapping[str, PendingWrite], most: int) -> bool:
    """Whether there are ``most`` different effects already. A retry adds none."""
    if len(live) < most:
        return False
    different = {one.effect for one in live.values()}
    return pending_write.effect not in different and len(different) >= most


# Moves.


def move_waits(asked: Asked) -> Decision | None:
    """The refusal of a write that may move the workload while what follows it may still land."""
    pending_write, observed = asked.pending_write, asked.observed
    if asked.entry is None or observed is None or not pending_write.labels:
        return None  # nearly always: a count moves nothing
    if not replace(pending_write, templates=()).changes(observed):
        return None
    followers = _followers_of(asked.entry, asked.state.ledger)
    if not followers:
        return None
    left = sentences.about(max(one.expires_s for one in followers) - asked.question.now_s)
    why = "cannot move it to other quotas while changes of its pods or members may still land; try again in"
    return asked.unavailable(MOVE_WAITS, f"{why} {left} at the latest")


def _followers_of(entry: Entry, ledger: Ledger) -> list[PendingWrite]:
    """Writes that are charged where ``entry`` counts now: what may enter its family, and resizes of its pods."""
    found = [one for one in entry.live_pending_writes() if not ledger.pending.follows(one.id)]
    for ref in ledger.workloads.of_unit(RESIZES, entry.ref.namespace):
        pod, resizes = ledger.observations.pod(ref._replace(resource=PODS[1])), ledger.workloads.get(ref)
        if pod is not None and resizes is not None and pod.root.ref == entry.root.ref:
            found += resizes.live_pending_writes()
    return found
