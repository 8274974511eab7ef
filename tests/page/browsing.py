"""Starts the real Chromium, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, async_playwright

from tests.page.chromium import CHROMIUM


@asynccontextmanager
async def browser() -> AsyncIterator[Browser]:
    """One browser without a window, until the end of the block."""
    async with async_playwright() as playwright:
        running = await playwright.chromium.launch(executable_path=CHROMIUM.path)
        try:
            yield running
        finally:
            await running.close()
