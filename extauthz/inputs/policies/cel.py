"""Expressions in CEL, the Common Expression Language: read and checked once, evaluated for each decision.

The package ``cel-expr-python`` is optional, ``extauthz[cel]``. Its checker knows every name that an expression may use,
and its type. What an expression may cost is known from its checked tree before it is evaluated.
"""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, Final

from extauthz.core.quota.policies import MAX_ITEMS, MAX_TEXT, Compile, ExpressionError, Program

FUNCTION: Final = 10
"""Units of a function that has a name: conversions read a text, ``getHours`` asks for a time zone."""

_OPERATORS: Final = frozenset(
    "_&&_ _||_ !_ _?_:_ _==_ _!=_ _<_ _<=_ _>_ _>=_ _+_ _-_ _*_ _/_ _%_ -_ @in _[_] @not_strictly_false".split()  # noqa: SIM905
)
_OF_TIMES: Final = frozenset(
    "getFullYear getMonth getDate getDayOfMonth getDayOfWeek getDayOfYear getHours getMinutes getSeconds "  # noqa: SIM905
    "getMilliseconds".split()
)
"""Functions that take a time zone. CEL opens it as a file, below the directory of time zones or by its whole path: one
that is written out by an expression's author could be a pipe, and one of an object's annotation could be any."""

ALLOWED: Final = frozenset(
    "bool bytes contains double duration dyn endsWith int size startsWith string timestamp type uint".split()  # noqa: SIM905
)
"""All other functions that an expression may call: what each does, and costs, was looked at."""

_OFFSET: Final = re.compile(r"[+-][0-9]{2}:[0-9]{2}")

JOIN: Final = 64
"""Units of joining texts or lists, for each node of what is joined: it is copied, and kept until others have been
evaluated too."""

_NUMBERS: Final = frozenset({2, 3, 4})
"""``Type.PrimitiveType``: INT64, UINT64, DOUBLE."""

_TIMES: Final = frozenset({2, 3})
"""``Type.WellKnownType``: TIMESTAMP, DURATION."""

_Node = Any
"""``cel.expr.Expr``: the generated classes have no types."""


def cost(serialized: bytes) -> int:
    """Units of an expression that the checker has taken, as ``Expression.serialize`` gives it.

    Raises:
        ExpressionError: it has a form whose cost cannot be bounded.
    """
    from cel.expr import checked_pb2
    from google.protobuf import any_pb2

    checked = checked_pb2.CheckedExpr()
    any_pb2.Any.FromString(serialized).Unpack(checked)
    return _Costs(checked.type_map).of(checked.expr)


