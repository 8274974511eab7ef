"""On which nodes the pods of a workload may land: ``nodeSelector`` and the required node affinity of its pod template.

Taints and tolerations are not looked at, nor preferences, nor affinity to other pods. What cannot be read, or is very
long, is not known: whoever decides by it takes every node for possible.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from extauthz.core.model import Tree

ANY: Final = ""
"""Any node."""

_MOST: Final = 64
"""Terms, requirements of one, values of one, and labels that are read."""

_MAX_CHARS: Final = 4096
"""A longer placement is not kept."""

_SHARED: Final = 1024
"""How many equal texts are shared."""

_REQUIRED: Final = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")

_TESTS: Final[Mapping[str, Callable[[str | None, list[str]], bool]]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": lambda value, values: value is not None and _number(value) > _number(values[0]),
    "Lt": lambda value, values: value is not None and _number(value) < _number(values[0]),
}
"""Operator to its test of a node's label; ``None``: it has no such label (``NodeSelectorRequirement``)."""


class _UnreadableError(Exception):
    """It is no placement that an API server takes, or it is very long."""


def placement(pod: Mapping[str, Tree]) -> str | None:
    """That of the ``spec`` of a pod template, as text; ``None``: it cannot be told."""
    selector, terms = pod.get("nodeSelector"), _at(pod, _REQUIRED)
    if not selector and terms is None:
        return ANY
    try:
        read = {"labels": _labels(selector), "terms": None if terms is None else [_term(one) for one in _list(terms)]}
    except _UnreadableError:
        return None
    text = json.dumps(read, sort_keys=True, separators=(",", ":"))
    return _shared(text) if len(text) <= _MAX_CHARS else None


def allows(placement: str | None, name: str, labels: Mapping[str, str]) -> bool:
    """Whether the pods may land on the node of that name."""
    if not placement:
        return True
    read = _read(placement)
    if any(labels.get(key) != value for key, value in read["labels"].items()):
        return False
    return read["terms"] is None or any(_matches(term, name, labels) for term in read["terms"])


def _matches(term: tuple[Tree, Tree], name: str, labels: Mapping[str, str]) -> bool:
    """A term with nothing in it matches no node."""
    expressions, fields = term
    return (
        bool(expressions or fields)
        and all(_TESTS[operator](labels.get(key), values) for key, operator, values in expressions)
        and all(_TESTS[operator](name, values) for _, operator, values in fields)
    )


def _labels(tree: Tree) -> dict[str, str]:
    given = tree or {}
    if not isinstance(given, Mapping) or len(given) > _MOST:
        raise _UnreadableError
    return {_text(key): _text(value) for key, value in given.items()}


def _term(tree: Tree) -> tuple[Tree, Tree]:
    fields = [_requirement(one) for one in _list(_at(tree, ("matchFields",)))]
    if any(key != "metadata.name" for key, *_ in fields):
        raise _UnreadableError
    return [_requirement(one) for one in _list(_at(tree, ("matchExpressions",)))], fields


def _requirement(tree: Tree) -> tuple[str, str, list[str]]:
    operator = _text(_at(tree, ("operator",)))
    values = [_text(one) for one in _list(_at(tree, ("values",)))]
    if operator not in _TESTS or (operator in ("Gt", "Lt") and not values):
        raise _UnreadableError
    return _text(_at(tree, ("key",))), operator, values


def _list(tree: Tree) -> list[Tree]:
    if tree is None:
        return []
    if not isinstance(tree, list) or len(tree) > _MOST:
        raise _UnreadableError
    return tree


def _text(tree: Tree) -> str:
    if not isinstance(tree, str):
        raise _UnreadableError
    return tree


def _number(text: str) -> float:
    """No number is none that is larger or smaller: no node matches it."""
    try:
        return int(text)
    except ValueError:
        return float("nan")


def _at(tree: Tree, keys: Sequence[str]) -> Tree:
    for key in keys:
        tree = tree.get(key) if isinstance(tree, Mapping) else None
    return tree


_shared: Final = lru_cache(maxsize=_SHARED)(str)
_read: Final = lru_cache(maxsize=16)(json.loads)
"""It is read for each node in turn, and changed by nobody."""
