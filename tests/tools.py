"""A program of Debian's that some tests need: a target of the Makefile installs it, and a marker skips loudly without.

With its name in ``EXTAUTHZ_REQUIRE`` such a test fails instead.
"""

from __future__ import annotations

import shutil
import subprocess
import sys

from tests.controlplane.marker import Needs
from tests.controlplane.netns import CannotInstallError, environment, install
from tests.controlplane.parts import hidden


class Tool(Needs):
    """One program. Its name is also that of the marker, of the target, and what ``EXTAUTHZ_REQUIRE`` calls it."""

    def __init__(self, program: str, package: str) -> None:
        super().__init__(program, lambda: self.missing)
        self.program = program
        self._package = package

    @property
    def path(self) -> str | None:
        """Where it is."""
        return shutil.which(self.program, path=environment()["PATH"])

    @property
    def missing(self) -> str:
        """What is not here, with the cure; empty if it is."""
        here = self.path and not hidden(self.program)
        return "" if here else f"{self.program} is not on PATH: run `make {self.program}`"

    def main(self) -> int:
        """Install it where it is missing, and say so. 1 if that cannot be done."""
        try:
            install({self.program: self._package})
        except (CannotInstallError, subprocess.SubprocessError) as error:
            print(f"make {self.program}: {error}", file=sys.stderr)
            return 1
        print(f"{self.program}: here", flush=True)
        return 0
