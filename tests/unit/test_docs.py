"""What the docs draw from tables is what the tables say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from extauthz.core import resources
from extauthz.core.ledger.intents import diagram
from extauthz.core.model import Verdict
from extauthz.core.quota.spec import Mode, parse
from extauthz.core.quota.tree import QuotaTree
from extauthz.observe import quota_status
from extauthz.testing.builders import Asker, gate, quota, scale, workload

ROOT = Path(__file__).parents[2]
PAGES = sorted(page for folder in (".", "docs", "envoy", "istio", "overlays") for page in (ROOT / folder).glob("*.md"))


@pytest.mark.parametrize(
    ("page", "drawn"),
    [
        ("docs/ledger.md", diagram()),
        ("docs/counting.md", resources.markdown().strip()),
        ("docs/status.md", quota_status.markdown()),
    ],
    ids=["ledger", "counting", "status"],
)
def test_a_drawing_is_the_tables_own(page: str, drawn: str):
    assert drawn in (ROOT / page).read_text(), f"{page} no longer shows what the code's table says; paste it anew"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_inside_the_project_lead_somewhere(page: Path):
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text())
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing, f"{page.name} links to what is not there: {missing}"


README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_the_quotas_in_the_readme_make_a_tree():
    """As they stand: a reader pastes them into a file."""
    parent, child = (parse(tree) for tree in yaml.safe_load_all(blocks("yaml")[0]))
    assert (child.name, child.parent, child.mode) == ("acme", "big-corp", Mode.ENFORCE)
    assert len(QuotaTree.build([parent, child]).nodes) == 2


def test_the_denial_in_the_readme_is_what_the_gate_says():
    (shown,) = [block for block in blocks("") if block.startswith("deployments.apps")]
    gpu = "requests.nvidia.com/gpu"
    denied = Asker(gate([quota("acme", {gpu: "4"})], workload("web", 3, {"nvidia.com/gpu": "1"})))(scale("web", 5))
    assert denied.verdict is Verdict.DENY
    assert denied.sentence == " ".join(shown.split())


@pytest.mark.parametrize("command", blocks("sh"), ids=lambda command: command.partition("\n")[0][:40])
def test_a_command_of_the_readme_is_one_of_a_page_whose_commands_are_run(command: str):
    """``tests/e2e/test_install.py`` and ``tests/e2e/test_guide.py`` run those as they stand."""
    pages = ("docs/install.md", "docs/kube-controller-manager.md")
    assert any(f"```sh\n{command}```" in (ROOT / page).read_text() for page in pages)
