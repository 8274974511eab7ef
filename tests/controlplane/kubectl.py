"""The real kubectl."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.controlplane.parts import find

WITHIN_S = 60.0


class Kubectl:
    """Runs kubectl with one kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        self._command = [str(find("kubectl")), f"--kubeconfig={kubeconfig}", f"--cache-dir={kubeconfig.parent}/cache"]

    def __call__(self, *arguments: str, stdin: str = "", **environment: str) -> str:
        """What it prints.

        Raises:
            AssertionError: it ended with another code than 0; with what it said.
        """
        done = self.run(*arguments, stdin=stdin, **environment)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}{done.stdout}"
        return done.stdout

    def run(self, *arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        """The same, whatever the exit code."""
        return subprocess.run(
            [*self._command, *arguments],
            input=stdin,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )
