"""How a change is put into a module that is imported already."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tests.mutants.swap import swap

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
    assert spec is not None
    assert spec.loader is not None
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
