"""Debian's Chromium, in which tests look at the page: ``make chromium``, or ``python -m tests.page.chromium``.

Playwright drives it. Its own browsers are not downloaded.
"""

from __future__ import annotations

import sys

from tests.tools import Tool

CHROMIUM = Tool("chromium", "chromium")

if __name__ == "__main__":
    sys.exit(CHROMIUM.main())
