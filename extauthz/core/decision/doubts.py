"""What the gate does not know of a write that grows a workload, and the setting for each (docs/design.md rule 6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from extauthz.core.decision import sentences
from extauthz.core.decision.policy import Policy
from extauthz.core.ledger.ledger import Proposal
from extauthz.core.model import OnUnknown, Unknown


class Doubt(NamedTuple):
    """Something that the gate does not know, and what is done about it."""

    setting: OnUnknown
    reason: str
    why: str


def of_growth(policy: Policy, proposal: Proposal, hold_left_s: float | None, stale: str | None) -> Iterator[Doubt]:
    """Everything that is unknown about growth, the gravest first. If all may pass, what is known is still checked.

    Args:
        hold_left_s: for how long the recovery hold goes on; ``None``: there is none.
        stale: why quotas or state may be out of date; ``None``: they are not.
    """
    grown = proposal.grows
    if hold_left_s is not None:
        left = sentences.about(hold_left_s) if hold_left_s > 0 else "a little longer"
        why = f"restarted and grants no growth for {left}: writes that were allowed before may still land"
        yield Doubt(policy.on(Unknown.UNSYNCED, grown), "hold", why)
    if stale is not None:
        yield Doubt(policy.on(Unknown.STALE, grown), "stale", f"may be out of date: {stale}")
    if proposal.illegible:
        concerned = [node for node in grown if node.illegible]
        why = f"cannot read the limits of quota {', '.join(proposal.illegible)}"
        yield Doubt(policy.on(Unknown.STALE, concerned or grown), "illegible-quota", why)
    if proposal.after.unknown:
        setting = policy.on(Unknown.FOOTPRINT, grown)
        yield Doubt(setting, "unknown-footprint", "does not know what one of its pods costs")
    if proposal.unpriced:
        concerned = [node for node in grown if node.quota.name in proposal.unpriced]
        why = f"does not know what quota {', '.join(proposal.unpriced)} has in use: some workload has no known cost"
        yield Doubt(policy.on(Unknown.FOOTPRINT, concerned), "unknown-usage", why)
