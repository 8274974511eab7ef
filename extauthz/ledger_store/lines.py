"""The lines of the ledger object: one for each pending write.

Templates and labels are long, and alike where many objects are made together. So a line names them by their hashes, and
each of these texts is kept once, with a mark in place of the workload's name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from extauthz.core.ledger.entry import PendingWrite

KEPT_ONCE: Final = ("templates", "labels")

_NAME: Final = "\0"
"""Stands for the name. No JSON text and no label has it."""


class Line(NamedTuple):
    """A pending write as the object has it."""

    text: str
    texts: Mapping[str, str]
    """Those that it names, by hash."""
    tenants: frozenset[str]
    expires_s: float
    """On the clock of the gate that holds the line."""
    renewed: int

    def says_less_than(self, pending_write: PendingWrite) -> bool:
        """Whether it no longer says all of a pending write.

        A renewal counts even if it adds no time here: where the write was allowed, it may end sooner.
        """
        return pending_write.expires_s > self.expires_s or pending_write.renewed > self.renewed


def pack(tree: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """The line of a record, and the texts that it names."""
    line, name = dict(tree), tree["workload"][3]
    texts: dict[str, str] = {}
    for key in KEPT_ONCE:
        if key in line:
            shared = [text.replace(name, _NAME) for text in line[key]]
            line[key] = [hashlib.blake2b(text.encode(), digest_size=12).hexdigest() for text in shared]
            texts |= zip(line[key], shared, strict=True)
    return json.dumps(line, separators=(",", ":")), texts


def unpack(text: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """The record of a line. Raises KeyError, TypeError, ValueError, RecursionError."""
    line = json.loads(text)
    named = {key: [texts[one].replace(_NAME, line["workload"][3]) for one in line.get(key, ())] for key in KEPT_ONCE}
    return {**line, **named}
