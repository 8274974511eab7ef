"""Puts a change into modules that are imported already: a function whose body differs gets its new code."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType

Codes = dict[tuple[str, int], CodeType]
"""By qualified name, and how many of that name come before it."""


def swap(file: Path, before: str, after: str) -> bool:
    """Give the functions of ``file`` the bodies that they have in ``after``. False: that is not all that differs."""
    old, new = (compile(text, str(file), "exec", dont_inherit=True) for text in (before, after))
    if list(_at_import(old)) != list(_at_import(new)):
        return False
    olds, news = functions(old), functions(new)
    live: dict[tuple[str, int], list[FunctionType]] = {}
    for one in gc.get_objects():
        if type(one) is FunctionType and one.__code__.co_filename == str(file):
            live.setdefault((one.__code__.co_qualname, one.__code__.co_firstlineno), []).append(one)
    changed = {key: code for key, code in olds.items() if _essence(code) != _essence(news[key])}
    found = {key: live.get((code.co_qualname, code.co_firstlineno), []) for key, code in changed.items()}
    if not changed or not all(found.values()):
        return False
    for key, ones in found.items():
        for one in ones:
            if len(one.__code__.co_freevars) != len(news[key].co_freevars):
                return False
            one.__code__ = news[key]
    return True


def functions(code: CodeType) -> Codes:
    """All that are not within another function."""
    seen: Counter[str] = Counter()
    found: Codes = {}
    for one in _functions(code):
        found[one.co_qualname, seen[one.co_qualname]] = one
        seen[one.co_qualname] += 1
    return found


def _functions(code: CodeType) -> Iterator[CodeType]:
    for one in code.co_consts:
        if isinstance(one, CodeType):
            if _is_function(one):
                yield one
            else:
                yield from _functions(one)


_OPTIMIZED = 1


def _is_function(code: CodeType) -> bool:
    """And no class."""
    return bool(code.co_flags & _OPTIMIZED)


def _at_import(code: CodeType) -> Iterator[object]:
    """What runs when the module is imported: its own code and that of classes, lines aside."""
    yield code.co_qualname, code.co_code, code.co_names
    for one in code.co_consts:
        if not isinstance(one, CodeType):
            yield type(one), one
        elif not _is_function(one):
            yield from _at_import(one)
        else:
            yield one.co_qualname


def _essence(code: CodeType) -> object:
    """A function without its lines."""
    consts = [_essence(one) if isinstance(one, CodeType) else (type(one), one) for one in code.co_consts]
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, consts
