"""What a write takes of every quota that covers the workload, and whether there is room for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from extauthz.core.decision import sentences
from extauthz.core.decision.evaluation import Evaluation
from extauthz.core.ledger.coverage import Nodes
from extauthz.core.model import Amounts, Decision, Requester, Shortage, Verdict

EXCEEDED = "exceeded-quota"


def weighed(asked: Evaluation) -> None:
    """Step: what it takes. A write that grows nothing passes whatever quotas say."""
    asked.propose()
    if asked.proposal.growth.grows:
        return
    if asked.proposal.step.after.envelope_in:
        asked.reason, asked.why = "no-growth", "grows nothing"
    else:
        asked.reason, asked.why = "no-quota", "no quota covers this workload"


def exceeded(asked: Evaluation) -> Decision | None:
    """Step: some quota has no room for what grows."""
    short, free = refusing(asked)
    if not short:
        return None
    proposal, pending_write, ledger = asked.proposal, asked.pending_write, asked.state.ledger
    fits = _largest(asked, free)
    short = _tightest_first(asked, short, fits, free)
    sentence = sentences.exceeded(asked.write.ref, short, fits, ledger.surge(proposal, pending_write))
    audit = proposal.growth.audit
    denied = asked.answer(Verdict.DENY, EXCEEDED, sentence, pending_write.replicas, short, audit, fits)
    return denied._replace(never_fits=never_fits(proposal.step.own.envelope.amounts, short))


def refusing(asked: Evaluation) -> tuple[tuple[Shortage, ...], Nodes]:
    """What has too little room, of quotas that bind who asks; and the quotas that do not."""
    growth = asked.proposal.growth
    if not growth.shortages:
        return (), ()
    free = unbound(growth.grows, asked.requester)
    short = _of_others(growth.shortages, free)
    if not short:
        asked.reason, asked.why = "not-bound", f"fits every quota that binds who asks; {_names(free)} does not"
    return short, free


def largest(asked: Evaluation) -> int | None:
    """The largest count that quotas have room for; ``None``: they have room for it, or none can be named."""
    short, free = refusing(asked)
    return _largest(asked, free) if short else None


def never_fits(alone: Amounts, short: Iterable[Shortage]) -> bool:
    """Whether what a workload would come to by itself is more than a limit, whatever others use."""
    return any(alone.get(row.resource, 0) > row.hard for row in short)


def _largest(asked: Evaluation, free: Nodes) -> int | None:
    """The largest count that would be granted; ``None``: none can be named.

    The ledger takes it that a count costs what its own pods cost. But a count that pends, or stays, may meet a new
    template too, or a template that pends a count. Then a smaller count of this write may not help.
    """
    fits = asked.state.ledger.largest_replicas(asked.ref, asked.pending_write, asked.proposal, free)
    is_plain = asked.pending_write.counts_alone and not asked.proposal.entry.pending_writes
    if fits is None or is_plain or not _short_at(asked, fits, free):
        return fits
    return None


def _tightest_first(
    asked: Evaluation, short: tuple[Shortage, ...], fits: int | None, free: Nodes
) -> tuple[Shortage, ...]:
    """Quotas that have no room for one more than ``fits`` come first. Rows of one quota stay together."""
    if fits is None or all(row.quota == short[0].quota for row in short):
        return short
    tight = _short_at(asked, fits + 1, free)
    return tuple(sorted(short, key=lambda row: row.quota not in tight))


def _short_at(asked: Evaluation, count: int, free: Nodes) -> set[str]:
    """Quotas without room for the same write with another count."""
    tried = replace(asked.pending_write, replicas=count)
    growth = asked.state.ledger.propose(asked.ref, tried, asked.born, asked.entry).growth
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
