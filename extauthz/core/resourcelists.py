"""Reads resource lists, lists and fields of Kubernetes objects, and says where and why one cannot be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from extauthz.core import quantities
from extauthz.core.model import Tree
from extauthz.core.quantities import NANO

MAX_ITEMS: Final = 10_000
"""Longest list of containers, volumes, claims or resources. The API server bounds only the body."""

_MILLI: Final = NANO // 1000


class FootprintError(ValueError):
    """A template that the API server would refuse, or an absurdly large one.

    ``code`` is stable: ``bad-quantity``, ``negative-quantity``, ``fractional-quantity``, ``wrong-type``,
    ``too-many``, ``no-template``.
    """

    def __init__(self, code: str, path: str, detail: str) -> None:
        super().__init__(f"{path}: {detail}")
        self.code = code
        self.path = path
        self.detail = detail


def read_amounts(tree: Tree, path: str) -> dict[str, int]:
    """A ResourceList of a template, refused as ``ValidateResourceQuantityValue`` refuses it."""
    return {name: _amount(name, value, at) for name, value, at in resource_list(tree, path)}


def _amount(name: str, value: Tree, path: str) -> int:
    nanos = read_quantity(value, path)
    if nanos < 0:
        raise FootprintError("negative-quantity", path, "must not be below zero")
    if nanos % NANO and is_extended(name):
        raise FootprintError("fractional-quantity", path, "must be a whole number")
    return nanos


def read_quantity(value: Tree, path: str) -> int:
    """Rounded up to a thousandth, as ``SetDefaults_ResourceList`` does; null is zero (``UnmarshalJSON``)."""
    try:
        nanos = quantities.parse(0 if value is None else value)
    except quantities.QuantityError as error:
        raise FootprintError("bad-quantity", path, str(error)) from error
    return -(-nanos // _MILLI) * _MILLI if nanos > 0 else nanos // _MILLI * _MILLI


def resource_list(tree: Tree, path: str) -> Iterator[tuple[str, Tree, str]]:
    """The entries of a ResourceList: name, value, path. Raises FootprintError."""
    listed = mapping(tree, path)
    if len(listed) > MAX_ITEMS:
        raise FootprintError("too-many", path, f"more than {MAX_ITEMS} resources")
    for name, value in listed.items():
        yield name, value, f"{path}[{name}]"


def items(tree: Tree, path: str) -> Iterator[tuple[Mapping[str, Tree], str]]:
    """The objects of a list with their paths; of null none, as in Go. Raises FootprintError."""
    if tree is None:
        return
    if not isinstance(tree, list | tuple):
        raise _wrong_type(path, "a list", tree)
    if len(tree) > MAX_ITEMS:
        raise FootprintError("too-many", path, f"more than {MAX_ITEMS} entries")
    for index, item in enumerate(tree):
        yield mapping(item, f"{path}[{index}]"), f"{path}[{index}]"


def mapping(tree: Tree, path: str) -> Mapping[str, Tree]:
    """An object; null is an empty one, as in Go. Raises FootprintError."""
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise _wrong_type(path, "an object", tree)
    return tree


def _wrong_type(path: str, wanted: str, found: Tree) -> FootprintError:
    return FootprintError("wrong-type", path or "(root)", f"must be {wanted}, not {type(found).__name__}")


def text(tree: Mapping[str, Tree], field: str, path: str) -> str | None:
    """A field that holds text, if it is given. Raises FootprintError."""
    value = tree.get(field)
    if not isinstance(value, str | None):
        raise _wrong_type(f"{path}.{field}", "text", value)
    return value


def is_extended(name: str) -> bool:
    """``IsExtendedResourceName`` of ``pkg/apis/core/v1/helper``: qualified, and not Kubernetes' own."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")
