"""Expressions in CEL, the Common Expression Language: read and checked once, evaluated for each decision.

The package ``cel-expr-python`` is optional, ``extauthz[cel]``. Its checker knows every name that an expression may use,
and its type. What an expression may cost is known before it is evaluated (``cost``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, Final

from extauthz.core.quota.policies import Compile, ExpressionError, Program
from extauthz.policies.cost import cost

PACKAGE: Final = "cel_expr_python"

_STRING_MAP, _DOUBLE_MAP, _STRINGS = "map(string, string)", "map(string, double)", "list(string)"

TYPES: Final[Mapping[str, str]] = {
    "write.from": "int",
    "write.to": "int",
    "write.operation": "string",
    "workload.kind": "string",
    "workload.namespace": "string",
    "workload.name": "string",
    "workload.labels": _STRING_MAP,
    "workload.annotations": _STRING_MAP,
    "workload.replicas": "int",
    "workload.unspecified": _STRINGS,
    "quota.name": "string",
    "quota.used": _DOUBLE_MAP,
    "quota.hard": _DOUBLE_MAP,
    "requester.known": "bool",
    "requester.user": "string",
    "requester.groups": _STRINGS,
    "now": "timestamp",
}
"""Every name that an expression may use, and its type."""

_KEPT: Final = 4_096
"""Expressions that are kept read. Workspaces are many, and their policies are few."""

_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACE: Final = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*)")
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z _-]*")
_QUOTED: Final = re.compile(r"['\"]([^'\"]*)['\"]")
_STATUS: Final = re.compile(r"^[A-Z_]+: |\s*\[[A-Z_]+\]$")


def compiler() -> Compile | None:
    """What reads expressions; ``None``: the package is not installed."""
    return compiled if find_spec(PACKAGE) is not None else None


@lru_cache(_KEPT)
def compiled(expression: str) -> Expression:
    """Read an expression, and check its types.

    Raises:
        ExpressionError: with the place.
    """
    try:
        program = _environment().compile(expression)
    except RuntimeError as error:
        raise ExpressionError(_readable(str(error))) from None
    kind = program.return_type().name()
    if kind not in ("BOOL", "INT"):
        why = "an expression gives true or false (may it grow), or a whole number (how far)"
        raise ExpressionError(f"it gives {kind.lower()}; {why}")
    return Expression(expression, program, _needs(expression), kind == "INT", cost(program.serialize()))


class Expression:
    """A ``Program``."""

    __slots__ = ("_program", "cost", "limits", "needs", "text")

    def __init__(self, text: str, program: Any, needs: frozenset[str], limits: bool, cost: int) -> None:  # noqa: ANN401
        self.text = text
        self._program = program
        self.needs = needs
        self.limits = limits
        self.cost = cost

    def bound(self, values: Mapping[str, object]) -> object:
        return values

    def run(self, bound: object) -> object:
        try:
            found: object = self._program.eval(data=bound, arena=_arenas.next(self.cost)).value()
        except RuntimeError as error:
            raise self._failed(str(error)) from None
        if isinstance(found, str):  # an error: no expression that was read gives a text
            raise self._failed(found)
        return found

    def _failed(self, said: str) -> ExpressionError:
        """Why it failed, without values: who reads it may not know them. A text that stands in it is none."""
        why = _PLAIN.match(_STATUS.sub("", said))
        quoted = _QUOTED.search(said)
        name = f" '{quoted[1]}'" if quoted and (quoted[1] in TYPES or _stands(quoted[1], self.text)) else ""
        return ExpressionError((why[0].strip() if why else "it has no value") + name)

    def joined(self, others: Sequence[Program]) -> Program | None:
        """By ``&&``, which gives true only where both sides do. A comment ends with its line."""
        texts = [one.text for one in (self, *others) if isinstance(one, Expression)]
        try:
            return compiled(" && ".join(f"({text}\n)" for text in texts))
        except ExpressionError:  # too long together
            return None


class _Arenas:
    """Memory of CEL's own. To make some for each decision costs as much as to evaluate an expression; so some decisions
    share it, and it is freed with the last of them."""

    _SHARED_BY: Final = 128
    _CHEAP: Final = 1_000
    """Units. What costs more may make much, and has one of its own."""

    def __init__(self) -> None:
        self._arena: Any = None
        self._uses = 0

    def next(self, cost: int) -> Any:  # noqa: ANN401 (another's type)
        if cost > self._CHEAP:
            return _cel().Arena()
        if self._uses % self._SHARED_BY == 0:
            self._arena = _cel().Arena()
        self._uses += 1
        return self._arena


_arenas: Final = _Arenas()


@lru_cache(1)
def _environment() -> Any:  # noqa: ANN401 (another's type)
    cel = _cel()
    plain = {"bool": cel.Type.BOOL, "int": cel.Type.INT, "string": cel.Type.STRING, "timestamp": cel.Type.TIMESTAMP}
    types = plain | {
        _STRING_MAP: cel.Type.Map(cel.Type.STRING, cel.Type.STRING),
        _DOUBLE_MAP: cel.Type.Map(cel.Type.STRING, cel.Type.DOUBLE),
        _STRINGS: cel.Type.List(cel.Type.STRING),
    }
    return cel.NewEnv(variables={name: types[kind] for name, kind in TYPES.items()})


@lru_cache(1)
def _cel() -> Any:  # noqa: ANN401 (another's type)
    """Only once there is an expression to read: it is large."""
    from cel_expr_python import cel

    return cel


def _stands(value: str, text: str) -> bool:
    """Whether a text is written out in an expression."""
    return f"'{value}'" in text or f'"{value}"' in text


def _needs(expression: str) -> frozenset[str]:
    """The names that it may use: all whose words stand in it, however they are spaced."""
    words = set(_WORD.findall(expression))
    return frozenset(name for name in TYPES if words.issuperset(name.split(".")))


def _readable(text: str) -> str:
    """``line 1, column 7: found no matching overload …`` for each error that CEL lists."""
    places = [f"line {line}, column {column}: {what}" for line, column, what in _PLACE.findall(text)]
    return "; ".join(places) or _STATUS.sub("", text)
