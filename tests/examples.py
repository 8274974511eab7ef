"""The package ``examples/memory-pressure`` for tests with real parts, which need not have it installed."""

from __future__ import annotations

import sys
from pathlib import Path

MEMORY_PRESSURE = Path(__file__).parents[1] / "examples" / "memory-pressure"


def importable() -> None:
    """Have this process find the package, where it is not installed."""
    if str(MEMORY_PRESSURE) not in sys.path:
        sys.path.append(str(MEMORY_PRESSURE))
