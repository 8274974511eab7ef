"""Whether two templates say the same, however their amounts are spelled: the API server writes ``1000m`` as ``1``."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from extauthz.core import quantities
from extauthz.core.model import Template, Tree

_AMOUNTS: Final = frozenset({"limits", "requests", "overhead"})


def alike(one: Template, other: Template) -> bool:
    """Whether both cost the same and name the same containers, volumes and claims."""
    return one == other or _same(json.loads(one.text), json.loads(other.text))


def all_among(templates: Iterable[Template], known: Collection[Template]) -> bool:
    """Whether each is like one of those that are ``known``."""
    return all(any(alike(template, one) for one in known) for template in templates)


def _same(one: Tree, other: Tree) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            (_same_amounts if key in _AMOUNTS else _same)(one[key], other[key]) for key in one
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def _same_amounts(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    try:
        return {key: quantities.parse(text) for key, text in one.items()} == {
            key: quantities.parse(text) for key, text in other.items()
        }
    except quantities.QuantityError:
        return False
