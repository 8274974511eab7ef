"""``spec.policies`` of a WorkspaceQuota: rules over growth, written as expressions (docs/policies.md).

Who reads expressions is given from outside: ``Compile``. What is not read, as nobody can, is kept and is an unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, TypeAlias

from extauthz.core.model import Tree
from extauthz.core.quota.problems import Path, Problem, Problems, shown

MAX_POLICIES: Final = 16
"""In one quota."""

MAX_EXPRESSION: Final = 2048
"""Characters."""

MAX_TOGETHER: Final = 4096
"""Characters of all expressions of a quota: to read so many takes some 10 ms, once."""

MAX_COST: Final = 20_000
"""Units of work that all expressions of a quota may cost together: about 1 ms."""

MAX_ITEMS: Final = 256
"""A list or map that has more is not shown to expressions."""

MAX_TEXT: Final = 1024
"""A text that has more characters is not shown to them either."""

MAX_TEXTS: Final = 16_384
"""Nor a list or map whose texts have more together: it is copied for each expression that needs it."""

MAX_MESSAGE: Final = 512
"""Characters. A sentence has 1024."""

MAX_NAME: Final = 63

_FIELDS = ("name", "expression", "message", "mode")
_MODES = {"Enforce": False, "Audit": True}


class Program(Protocol):
    """An expression, read and checked."""

    needs: frozenset[str]
    """The names that it may use: ``write.to``, ``quota.used`` …"""
    limits: bool
    """It gives a number of replicas, and not whether growth is allowed."""
    cost: int
    """Units of work that it takes at most, whatever its values are."""

    def bound(self, values: Mapping[str, object]) -> object:
        """Values by name, in a form that programs of the same language share."""

    def run(self, bound: object) -> object:
        """Its result.

        Raises:
            Exception: it has none.
        """

    def joined(self, others: Sequence[Program]) -> Program | None:
        """One that gives true where this one and all others do, and else false or nothing; ``None``: there is none.

        All of them say whether growth is allowed.
        """


class ExpressionError(ValueError):
    """An expression is wrong, or of a wrong type. Its author must mend it. The text says what and where."""


Compile: TypeAlias = Callable[[str], Program]
"""Reads an expression. Raises ExpressionError."""


@dataclass(frozen=True, slots=True)
class QuotaPolicy:
    """One policy of a quota."""

    name: str
    expression: str
    message: str = ""
    """For owners who are refused; empty: the expression is shown."""
    audits: bool = False
    program: Program | None = field(default=None, compare=False)
    """``None``: nothing here can read expressions."""

    @property
    def says(self) -> str:
        """What an owner reads."""
        return self.message or f"{self.expression} does not hold"


class Rules(NamedTuple):
    """The policies of a quota, by what they say."""

    filters: tuple[tuple[QuotaPolicy, Program], ...]
    """Those that say whether a workload may grow."""
    whole: Program | None
    """All ``filters`` in one, which is quicker to ask first; ``None``: there is none."""
    limits: tuple[tuple[QuotaPolicy, Program], ...]
    """Those that say how far."""
    unread: tuple[QuotaPolicy, ...]
    """Those that nobody here can evaluate."""
    needs: tuple[str, ...]
    """The names that they may use."""


def rules(policies: Iterable[QuotaPolicy]) -> Rules | None:
    """``None``: there are none."""
    given = tuple(policies)
    if not given:
        return None
    read = [(one, one.program) for one in given if one.program is not None]
    filters = tuple(one for one in read if not one[1].limits)
    return Rules(
        filters,
        filters[0][1].joined([program for _, program in filters[1:]]) if len(filters) > 1 else None,
        tuple(one for one in read if one[1].limits),
        tuple(one for one in given if one.program is None),
        tuple(sorted(frozenset[str]().union(*(program.needs for _, program in read)))),
    )


def parse(tree: Tree, path: Path, problems: Problems, compiler: Compile | None) -> tuple[QuotaPolicy, ...]:
    """Read ``spec.policies``."""
    items = problems.items(tree, path)
    if len(items) > MAX_POLICIES:
        problems.add(path, f"there are {len(items)} policies", f"write at most {MAX_POLICIES} in a quota")
        return ()
    together = sum(len(str(item.get("expression"))) for item in items if isinstance(item, Mapping))
    if together > MAX_TOGETHER:
        detail = f"their expressions have {together} characters"
        problems.add(path, detail, f"write at most {MAX_TOGETHER} in a quota")
        return ()
    found: dict[str, QuotaPolicy] = {}
    for number, item in enumerate(items):
        at = (*path, number)
        policy = _one(problems.mapping(item, at), at, problems, compiler)
        if policy.name in found:
            problems.add((*at, "name"), f'there is another policy "{policy.name}"', "rename or remove one of them")
        found[policy.name] = policy
    costs = {name: policy.program.cost for name, policy in found.items() if policy.program is not None}
    if sum(costs.values()) > MAX_COST:
        dearest = max(costs, key=lambda name: costs[name])
        detail = f"its expressions may cost {sum(costs.values())} units of work, that of {dearest} {costs[dearest]}"
        problems.add(path, detail, f"a quota may have {MAX_COST} (docs/policies.md)")
    return tuple(found.values())


def unread(policies: Iterable[QuotaPolicy]) -> Iterator[Problem]:
    """A problem for those of a good quota that nobody here can read."""
    names = [policy.name for policy in policies if policy.program is None]
    if names:
        detail = f"this gate cannot evaluate expressions: {', '.join(names)}"
        yield Problem(("spec", "policies"), detail, "install extauthz[cel] where it runs, with Python 3.14 or earlier")


def _one(fields: Mapping[str, Tree], at: Path, problems: Problems, compiler: Compile | None) -> QuotaPolicy:
    problems.unknown_fields(fields, _FIELDS, at)
    name = _text(fields, "name", at, problems, MAX_NAME)
    expression = _text(fields, "expression", at, problems, MAX_EXPRESSION)
    message = _text(fields, "message", at, problems, MAX_MESSAGE) if fields.get("message") is not None else ""
    program: Program | None = None
    if expression and compiler is not None:
        try:
            program = compiler(expression)
        except ExpressionError as error:
            problems.add((*at, "expression"), str(error), "docs/policies.md has what an expression may use")
    return QuotaPolicy(name, expression, message, _audits(fields.get("mode"), at, problems), program)


def _text(fields: Mapping[str, Tree], key: str, at: Path, problems: Problems, most: int) -> str:
    text = problems.text(fields.get(key), (*at, key))
    if text is None:
        return ""
    if not text.strip():
        problems.add((*at, key), "it is empty", "give it a value")
    elif len(text) > most:
        problems.add((*at, key), f"it has {len(text)} characters", f"write at most {most}")
        return ""
    return text


def _audits(value: Tree, at: Path, problems: Problems) -> bool:
    if value is None:
        return False
    if isinstance(value, str) and value in _MODES:
        return _MODES[value]
    problems.add((*at, "mode"), f"{shown(value)} is not a mode", f"use one of {', '.join(_MODES)}")
    return False
