"""The lines of the ledger object: one for each pending write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from extauthz.core.ledger.pending_write import PendingWrite


class Line(NamedTuple):
    """A pending write as the object has it."""

    text: str
    templates: Mapping[str, str]
    """By hash."""
    tenants: frozenset[str]
    expires_s: float
    """On the clock of the gate that holds the line."""
    renewed: int
    leaves: int
    """Rises with what it may leave: there is more, where what a patch finds has changed."""

    @property
    def size(self) -> int:
        """Bytes, templates included."""
        return len(self.text) + sum(map(len, self.templates.values()))

    def says_less_than(self, pending_write: PendingWrite) -> bool:
        """Whether it no longer says all of a pending write.

        A renewal counts even if it adds no time here: where the write was allowed, it may end sooner.
        """
        return (
            pending_write.expires_s > self.expires_s
            or pending_write.renewed > self.renewed
            or leaves(pending_write) > self.leaves
        )


def leaves(pending_write: PendingWrite) -> int:
    """``Line.leaves`` of a pending write."""
    of_count = (pending_write.replicas or 0) + pending_write.keeps_count
    return len(pending_write.templates) + len(pending_write.labels) + pending_write.frees + of_count
