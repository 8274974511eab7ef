"""``make mutants``: which changes it makes, and how one is named as equivalent."""

from __future__ import annotations

import ast
import importlib.util
import inspect
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from extauthz.core.ledger import entry as entries
from tests.mutants import known
from tests.mutants.mutate import mutants
from tests.mutants.swap import swap
from tests.mutants.trying import Measured

ROOT = Path(__file__).parents[2]


def changes(source: str) -> list[str]:
    """What the lines that are changed come to be."""
    return ["; ".join(one.change[1]) for one in mutants("x.py", source)]


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        pytest.param("x = a < b", ["x = (a <= b)"], id="comparison"),
        pytest.param("x = a is None", ["x = (a is not None)"], id="identity"),
        pytest.param("x = a not in b", ["x = (a in b)"], id="membership"),
        pytest.param("x = a and b and c", ["x = (a or b or c)"], id="and"),
        pytest.param("x = not a", ["x = (a)"], id="not"),
        pytest.param("x = a + 2", ["x = (a - 2)", "x = a + 3", "x = a + (1)"], id="arithmetic-and-constant"),
        pytest.param("x = a & b", ["x = (a | b)"], id="sets"),
        pytest.param("MOST = 3", ["MOST = 4", "MOST = (2)"], id="count"),
        pytest.param("x_s = 3", ["x_s = 4", "x_s = (2)"], id="time-of-no-name"),
        pytest.param("x = f(True)", ["x = f(False)"], id="bool"),
        pytest.param("x = max(a, b)", ["x = min(a, b)"], id="swap"),
        pytest.param("self.x = a", ["pass"], id="attribute-not-set"),
        pytest.param("x += a", ["pass"], id="not-added"),
        pytest.param("f(a)", ["pass"], id="call-left-out"),
        pytest.param("x = b if a else c", ["x = b if (not (a)) else c"], id="other-branch"),
        pytest.param("x = [a for a in b if c(a)]", ["x = [a for a in b if (not (c(a)))]"], id="other-members"),
        pytest.param("while a:\n    break", ["while (not (a)):", "continue"], id="loop"),
        pytest.param("def f():\n    return a", ["return None"], id="nothing-returned"),
        pytest.param("def f():\n    return a == b", ["return True", "return False", "return (a != b)"], id="answer"),
        pytest.param("def f() -> None:\n    x = a\n    y = b", ["return"], id="early-return"),
        pytest.param('def f() -> None:\n    """D."""\n    y = b\n    """Y."""', [], id="a-text-is-no-statement"),
        pytest.param('x = "ä", 1', ['x = "ä", 2', 'x = "ä", (0)'], id="columns-are-of-utf-8"),
    ],
)
def test_one_place_is_changed_at_a_time(source: str, wanted: list[str]):
    assert changes(source) == wanted


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("assert a < 2", id="assertion"),
        pytest.param("raise Error(1)", id="error"),
        pytest.param("@d(1)\nclass A:\n    x: Literal[1]", id="decorator-and-annotation"),
        pytest.param('x = f"{a + 1}"', id="text"),
        pytest.param('"""Docs."""', id="docstring"),
        pytest.param("if TYPE_CHECKING:\n    x = 1", id="for-the-type-checker"),
        pytest.param("x = 65536", id="bound"),
        pytest.param("TICK_S = 0.1", id="duration"),
    ],
)
def test_what_decides_nothing_is_left_alone(source: str):
    assert changes(source) == []


def test_every_change_of_a_real_file_can_be_run_and_differs():
    source = inspect.getsource(entries)
    found, tree = list(mutants("entry.py", source)), ast.dump(ast.parse(source))
    assert len(found) > 20
    for one in found:
        assert ast.dump(ast.parse(one.after)) != tree, one.diff()
        assert one.change[0], one.diff()


def test_an_equivalent_is_told_by_its_file_and_lines():
    (entry,) = known.read("# Head.\n\n# It is\n# the same.\nx.py\n- x = a < b\n+ x = (a <= b)\n")
    (mutant,) = mutants("x.py", "x = a < b")
    (other,) = mutants("y.py", "x = a < b")
    assert entry.why == "It is the same."
    assert (entry.is_same(mutant), entry.is_same(other)) == (True, False)


@pytest.mark.parametrize("text", ["x.py\n- a\n+ b", "# why\n- a\n+ b", "# why\nx.py\n- a"])
def test_an_equivalent_without_reason_file_or_change_is_none(text: str):
    with pytest.raises(ValueError, match="not an entry"):
        list(known.read(text))


