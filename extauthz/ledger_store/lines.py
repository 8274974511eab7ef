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

    @property
    def size(self) -> int:
        """Bytes, templates included."""
        return len(self.text) + sum(map(len, self.templates.values()))

    def says_less_than(self, pending_write: PendingWrite) -> bool:
        """Whether it no longer says all of a pending write.

        A renewal counts even if it adds no time here: where the write was allowed, it may end sooner.
        """
        return pending_write.expires_s > self.expires_s or pending_write.renewed > self.renewed
