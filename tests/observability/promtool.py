"""Prometheus' own tool, which checks metrics, rules and expressions: ``make promtool``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.tools import Tool

PROMTOOL = Tool("promtool", "prometheus")
WITHIN_S = 60


def promtool(*words: str | Path, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run it. It says what is wrong, and ends with another code than 0."""
    assert PROMTOOL.path is not None
    command = [PROMTOOL.path, *map(str, words)]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=WITHIN_S, check=False)


if __name__ == "__main__":
    sys.exit(PROMTOOL.main())
