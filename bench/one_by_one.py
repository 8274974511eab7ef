"""The floor of ``sharing``: ``extauthz serve`` that writes the ledger it shares once for each decision."""

from __future__ import annotations

import sys

from extauthz.cli import main
from extauthz.shared.waiting import Waiter
from extauthz.shared.writing import Writers

SERVE = [sys.executable, "-m", "bench.one_by_one", "serve"]


def write_one_by_one() -> None:
    """Let only the first of those who wait go with a write."""
    decided = Writers._decided

    def first(self: Writers, root: str, waiting: list[Waiter]) -> list[Waiter]:
        batch = decided(self, root, waiting)
        if rest := batch[1:]:
            self._queues[root] = rest + self._queues.get(root, [])
        return batch[:1]

    Writers._decided = first  # type: ignore[method-assign]


if __name__ == "__main__":
    write_one_by_one()
    sys.exit(main())
