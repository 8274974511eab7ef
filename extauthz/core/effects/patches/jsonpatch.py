"""JSON Patch (RFC 6902) as ``gopkg.in/evanphx/json-patch.v4`` applies it, on a partial document.

Where the library departs from the RFC, the library is followed: what comes before a path's first slash is dropped,
so that ``x/spec/replicas`` means ``/spec/replicas``; ``replace`` and ``copy`` take a key that is missing for null; an
index may be negative, or carry a sign and leading zeros.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from extauthz.core.budget import OPERATION, SHIFTED, TOKEN, WALKED, Work
from extauthz.core.effects.outcome import Area, area
from extauthz.core.effects.patches.trees import copied, fresh
from extauthz.core.errors import PatchError
from extauthz.core.model import Tree
from extauthz.core.objects.partial import Hidden, Partial

MAX_COPIED: Final = 3 * 1024 * 1024
"""The most bytes that ``copy`` operations may add: ``JSONPatchMaxCopyBytes`` in ``apiserver/pkg/server/config.go``."""

MAX_ITEMS: Final = 10_000
"""Longest list that is changed by index: each change moves all that follow it."""

_CURE: Final = "send a merge patch, or the object as it is to be"

_INDEX: Final = re.compile(r"[+-]?[0-9]{1,18}")

_Container: TypeAlias = dict[str, Tree] | list[Tree]
_Operation: TypeAlias = Mapping[str, Tree]


def apply(document: dict[str, Tree], operations: Sequence[_Operation], work: Work) -> tuple[dict[str, Tree], Area]:
    """Changes ``document``; returns it (or the one that replaces it) and what was touched. Raises PatchError.

    ``test`` is taken as passed: what it looks at may have another value in the cluster by now, or was not kept.
    Operations on fields that were not kept change nothing that counts; values taken from them are ``Hidden.MOVED``.
    """
    patched = _Patched(document, work)
    for operation in operations:
        work.spend(OPERATION, "the operations of the JSON Patch", _CURE)
        name = operation.get("op")
        perform = _OPERATIONS.get(name) if isinstance(name, str) else None
        if perform is None:
            raise PatchError("patch-malformed", "op must be add, remove, replace, move, copy or test")
        perform(patched, operation)
    return patched.document, patched.touched


class _Patched:
    """A document, what was touched in it, and how much ``copy`` has added."""

    def __init__(self, document: dict[str, Tree], work: Work) -> None:
        self.work = work
        self.document = document
        self.touched = Area.NONE
        self._copied = 0

    def locate(self, pointer: str) -> tuple[_Container | None, str]:
        """The container that a pointer leads to, and the key in it. None: the container was not kept."""
        tokens = _tokens(pointer)
        self.work.spend(TOKEN * len(tokens), "the pointers of the JSON Patch", _CURE)
        if not tokens:
            raise PatchError("patch-does-not-apply", f"{_quoted(pointer)} names no field")
        node: _Container = self.document
        for token in tokens[:-1]:
            if isinstance(node, Partial) and node.hides(token):
                return None, tokens[-1]
            node = _container(_get(node, token), pointer)
        return _container(node, pointer), tokens[-1]

    def touch(self, pointer: str) -> None:
        self.touched |= area(_tokens(pointer))

    def spend(self, size: int) -> None:
        self.walk()
        self._copied += size
        if self._copied > MAX_COPIED:
            raise PatchError("patch-too-large", f"copies more than {MAX_COPIED} bytes")

    def walk(self, _: int = 0) -> None:
        """Pay for a value that is moved or copied: each of its values is visited."""
        self.work.spend(WALKED, "what move and copy walk through", _CURE)

    def shift(self, items: list[Tree]) -> None:
        """Pay for an item that is put into a list or taken out."""
        self.work.spend(len(items) // SHIFTED, "the lists that are changed by index", _CURE)


def _add(patched: _Patched, operation: _Operation) -> None:
    _put(patched, _pointer(operation, "path"), fresh(operation.get("value")))


def _remove(patched: _Patched, operation: _Operation) -> None:
    _take(patched, _pointer(operation, "path"))


def _replace(patched: _Patched, operation: _Operation) -> None:
    pointer = _pointer(operation, "path")
    value = fresh(operation.get("value"))
    patched.touch(pointer)
    if pointer == "":
        if not isinstance(value, dict):
            raise PatchError("patch-malformed", "an API object must be an object")
        patched.document = value
        return
    container, key = patched.locate(pointer)
    if isinstance(container, list):
        container[_index(container, key)] = value
    elif container is not None:
        container[key] = value


def _move(patched: _Patched, operation: _Operation) -> None:
    value = _take(patched, _pointer(operation, "from"))
    _put(patched, _pointer(operation, "path"), value)


def _copy(patched: _Patched, operation: _Operation) -> None:
    container, key = patched.locate(_pointer(operation, "from"))
    value = Hidden.MOVED if container is None else _get(container, key)
    _put(patched, _pointer(operation, "path"), copied(value, patched.spend))


def _test(patched: _Patched, operation: _Operation) -> None:
    _pointer(operation, "path")


_OPERATIONS: Final[Mapping[str, Callable[[_Patched, _Operation], None]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


def _put(patched: _Patched, pointer: str, value: Tree) -> None:
    container, key = patched.locate(pointer)
    patched.touch(pointer)
    if isinstance(container, list):
        patched.shift(container)
        container.insert(len(container) if key == "-" else _index(container, key, past_end=1), value)
    elif container is not None:
        container[key] = value


def _take(patched: _Patched, pointer: str) -> Tree:
    container, key = patched.locate(pointer)
    patched.touch(pointer)
    if isinstance(container, list):
        patched.shift(container)
        return copied(container.pop(_index(container, key)), patched.walk)
    if container is None or (isinstance(container, Partial) and container.hides(key)):
        return Hidden.MOVED
    if key not in container:
        raise PatchError("patch-does-not-apply", f"{_quoted(pointer)} is not there")
    return copied(container.pop(key), patched.walk)  # marks what was never seen


def _get(container: _Container, key: str) -> Tree:
    if isinstance(container, list):
        return container[_index(container, key)]
    if isinstance(container, Partial) and container.hides(key):
        return Hidden.MOVED
    return container.get(key)


def _index(items: list[Tree], key: str, past_end: int = 0) -> int:
    """``strconv.Atoi``. A number below zero counts from the end; for ``add`` the end is one further."""
    size = len(items) + past_end
    index = int(key) if _INDEX.fullmatch(key) else size
    if not -size <= index < size:
        raise PatchError("patch-does-not-apply", f"{_quoted(key)} is no index of a list of {len(items)}")
    if len(items) > MAX_ITEMS:
        raise PatchError("patch-too-large", f"changes a list of more than {MAX_ITEMS} items")
    return index % size


def _container(node: Tree, pointer: str) -> _Container:
    if isinstance(node, dict | list):
        return node
    if isinstance(node, Hidden):
        raise PatchError("object-not-seen", f"{_quoted(pointer)} is in a part of the object that the gate has not seen")
    raise PatchError("patch-does-not-apply", f"{_quoted(pointer)} leads to nothing")


def _pointer(operation: _Operation, key: str) -> str:
    pointer = operation.get(key)
    if not isinstance(pointer, str):
        raise PatchError("patch-malformed", f"{key} of an operation must be a string")
    return pointer


def _tokens(pointer: str) -> tuple[str, ...]:
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:])


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
