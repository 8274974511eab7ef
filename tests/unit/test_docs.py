"""What the docs draw from tables is what the tables say."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml

from extauthz.core.model import Verdict
from extauthz.core.quota.spec import Mode, parse
from extauthz.core.quota.tree import QuotaTree
from extauthz.testing import Asker, gate, quota, scale, workload
from tools.release.drawn import DRAWN

ROOT = Path(__file__).parents[2]
FOLDERS = (".", "docs", "docs/internals", "envoy", "istio", "examples/compose", "examples/overlays")
FOLDERS += ("examples/memory-pressure", ".github")
PAGES = sorted(page for folder in FOLDERS for page in (ROOT / folder).glob("*.md"))


@pytest.mark.parametrize("page", DRAWN)
def test_what_a_page_draws_of_a_table_is_what_the_table_says(page: str):
    assert DRAWN[page]() in (ROOT / page).read_text(), "run `python -m tools.release.drawn`, and paste it anew"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_inside_the_project_lead_somewhere(page: Path):
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text())
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing, f"{page.name} links to what is not there: {missing}"


def anchors(page: Path) -> set[str]:
    """Of its headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", each) for each in re.findall(r"^#+ (.*)", text, re.MULTILINE)]
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_anchors_inside_the_project_are_headings(page: Path):
    links = re.findall(r"\]\((?!https?://)([^)#\s]*)#([^)]+)\)", page.read_text())
    pointed = [((page.parent / link).resolve() if link else page, anchor) for link, anchor in links]
    missing = [(to.name, anchor) for to, anchor in pointed if to.suffix == ".md" and anchor not in anchors(to)]
    assert not missing, f"{page.name} points to headings that are not there: {missing}"


def test_every_promise_about_security_names_a_test_that_is_there():
    page = (ROOT / "docs/internals/security.md").read_text()
    rows = re.findall(r"^- (.+): (`tests/.+`)$", page, re.MULTILINE)
    promises = page.partition("## Promises\n")[2].partition("\n## ")[0]
    assert len(rows) == promises.count("\n- ") > 30, "each has one"
    named = [name for _, tests in rows for name in re.findall(r"`([^`]+)`", tests)]
    missing = [name for name in named if not is_a_test(name)]
    assert not missing, f"docs/internals/security.md names tests that are not there: {missing}"


def is_a_test(name: str) -> bool:
    page, _, function = name.partition("::")
    file = ROOT / page
    return file.is_file() and re.search(rf"^ *(async )?def {function}\(", file.read_text(), re.MULTILINE) is not None


README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_the_quotas_in_the_readme_make_a_tree():
    """As they stand: a reader pastes them into a file."""
    parent, child = (parse(tree) for tree in yaml.safe_load_all(blocks("yaml")[0]))
    assert (child.name, child.parent, child.mode) == ("acme", "big-corp", Mode.AUDIT)
    assert len(QuotaTree.build([parent, child]).nodes) == 2


def test_the_denial_in_the_readme_is_what_the_gate_says():
    (shown,) = [block for block in blocks("") if "kubectl describe hpa" in block]
    denied = Asker(gate([quota("acme", {"requests.cpu": "4"})], workload("web", 4, {"cpu": "1"})))(scale("web", 8))
    assert denied.verdict is Verdict.DENY
    assert " ".join(shown.split()).endswith(f"denied the request: {denied.sentence}")


SHOWN = ("AbleToScale", "helm install", "kubectl apply", "What it costs", "only counted")


def test_the_readme_begins_with_the_sentence_the_commands_and_what_it_costs():
    head = "\n".join(README.splitlines()[:33])
    places = [head.find(each) for each in SHOWN]
    assert -1 not in places, places
    assert places == sorted(places)
    assert README.count("\n## Install") == 1


