"""A request's way through the gate may become shorter to read, and no longer (``make walk``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from extauthz.core import quantities, texts
from tests.walk import CEILINGS, Walk, followed, walks

FIGURES = ("stays", "files", "returns")


@pytest.fixture(scope="module")
def found() -> Mapping[str, Walk]:
    return walks()


def test_each_walk_has_a_ceiling(found: Mapping[str, Walk]):
    assert found.keys() == CEILINGS.keys()


@pytest.mark.parametrize("name", CEILINGS)
def test_no_walk_becomes_longer(found: Mapping[str, Walk], name: str, tell: Callable[[str], None]):
    walk, ceiling = found[name], CEILINGS[name]
    higher = [one for one in FIGURES if getattr(walk, one) > getattr(ceiling, one)]
    assert not higher, f"{name}: {walk}, at most {ceiling}; `make walk SHOW={name.split()[0]}` shows where"
    if walk[:3] != ceiling[:3]:
        tell(f"{name}: {walk} is shorter than {ceiling}; lower its ceiling in tests/walk.py")


def test_a_stay_is_a_row_of_calls_in_one_file():
    with followed() as steps:
        quantities.parse("1")
        quantities.parse("2")
        texts.cut("abc", 2)
        quantities.parse("3")
    assert steps.walk[:3] == (3, 2, 1)
    assert steps.walk.path[1] == "core/texts.py cut"
