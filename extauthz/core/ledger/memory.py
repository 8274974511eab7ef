"""How many bytes a pending write holds: the templates and labels that it may leave."""

from __future__ import annotations

from extauthz.core.ledger.pending_write import PendingWrite


def held_by(pending_write: PendingWrite) -> int:
    """Bytes. A write of a count alone holds none that are worth a bound."""
    return sum(len(template.text) for template in pending_write.templates) + sum(map(len, pending_write.labels))
