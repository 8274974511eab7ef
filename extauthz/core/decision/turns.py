"""Whose turn it is, where the room of a tree of quotas does not do for all (``spec.sharing.turns``; ``ledger.line``).

A decision says where its workload would stand. Nobody stands there before it is answered (``answered``): a question is
never, so it takes no place.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace

from extauthz.core.decision import sentences
from extauthz.core.decision.known import Grant, WriteContext
from extauthz.core.ledger.ledger import Proposal
from extauthz.core.ledger.line import Lines, child_names
from extauthz.core.model import NOT_ITS_TURN, Amounts, Decision, Evidence, Place, Shortage, Turn, Verdict
from extauthz.core.quota.spec import Mode
from extauthz.core.quota.tree import QuotaNode


def kept(context: WriteContext, proposal: Proposal, grant: Grant) -> Decision | Grant:
    """Whether what it leaves of some quota is less than somebody needs who comes before it."""
    rank = context.state.policies.rank(grant.growth)
    everywhere = holding(context, proposal, rank)
    if not everywhere:
        return grant
    turns, now_s, tree = context.state.ledger.turns, context.question.now_s, everywhere[0].root
    nodes = [node for node in everywhere if node.root == tree]
    place, may_stand = _waits_at(context, proposal, tree, nodes, rank)
    before = max(turns.before(node, place, context.ref, now_s) for node in nodes)
    turn = Turn(nodes[0].quota.name, 1 + before, turns.again_s(tree, context.ref))
    replicas = context.pending_write.replicas if context.has_count else None
    fits = within(context, proposal, replicas, rank)
    evidence = Evidence(audit=proposal.growth.audit, fits=fits, places=(place,) if may_stand else (), turn=turn)
    sentence = sentences.not_its_turn(context.write.ref, turn, fits)
    return context.answer(Verdict.DENY, NOT_ITS_TURN, sentence, replicas, evidence)


def places(context: WriteContext, proposal: Proposal, short: Iterable[Shortage], rank: int) -> tuple[Place, ...]:
    """Where a workload of this rank stands that quotas have refused for want of room: in the lines of their trees.

    Not for what never fits.
    """
    rows, lines = list(short), context.state.ledger.turns.lines
    nodes = {node.quota.name: node for node in proposal.step.after.envelope_in}
    found: list[Place] = []
    for tree in dict.fromkeys(row.path[0] for row in rows if row.path[0] in lines):
        refusing = [nodes[row.quota] for row in rows if row.path[0] == tree]
        place, may_stand = _waits_at(context, proposal, tree, refusing, rank)
        if may_stand:
            found.append(place)
    return tuple(found)


def within(context: WriteContext, proposal: Proposal, fits: int | None, rank: int) -> int | None:
    """The largest count, of those up to ``fits``, that leaves what is kept for others who come before this rank."""
    before = proposal.step.before.envelope.replicas
    if fits is None or fits <= before:
        return fits

    def is_held(count: int) -> bool:
        return bool(holding(context, _with_count(context, count), rank))

    if not is_held(fits):
        return fits
    return before + bisect_right(range(before + 1, fits), False, key=is_held)


def answered(turns: Lines, decision: Decision, now_s: float) -> None:
    """An answer has been given: its workload takes its place in line, keeps it, or leaves it."""
    ref, evidence = decision.ref, decision.evidence
    if ref is None or decision.dry_run or decision.would is not None:
        return
    for place in evidence.places:
        turns.stand(ref, place, now_s)
    before, asked = decision.replicas_before, decision.replicas
    is_less = asked == 0 or (asked is not None and before is not None and asked < before)
    if evidence.never_fits or (decision.verdict is Verdict.ALLOW and (evidence.grows or is_less)):
        turns.leave(ref, by_count=decision.of_count)


def holding(context: WriteContext, proposal: Proposal, rank: int) -> list[QuotaNode]:
    """The quotas that keep for others what it would take, and bind who asks; those of one tree together.

    Args:
        rank: of who asks.
    """
    turns, requester = context.state.ledger.turns, context.question.requester
    tight = [one for one in turns.tight(proposal.step) if one[0].binds(requester)]
    found: list[QuotaNode] = []
    for tree in dict.fromkeys(node.root for node, *_ in tight):
        found += turns.holding(tight, _place(context, proposal, tree, rank), context.ref, context.question.now_s)
    return found


def _waits_at(
    context: WriteContext, proposal: Proposal, tree: str, nodes: Iterable[QuotaNode], rank: int
) -> tuple[Place, bool]:
    """Its place for what it needs of quotas of a tree, and whether it may stand there. In quotas of mode Clamp one
    replica more is enough, so one is what it waits for."""
    quotas = {node.quota.name: node.quota.mode for node in nodes}
    alone = context.has_count and all(mode is Mode.CLAMP for mode in quotas.values())
    needed = _one_more(context, proposal) if alone else proposal
    place = _place(context, needed, tree, rank, quotas)
    return place, _may_stand(context, needed, place)


def _place(
    context: WriteContext, proposal: Proposal, tree: str, rank: int, quotas: Iterable[str] | None = None
) -> Place:
    """Its place in the line of a tree, with what it needs of some quotas, or of all."""
    step, needs = proposal.step, dict[str, Amounts]()
    for node, key, need in context.state.ledger.usage.accounts.room_needed(step):
        if node.root == tree and (quotas is None or node.quota.name in quotas):
            needs[node.quota.name] = {**needs.get(node.quota.name, {}), key: need}
    at_zero = step.before.envelope.replicas == 0
    children, replicas = child_names(step.after.envelope_in, tree), context.pending_write.replicas or 0
    return Place(tree, children, needs, at_zero, replicas, rank, context.counts_alone)


def _may_stand(context: WriteContext, proposal: Proposal, place: Place) -> bool:
    """It is a workload that is there, and what it needs may come to fit."""
    waits_for = [node for node in proposal.step.after.envelope_in if node.quota.name in place.needs]
    never = proposal.step.never_fits(limit for node in waits_for for limit in node.hard.items())
    return bool(place.needs) and context.observed is not None and not context.resizes and not never


def _one_more(context: WriteContext, proposal: Proposal) -> Proposal:
    return _with_count(context, proposal.step.before.envelope.replicas + 1)


def _with_count(context: WriteContext, count: int) -> Proposal:
    """The same write with another count."""
    tried = replace(context.pending_write, replicas=count)
    return context.state.ledger.propose(context.ref, tried, context.expected, context.entry)
