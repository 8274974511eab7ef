"""One small change at a time to Python source: what a test suite should notice.

Asserts, annotations, decorators, texts and what is raised stay as they are: they guard against our own mistakes or tell
people something, and decide nothing. So do durations that have a name (``TICK_S = 0.1``): one a second longer is as
good, and where it is not, a test says which bound it keeps.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
LARGEST = 16
"""Of constants that are changed. What is larger is a bound, and one more or less of it is as good."""
LEFT_ALONE = (ast.Assert, ast.Raise, ast.Import, ast.ImportFrom, ast.JoinedStr)


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    path: str
    line: int
    last: int
    """The last line of what is changed."""
    what: str
    before: str
    """The whole file."""
    after: str

    @cached_property
    def change(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The lines that go and those that come, stripped. Lines before and after them are not compared: a
        draw asks for the change of thousands of whole files."""
        before, after = self.before.splitlines(), self.after.splitlines()
        most = min(len(before), len(after))
        head = next((at for at in range(most) if before[at] != after[at]), most)
        tail = next((at for at in range(most - head) if before[-1 - at] != after[-1 - at]), most - head)
        lines = difflib.ndiff(before[head : len(before) - tail], after[head : len(after) - tail])
        marked = [(line[0], line[2:].strip()) for line in lines if line[0] in "+-"]
        return tuple(text for mark, text in marked if mark == "-"), tuple(text for mark, text in marked if mark == "+")

    def diff(self) -> str:
        lines = difflib.unified_diff(
            self.before.splitlines(), self.after.splitlines(), self.path, f"{self.path} ({self.what})", "", "", 1, ""
        )
        return "\n".join(lines)


def mutants(path: str, source: str) -> Iterator[Mutant]:
    """All changes that are known here, in the order of the source."""
    places = _Places(source)
    for node in _decisive(ast.parse(source)):
        for what, place, text in _changes(node):
            after = places.replaced(place, text)
            if _parses(after):
                yield Mutant(path, place.lineno, place.end_lineno or place.lineno, what, source, after)


class _Places:
    """Where nodes stand in a source. Columns are of UTF-8, as ``ast`` has them."""

    def __init__(self, source: str) -> None:
        self._bytes = source.encode()
        self._starts = [0]
        for line in self._bytes.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def replaced(self, node: ast.stmt | ast.expr, text: str) -> str:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        begin = self._starts[node.lineno - 1] + node.col_offset
        end = self._starts[node.end_lineno - 1] + node.end_col_offset
        return (self._bytes[:begin] + text.encode() + self._bytes[end:]).decode()


def _parses(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def _decisive(node: ast.AST) -> Iterator[ast.stmt | ast.expr]:
    """What decides something, outermost first."""
    if isinstance(node, LEFT_ALONE) or _is_duration(node):
        return
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.stmt | ast.expr):
        yield node
    for name, value in ast.iter_fields(node):
        if name in ("decorator_list", "annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _decisive(child)


def _is_duration(node: ast.AST) -> bool:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant()):
            return name.isupper() and name.endswith("_S")
    return False


Change = tuple[str, ast.stmt | ast.expr, str]
"""A word for it, what is replaced, and the text that comes there."""


def _changes(node: ast.stmt | ast.expr) -> Iterator[Change]:
    if isinstance(node, ast.stmt):
        yield from _of_statement(node)
        return
    yield from ((what, node, text) for what, text in _of_expression(node))
    for test in _conditions(node):
        yield from _negated(test)


def _of_expression(node: ast.expr) -> Iterator[tuple[str, str]]:
    """Parsed trees are changed in place for a moment, printed, and put back."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in OPERATORS:
            yield "comparison", _with(node, "ops", [OPERATORS[type(operator)]()])
        case ast.BoolOp(op=operator):
            yield "and-or", _with(node, "op", OPERATORS[type(operator)]())
        case ast.BinOp(op=operator) if type(operator) in OPERATORS:
            yield "arithmetic", _with(node, "op", OPERATORS[type(operator)]())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "not", f"({ast.unparse(operand)})"
        case ast.Constant(value=bool(value)):
            yield "bool", str(not value)
        case ast.Constant(value=int(value) | float(value)) if abs(value) <= LARGEST:
            yield "constant", repr(value + 1)
            yield "constant", f"({value - 1!r})"
        case ast.Name(id=name) if name in NAMES:
            yield "swap", NAMES[name]


def _with(node: ast.expr, field: str, value: object) -> str:
    before = getattr(node, field)
    setattr(node, field, value)
    text = ast.unparse(node)
    setattr(node, field, before)
    return f"({text})"


def _conditions(node: ast.AST) -> list[ast.expr]:
    """What is asked there, but for what other changes reach already."""
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            tests = [test]
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            tests = [test for generator in node.generators for test in generator.ifs]
        case _:
            tests = []
    return [test for test in tests if not isinstance(test, ast.BoolOp | ast.Constant)]


def _negated(test: ast.expr) -> Iterator[Change]:
    is_equality = isinstance(test, ast.Compare) and not isinstance(test.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE)
    if not is_equality and not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
        yield "negate", test, f"(not ({ast.unparse(test)}))"


def _of_statement(node: ast.stmt) -> Iterator[Change]:
    match node:
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign() | ast.Delete():
            yield "remove", node, "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript() | ast.Tuple()]):
            yield "remove", node, "pass"
        case ast.Return(value=None):
            yield "go on", node, "pass"
        case ast.Return(value=ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not())):
            yield "return", node, "return True"
            yield "return", node, "return False"
        case ast.Return(value=value) if not isinstance(value, ast.Constant):
            yield "return", node, "return None"
        case ast.Continue() | ast.Break():
            yield "loop", node, "break" if isinstance(node, ast.Continue) else "continue"
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from _early_return(node)
    for test in _conditions(node):
        yield from _negated(test)


def _early_return(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Change]:
    if not isinstance(node.returns, ast.Constant) or node.returns.value is not None:
        return
    body = [one for one in node.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]
    if len(body) > 1:
        yield "return early", body[-1], "return"