PAGE = (ROOT / "docs/internals/design.md").read_text()
RULES = dict(re.findall(r"^### (?:Rule )?(L?\d+)\. (.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))


def test_the_rules_are_numbered_without_a_gap():
    assert list(RULES) == [*map(str, range(1, 16)), *(f"L{number}" for number in range(1, 13))]


@pytest.mark.parametrize("number", RULES)
def test_each_rule_names_a_test_that_exists(number: str):
    named = re.findall(r"`(tests/\S+\.py)::(\w+)`", RULES[number])
    assert named, f"rule {number} names no test"
    assert "Held by:" in RULES[number]
    for file, name in named:
        assert re.search(rf"^ *(async )?(def|class) {name}\b", (ROOT / file).read_text(), re.MULTILINE), (
            f"{file}::{name}"
        )


def sources() -> list[Path]:
    """Every text that we wrote: code, tests, configuration, pages."""
    folders = ("extauthz", "tests", "bench", "docs", "deploy", "charts", "envoy", "istio", "examples", "tools")
    inside = [
        file for folder in folders for file in (ROOT / folder).rglob("*") if file.suffix in (".py", ".md", ".yaml")
    ]
    return [*inside, *ROOT.glob("*.md"), *(ROOT / ".github").glob("*.md"), ROOT / "pyproject.toml", ROOT / "Makefile"]


def test_rules_are_cited_from_the_project_s_own_page():
    """A reader has the repository and nothing else."""
    elsewhere = re.compile(r"\bDESIGN" + r"\b|[(]§")
    citing = [str(file.relative_to(ROOT)) for file in sources() if elsewhere.search(file.read_text(errors="replace"))]
    assert not citing, f"these cite a page that is not in the repository: {citing}"


def test_every_rule_that_is_cited_exists():
    for file in sources():
        for number in re.findall(r"\bdesign\.md (?:rule )?(L?\d+)", file.read_text(errors="replace")):
            assert number in RULES, f"{file.relative_to(ROOT)} cites rule {number}"


def test_every_page_that_a_source_names_is_there():
    named = re.compile(r"(?<![\w/.-])docs/(?:[\w-]+/)*[\w-]+\.md")
    missing = {
        (str(file.relative_to(ROOT)), page)
        for file in sources()
        for page in named.findall(file.read_text(errors="replace"))
        if not (ROOT / page).is_file()
    }
    assert not missing


LONE_W = re.compile(r"(?<![\w'])W(?!\w)")
"""Our old name of the landing window."""


def spoken() -> dict[str, list[str]]:
    """Every text of the code that somebody may read who does not read code: all strings but docstrings."""
    found: dict[str, list[str]] = {}
    for file in sorted((ROOT / "extauthz").rglob("*.py")):
        tree = ast.parse(file.read_text())
        silent = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        found[str(file.relative_to(ROOT))] = [str(text.value) for text in texts if id(text) not in silent]
    return found


def test_no_sentence_for_owners_or_operators_says_w():
    """Sentences, events, help texts, settings, metrics: they say "landing window", or "in about 2 minutes"."""
    lettered = {file: text for file, texts in spoken().items() for text in texts if LONE_W.search(text)}
    assert not lettered, f"the landing window has a name: {lettered}"


def test_no_comment_says_w_either():
    files = sorted((ROOT / "extauthz").rglob("*.py"))
    lettered = [str(file.relative_to(ROOT)) for file in files if LONE_W.search(file.read_text())]
    assert not lettered, f"the landing window has a name: {lettered}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_says_w(page: Path):
    lettered = [line for line in page.read_text().splitlines() if LONE_W.search(line)]
    assert not lettered, f"{page.name}: the landing window has a name: {lettered}"


ROOMS = sorted((ROOT / "extauthz").rglob("__init__.py"))


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.parent.relative_to(ROOT)))
def test_each_room_says_what_it_is_for_what_comes_in_and_what_goes_out(room: Path):
    said = ast.get_docstring(ast.parse(room.read_text())) or ""
    assert said, f"{room.parent.name} says nothing"
    if any(room.parent.glob("[a-z]*.py")):
        assert re.search(r"\bIn: .*\bOut: ", said, re.DOTALL), f"{room.parent.name} must say what goes in and out"


def test_the_glossary_has_one_line_a_word_and_is_linked():
    words = re.findall(r"^- \*\*([^*]+)\*\*: ", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    assert words
    assert words == sorted(words, key=str.lower)
    assert len(words) == len(set(words))
    for page in ("README.md", "ARCHITECTURE.md"):
        assert "docs/glossary.md" in (ROOT / page).read_text(), f"{page} does not link the glossary"


LONG = 80
"""Lines. A page that is longer begins with its answer."""
HEAD = ("**In short:**", "**Example:**")


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_a_long_page_begins_with_its_answer_and_an_example(page: Path):
    lines = page.read_text().splitlines()
    if len(lines) > LONG:
        missing = [mark for mark in HEAD if not any(mark in line for line in lines[1:22])]
        assert not missing, f"{page.name} has {len(lines)} lines and does not begin with {missing}"


MOST_WORDS = 25_500


def test_a_user_has_few_words_to_read():
    """Of the pages that are not about how it is built. Bars and rules of tables are no words."""
    words = [word for page in (ROOT / "docs").glob("*.md") for word in page.read_text().split()]
    assert sum(any(char.isalnum() for char in word) for word in words) <= MOST_WORDS


ENVOYS = ("envoy", "render", "istio", "kube-controller-manager")


@pytest.mark.parametrize("page", ENVOYS)
def test_a_page_that_is_only_about_envoy_says_so_at_the_top(page: str):
    top = (ROOT / f"docs/{page}.md").read_text().splitlines()[2]
    assert "Envoy" in top
    assert "webhook" in top
