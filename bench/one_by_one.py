"""The floor of ``sharing``: ``extauthz serve`` that writes the ledger it shares once for each decision."""

from __future__ import annotations

import sys
from typing import Any

from extauthz.serve.ledger_store.committing import Committer
from tests.support import numbered

SERVE = [sys.executable, "-m", "bench.one_by_one", "serve"]


def write_one_by_one() -> None:
    """Let only the first of those who wait go with a write."""
    waiting = Committer._waiting

    def first(self: Committer) -> list[Any]:
        ready = waiting(self)
        self._queue = ready[1:] + self._queue
        return ready[:1]

    Committer._waiting = first  # type: ignore[method-assign]


if __name__ == "__main__":
    write_one_by_one()
    sys.exit(numbered.run(sys.argv[1:]))