class _Costs:
    def __init__(self, types: Any) -> None:  # noqa: ANN401 (a map of another's)
        self._types = types
        self._variable = ""
        """That of the macro in whose body a node is."""
        self._each = 1
        """Nodes of the largest value that it has."""

    def of(self, node: _Node, *, in_macro: bool = False) -> int:
        """Units of a node and of what is below it."""
        form = node.WhichOneof("expr_kind")
        if form == "comprehension_expr":
            if in_macro:
                raise ExpressionError("a macro is within another macro; write one of them as a policy of its own")
            return self._macro(node.comprehension_expr)
        if form == "struct_expr" and node.struct_expr.message_name:
            raise ExpressionError(f"{node.struct_expr.message_name} is not allowed; no name has a message")
        below = sum(self.of(one, in_macro=in_macro) for one in _below(node))
        return 1 + below + (self._call(node.call_expr) if form == "call_expr" else 0)

    def _macro(self, macro: _Node) -> int:
        length, around = self._length(macro.iter_range), self.of(macro.iter_range, in_macro=True)
        self._each = max(map(self._nodes, macro.iter_range.list_expr.elements), default=1)
        self._variable = macro.iter_var
        each = sum(self.of(one, in_macro=True) for one in (macro.loop_condition, macro.loop_step))
        around += sum(self.of(one, in_macro=True) for one in (macro.accu_init, macro.result))
        self._variable = ""
        return around + each * length

    def _length(self, items: _Node) -> int:
        form = items.WhichOneof("expr_kind")
        if form == "ident_expr":
            return MAX_ITEMS
        if form == "list_expr":
            return len(items.list_expr.elements)
        raise ExpressionError("a macro goes over one of the names, or over a list that is written out")

    def _call(self, call: _Node) -> int:
        """Units of a call, without its arguments."""
        name, args = call.function, [*([call.target] if call.HasField("target") else []), *call.args]
        if name in _OF_TIMES:
            _check_zone(call.args)
        elif name not in _OPERATORS and name not in ALLOWED:
            instead = "; use startsWith, endsWith, contains or in" if name == "matches" else ""
            raise ExpressionError(f"{name} is not allowed{instead}")
        size = sum(map(self._nodes, args))
        if name == "contains":
            return size * self._comparisons(args[-1])
        if name == "_+_" and not all(self._is_number(one) for one in args):
            return size * JOIN
        own = 0 if name[0] in "_!@-" else FUNCTION
        is_lookup = name in ("_[_]", "size") or (name == "@in" and self._is_map(args[-1]))
        return own + (0 if is_lookup or all(self._is_plain(one) for one in args) else size * MAX_ITEMS)

    def _is_plain(self, node: _Node) -> bool:
        """Neither a list nor a map, nor something that may be one; or a list of such that is written out."""
        if node.HasField("list_expr"):
            return all(map(self._is_plain, node.list_expr.elements))
        found = self._types[node.id]
        return found.WhichOneof("type_kind") in ("primitive", "null") or found.well_known in _TIMES

    def _is_map(self, node: _Node) -> bool:
        return bool(self._types[node.id].HasField("map_type"))

    def _is_number(self, node: _Node) -> bool:
        found = self._types[node.id]
        return found.primitive in _NUMBERS or found.well_known in _TIMES

    def _comparisons(self, sought: _Node) -> int:
        """Units of looking for a text in one of ``MAX_TEXT`` characters: each may be compared with each."""
        is_written = sought.HasField("const_expr")
        return FUNCTION + 4 * (len(sought.const_expr.string_value) if is_written else MAX_TEXT * self._nodes(sought))

    def _nodes(self, node: _Node) -> int:
        if node.HasField("ident_expr") and node.ident_expr.name == self._variable:
            return self._each
        return 1 + sum(map(self._nodes, _below(node)))


def _check_zone(args: Sequence[_Node]) -> None:
    """A zone is written out, and known here. Without one it is UTC."""
    for zone in args:
        name = zone.const_expr.string_value
        if not name:
            raise ExpressionError("a time zone is written out, as in getHours('Europe/Berlin')")
        if name not in _zones() and not _OFFSET.fullmatch(name):
            raise ExpressionError(f"no time zone {name[:40]!r} is known here; write one as Europe/Berlin, or as +02:00")


@lru_cache(1)
def _zones() -> frozenset[str]:
    """Those whose rules are installed."""
    return frozenset(zoneinfo.available_timezones()) | {"UTC"}


def _below(node: _Node) -> Iterator[_Node]:
    form = node.WhichOneof("expr_kind")
    if form == "call_expr":
        if node.call_expr.HasField("target"):
            yield node.call_expr.target
        yield from node.call_expr.args
    elif form == "select_expr":
        yield node.select_expr.operand
    elif form == "list_expr":
        yield from node.list_expr.elements
    elif form == "struct_expr":
        for entry in node.struct_expr.entries:
            if entry.HasField("map_key"):
                yield entry.map_key
            yield entry.value
    elif form == "comprehension_expr":
        macro = node.comprehension_expr
        yield from (macro.iter_range, macro.accu_init, macro.loop_condition, macro.loop_step, macro.result)


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
