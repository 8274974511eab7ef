"""``extauthz serve`` that keeps what each decision took, as its own histogram is told: ``python -m bench.peers.timed``.

First argument: the file for that, written at the end: lines of when (monotonic) and how long, in seconds.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from extauthz.cli import main
from extauthz.tell.observe.metrics import Metrics
from extauthz.tell.observe.observers import Report


def serve(file: Path) -> list[str]:
    """The command."""
    return [sys.executable, "-m", "bench.peers.timed", str(file), "serve"]


def keep(took: list[tuple[float, float]]) -> None:
    """Have every decision told here too."""
    count = Metrics.decided

    def decided(self: Metrics, told: Report) -> None:
        took.append((time.monotonic(), told.seconds))
        count(self, told)

    Metrics.decided = decided  # type: ignore[method-assign]


if __name__ == "__main__":
    file, took = Path(sys.argv.pop(1)), []
    keep(took)
    status = main()
    file.write_text("".join(f"{when} {seconds}\n" for when, seconds in took))
    sys.exit(status)
