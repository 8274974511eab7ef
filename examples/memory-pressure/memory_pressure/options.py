"""The options of the policy ``memory-pressure``, as its file has them (README.md). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from extauthz.core.model import Tree
from extauthz.core.quota import selectors
from extauthz.core.quota.problems import Path, Problem, Problems, shown
from extauthz.core.quota.selectors import LabelSelector

from .marks import Marks

UPPER: Final = 90
LOWER: Final = 85
PATIENCE: Final = 3
STEP: Final = 1
"""Defaults of a pool's marks. A gate sees means of a minute: it must act before a node is full."""

EVERY_S: Final = 15
"""metrics-server has new metrics as often."""

STALE_AFTER_S: Final = 120.0
"""Older metrics do not count, and older looks do not either. metrics-server's own are up to a minute old."""

_FIELDS: Final = ("everySeconds", "pools")
_POOL_FIELDS: Final = ("name", "nodeSelector", "upper", "lower", "patience", "step")
_MOST_POOLS: Final = 64
_MOST_EVERY_S: Final = 60
"""Metrics that are not stale have been seen twice then."""


class PoolOptions(NamedTuple):
    """A pool of nodes, and when it holds growth."""

    name: str
    selector: LabelSelector
    marks: Marks


class PressureOptions(NamedTuple):
    """All of them."""

    every_s: float
    pools: tuple[PoolOptions, ...]


class PressureOptionsError(Exception):
    """The options cannot be used."""

    def __init__(self, problems: Problems) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems: tuple[Problem, ...] = tuple(problems)


def parse(tree: Tree) -> PressureOptions:
    """Read the one object of the file. Raises PressureOptionsError with everything that is wrong."""
    problems = Problems()
    fields = problems.mapping(tree, ())
    problems.unknown_fields(fields, _FIELDS, ())
    every_s = _number(fields, (), "everySeconds", EVERY_S, _MOST_EVERY_S, problems)
    given = problems.items(fields.get("pools"), ("pools",))
    if not 1 <= len(given) <= _MOST_POOLS:
        cure = f"write 1 to {_MOST_POOLS}, such as {{name: all, nodeSelector: {{}}}}"
        problems.add(("pools",), f"there are {len(given)} pools", cure)
    pools = tuple(_pool(one, ("pools", at), problems) for at, one in enumerate(given))
    _check_names(pools, problems)
    if len(problems):
        raise PressureOptionsError(problems)
    return PressureOptions(every_s, pools)


def _pool(tree: Tree, path: Path, problems: Problems) -> PoolOptions:
    fields = problems.mapping(tree, path)
    problems.unknown_fields(fields, _POOL_FIELDS, path)
    name = problems.text(fields.get("name"), (*path, "name")) or ""
    if name and not selectors.is_subdomain(name):
        problems.add((*path, "name"), f"{shown(name)} is no name", "use a-z, 0-9, '-' and '.'")
    if "nodeSelector" not in fields:
        problems.add((*path, "nodeSelector"), "is missing", "write matchLabels, or {} for all nodes")
    selector = selectors.parse(fields.get("nodeSelector"), (*path, "nodeSelector"), problems)
    found = len(problems)
    upper = _number(fields, path, "upper", UPPER, 100, problems)
    lower = _number(fields, path, "lower", LOWER, 100, problems)
    if lower >= upper and len(problems) == found:
        problems.add(
            (*path, "lower"), f"{lower} is not below upper, {upper}", "write two percentages, lower below upper"
        )
    patience = _number(fields, path, "patience", PATIENCE, 1000, problems)
    step = _number(fields, path, "step", STEP, 10_000, problems)
    return PoolOptions(name, selector, Marks(upper, lower, patience, step))


def _check_names(pools: tuple[PoolOptions, ...], problems: Problems) -> None:
    names = [pool.name for pool in pools]
    for at, name in enumerate(names):
        if name and name in names[:at]:
            problems.add(("pools", at, "name"), f"{shown(name)} is the name of an earlier pool", "give it another one")


def _number(fields: Mapping[str, Tree], path: Path, field: str, default: int, most: int, problems: Problems) -> int:
    """A whole number from 1."""
    value = fields.get(field, default)
    if type(value) is int and 1 <= value <= most:
        return value
    problems.add((*path, field), f"{shown(value)} is no whole number from 1 to {most}", f"write for example {default}")
    return default
