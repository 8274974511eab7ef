"""What an expression may cost at most, from its checked tree, before anything evaluates it.

An evaluation cannot be interrupted, and it runs in the loop that decides for everybody. So the cost is bounded by the
form of the expression: a macro goes over something of known length, and no macro is within another. Then nothing in it
can grow faster than it is written. A unit is a step of the evaluation, about 50 ns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from extauthz.core.quota.policies import MAX_ITEMS, MAX_TEXT, ExpressionError

FUNCTION: Final = 10
"""Units of a function that has a name: conversions read a text, ``getHours`` asks for a time zone."""

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
        if name == "matches":
            raise ExpressionError("matches is not allowed; use startsWith, endsWith, contains or in")
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
