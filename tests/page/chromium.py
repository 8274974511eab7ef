"""Debian's Chromium, in which tests look at the page: ``make chromium``, or ``python -m tests.page.chromium``.

Playwright drives it. Its own browsers are not downloaded. Where Chromium is missing, apt-get installs it, as root or
through sudo.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, async_playwright

from tests.controlplane.netns import CannotInstallError, environment, install

PROGRAM = "chromium"
PACKAGES = {PROGRAM: "chromium"}
"""Program → Debian's package."""


def missing() -> str:
    """What is not here, with the cure; empty if all is."""
    return "" if _path() else f"{PROGRAM} is not on PATH: run `make chromium`"


def main() -> int:
    """Install it where it is missing, and say so. 1 if that cannot be done."""
    try:
        install(PACKAGES)
    except (CannotInstallError, subprocess.SubprocessError) as error:
        print(f"make chromium: {error}", file=sys.stderr)
        return 1
    print(f"{PROGRAM}: here", flush=True)
    return 0


@asynccontextmanager
async def browser() -> AsyncIterator[Browser]:
    """Starts one."""
    async with async_playwright() as playwright:
        running = await playwright.chromium.launch(executable_path=_path())
        try:
            yield running
        finally:
            await running.close()


def _path() -> str | None:
    return shutil.which(PROGRAM, path=environment()["PATH"])


if __name__ == "__main__":
    sys.exit(main())