def test_all_equivalents_are_of_lines_that_are_there():
    assert known.stale(list(known.read(known.EQUIVALENT.read_text())), ROOT) == []


class Item(NamedTuple):
    """A test that pytest has collected."""

    nodeid: str


@pytest.mark.parametrize(
    ("first", "last", "tests"),
    [
        pytest.param(2, 2, ["quick", "slow"], id="fast-ones-first"),
        pytest.param(2, 3, ["quick", "other", "slow"], id="of-several-lines-each-once"),
        pytest.param(4, 9, ["quick", "other", "slow"], id="of-a-line-that-none-is-seen-to-run-all"),
    ],
)
def test_a_mutant_is_tried_on_the_tests_that_run_its_lines(first: int, last: int, tests: list[str]):
    by_line = {str(ROOT / "x.py"): {"2": ["slow", "quick"], "3": ["other", "quick"]}}
    measured = Measured({"slow": 2.0, "other": 1.0, "quick": 0.0}, by_line)
    items = [Item(name) for name in ("slow", "other", "quick")]
    found = measured.chosen(items, {"path": "x.py", "line": first, "last": last})  # type: ignore[type-var]
    assert [item.nodeid for item in found] == tests


def test_one_test_that_waits_for_ever_is_not_given_the_time_of_all():
    measured = Measured({"slow": 100.0, "quick": 1.0}, {})
    limits = [measured.limit_s(Item(name)) for name in ("slow", "quick")]  # type: ignore[arg-type]
    assert (limits[0] > 100, limits[1] < 100) == (True, True)


def test_the_lines_of_a_change_are_told():
    (one,) = mutants("x.py", "x = (\n    a <\n    b\n)")
    assert (one.line, one.last) == (2, 3)


SOURCE = '''
LIMIT = 3


class Shop:
    """It sells."""

    size = 2

    def __init__(self):
        self.names = [name for name in ("a", "b") if name > "a"]

    @property
    def first(self):
        return self.names[0]

    @first.setter
    def first(self, value):
        self.names[0] = value

    @staticmethod
    def of(count=1):
        return (lambda more: count + more)(1)


def fits(count):
    return count < LIMIT
'''


@pytest.fixture
def module(tmp_path: Path) -> ModuleType:
    file = tmp_path / "shop.py"
    file.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("shop", file)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def seen(module: ModuleType) -> list[object]:
    shop = module.Shop()
    first = shop.first
    shop.first = "z"
    return [first, shop.first, module.Shop.of(), module.fits(3)]


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        pytest.param("count < LIMIT", "count <= LIMIT", ["b", "z", 2, True], id="function"),
        pytest.param('name > "a"', 'name >= "a"', ["a", "z", 2, False], id="within-a-method"),
        pytest.param("= value", '= "y"', ["b", "y", 2, False], id="the-second-of-a-name"),
        pytest.param("count + more", "count - more", ["b", "z", 0, False], id="lambda-within-a-static-method"),
        pytest.param("= value", "= (\n'x'\n)", ["b", "x", 2, False], id="later-lines-move"),
    ],
)
def test_a_body_is_replaced_wherever_the_function_stands(module: ModuleType, old: str, new: str, wanted: list[object]):
    assert old in SOURCE
    assert seen(module) == ["b", "z", 2, False]
    assert swap(Path(module.__file__ or ""), SOURCE, SOURCE.replace(old, new))
    assert seen(module) == wanted


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("LIMIT = 3", "LIMIT = 4", id="constant-of-the-module"),
        pytest.param("size = 2", "size = 3", id="constant-of-a-class"),
        pytest.param("count=1", "count=2", id="default"),
        pytest.param("@staticmethod", "@classmethod", id="decorator"),
        pytest.param("LIMIT", "LIMIT", id="nothing"),
    ],
)
def test_what_runs_at_import_is_not_replaced(module: ModuleType, old: str, new: str):
    assert not swap(Path(module.__file__ or ""), SOURCE, SOURCE.replace(old, new))
    assert seen(module) == ["b", "z", 2, False]


def test_a_function_that_is_not_in_memory_is_not_replaced(tmp_path: Path):
    assert not swap(tmp_path / "other.py", SOURCE, SOURCE.replace("count < LIMIT", "count <= LIMIT"))
