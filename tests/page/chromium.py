"""Debian's Chromium, in which tests look at the page: ``make chromium``, or ``python -m tests.page.chromium``.

Playwright drives it. Its own browsers are not downloaded. Where Chromium is missing, apt-get installs it, as root or
through sudo.
"""

from __future__ import annotations

import shutil
import subprocess
import sys

from tests.controlplane.netns import CannotInstallError, environment, install

PROGRAM = "chromium"
PACKAGES = {PROGRAM: "chromium"}
"""Program → Debian's package."""


def missing() -> str:
    """What is not here, with the cure; empty if all is."""
    return "" if path() else f"{PROGRAM} is not on PATH: run `make chromium`"


def main() -> int:
    """Install it where it is missing, and say so. 1 if that cannot be done."""
    try:
        install(PACKAGES)
    except (CannotInstallError, subprocess.SubprocessError) as error:
        print(f"make chromium: {error}", file=sys.stderr)
        return 1
    print(f"{PROGRAM}: here", flush=True)
    return 0


def path() -> str | None:
    """Where it is."""
    return shutil.which(PROGRAM, path=environment()["PATH"])


if __name__ == "__main__":
    sys.exit(main())
