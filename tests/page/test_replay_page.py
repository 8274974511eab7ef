"""The page of a replay in a real Chromium: light, dark and on a phone, every text and line is told from its ground."""

from __future__ import annotations

from pathlib import Path

import pytest
from axe_playwright_python.async_playwright import Axe

from extauthz.cli import main
from tests.page.browsing import browser

RECORD = Path(__file__).parents[2] / "examples" / "record"

RATIOS = """() => {
    const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
        .map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
    const parts = text => (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
    const ground = one => {
        const found = parts(getComputedStyle(one).backgroundColor);
        return found.length === 4 && found[3] === 0 ? ground(one.parentElement) : found;
    };
    const ratio = (one, colour) => {
        const [low, high] = [light(parts(colour)), light(ground(one))].sort((a, b) => a - b);
        return (high + 0.05) / (low + 0.05);
    };
    const of = (chosen, property) => [...document.querySelectorAll(chosen)]
        .map(one => [ratio(one, getComputedStyle(one)[property]), one.outerHTML.slice(0, 80)]);
    return [...of('main text', 'fill'), ...of('h1, h2, p, th, td, figcaption, b', 'color'),
        ...of('.wanted-line, .granted-line, .limit-line', 'stroke')];
}"""
"""Contrast of each text and line, by the formula of WCAG 2.2."""


@pytest.mark.chromium
@pytest.mark.asyncio
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("wide", [1280, 360])
async def test_its_page_can_be_read_light_and_dark_and_on_a_phone(tmp_path: Path, scheme: str, wide: int):
    path = tmp_path / "page.html"
    assert main(["replay", "--record", str(RECORD), "--html", str(path)]) == 0
    async with browser() as running:
        size = {"width": wide, "height": 900}
        context = await running.new_context(color_scheme=scheme, viewport=size)  # type: ignore[arg-type]
        page = await context.new_page()
        await page.goto(path.as_uri())
        found = await page.evaluate(RATIOS)
        assert len(found) > 300
        assert min(found)[0] >= 4.5, min(found)
        assert await page.evaluate("document.documentElement.scrollWidth") <= wide
        assert (await Axe().run(page)).violations_count == 0
        for part in ("figure", "table"):
            assert await page.locator(f"section:has(figure) {part}").count() == 7
