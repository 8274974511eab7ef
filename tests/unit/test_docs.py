"""What the docs draw from tables is what the tables say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from extauthz.core import resources
from extauthz.core.ledger.intents import diagram

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("envoy/*.md")])


@pytest.mark.parametrize(
    ("page", "drawn"),
    [("docs/ledger.md", diagram()), ("docs/counting.md", resources.markdown().strip())],
    ids=["ledger", "counting"],
)
def test_a_drawing_is_the_tables_own(page: str, drawn: str):
    assert drawn in (ROOT / page).read_text(), f"{page} no longer shows what the code's table says; paste it anew"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_inside_the_project_lead_somewhere(page: Path):
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text())
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing, f"{page.name} links to what is not there: {missing}"
