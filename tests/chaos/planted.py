"""A gate with a defect, to see that chaos finds it. ``python -m tests.chaos --plant answer-early``."""

from __future__ import annotations

import asyncio
import sys

from extauthz.cli import main
from extauthz.core.model import Decision, Reading, Requester
from extauthz.serve.ledger_store.committing import Committer

LATER_S = 0.2
"""A write of the ledger takes some milliseconds: too few for a defect to show every time."""


def answer_early() -> None:
    """Answers before its grant is in the ledger object."""
    commit = Committer.commit
    writing: set[asyncio.Task[Decision]] = set()

    async def early(
        self: Committer,
        reading: Reading,
        source: str,
        decision: Decision,
        requester: Requester | None = None,
        timeout_s: float | None = None,
    ) -> Decision:
        async def later() -> Decision:
            await asyncio.sleep(LATER_S)
            return await commit(self, reading, source, decision, requester, timeout_s)

        task = asyncio.create_task(later())
        writing.add(task)
        task.add_done_callback(writing.discard)
        return decision

    Committer.commit = early  # type: ignore[method-assign]


PLANTS = {"answer-early": answer_early}


def command(name: str) -> list[str]:
    """In the place of ``extauthz``."""
    return [sys.executable, "-m", "tests.chaos.planted", name, "serve"]


if __name__ == "__main__":
    PLANTS[sys.argv.pop(1)]()
    sys.exit(main())
