"""Typed access to the fields of a decoded tree, as tolerant as the API server: null is the same as absent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NoReturn

from extauthz.core.errors import ObjectError
from extauthz.core.model import Tree

MAX_REPLICAS: Final = 2**31 - 1
"""``spec.replicas`` is an int32 everywhere (``k8s.io/api/apps/v1/types.go``, ``autoscaling/v1/types.go``)."""

_INT32: Final = 2**31
_INT64: Final = 2**63
_SHOWN: Final = 40
"""Characters of a value in a sentence."""
_NOTHING: Final[dict[str, Tree]] = {}


def at(tree: Tree, *keys: str | int) -> Tree:
    """What stands there, or ``None`` where a part of the way is missing."""
    for key in keys:
        if isinstance(key, int):
            tree = tree[key] if isinstance(tree, list) and key < len(tree) else None
        else:
            tree = tree.get(key) if isinstance(tree, Mapping) else None
    return tree


def mapping(value: Tree, path: str) -> dict[str, Tree]:
    """An object's keys; null is an empty object. Raises ObjectError."""
    if isinstance(value, dict):
        return value
    return _NOTHING if value is None else wrong(value, path, "an object")


def items(value: Tree, path: str) -> Iterator[tuple[dict[str, Tree], str]]:
    """A list's objects, each with its path. A null among them is an empty object, as in Go. Raises ObjectError."""
    if value is None:
        return
    if not isinstance(value, list):
        wrong(value, path, "a list")
    for index, item in enumerate(value):
        at = f"{path}[{index}]"
        yield mapping(item, at), at


def text(value: Tree, path: str) -> str:
    """A string; null is an empty one. Raises ObjectError."""
    if isinstance(value, str):
        return value
    return "" if value is None else wrong(value, path, "a string")


def text_list(value: Tree, path: str) -> tuple[str, ...]:
    """A list of texts; ``null`` is an empty one. Raises ObjectError."""
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        wrong(value, path, "a list of strings")
    return tuple(value)


def boolean(value: Tree, path: str) -> bool:
    """True or false; null is false. Raises ObjectError."""
    if isinstance(value, bool):
        return value
    return False if value is None else wrong(value, path, "true or false")


def replicas(value: Tree, default: int, path: str = "spec.replicas") -> int:
    """A count as a JSON decoder fills an int32: no fraction, exponent or string. Raises ObjectError."""
    if value is None:
        return default
    if type(value) is not int:
        raise ObjectError(path, f"must be a whole number, not {_shown(value)}", "replicas-not-an-integer")
    if value < 0:
        raise ObjectError(path, f"must not be below zero, is {_shown(value)}", "replicas-negative")
    if value > MAX_REPLICAS:
        raise ObjectError(path, f"must be at most {MAX_REPLICAS}, is {_shown(value)}", "replicas-too-large")
    return value


def amounts(tree: Tree, path: str) -> dict[str, str]:
    """A ResourceList as text, not checked: ``core.quantities`` does that. Raises ObjectError."""
    return {
        key: value if isinstance(value, str) else _amount(value, f"{path}[{key}]")
        for key, value in mapping(tree, path).items()
    }


def _amount(value: Tree, path: str) -> str:
    """A number as a quantity's text. Null is a zero (``UnmarshalJSON``)."""
    if value is None:
        return "0"
    if isinstance(value, bool) or not isinstance(value, int | float):
        wrong(value, path, "a quantity")
    return getattr(value, "text", None) or repr(value)  # gojson.Number keeps the literal, as UnmarshalJSON sees it


def converted_int32(value: Tree) -> Tree:
    """A number as the unstructured converter puts it into an int32, without a JSON decoder.

    ``fromUnstructured`` (``k8s.io/apimachinery/pkg/runtime/converter.go``) takes a whole float, and lets an int64
    wrap around. What a float beyond 64 bits becomes depends on the machine: it is left as it is, like anything else.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_INT64 <= value < _INT64:
        return value
    return (int(value) + _INT32) % (2 * _INT32) - _INT32 if value == int(value) else value


def wrong(value: Tree, path: str, wanted: str) -> NoReturn:
    """Raises an ObjectError: this value has the wrong type."""
    raise ObjectError(path, f"must be {wanted}, not {_shown(value)}")


def _shown(value: Tree) -> str:
    """A value for a sentence: short, whatever it is."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, int) and value.bit_length() > 64:
        return "a number beyond 64 bits"
    if isinstance(value, str):
        value = value[:_SHOWN]  # to spell out megabytes takes longer than all else that is done with them
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[:37]}..."
