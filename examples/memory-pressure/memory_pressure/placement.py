"""On which nodes the pods of a workload may land: ``nodeSelector`` and the required node affinity of its pod template.

Taints and tolerations are not looked at, nor preferences, nor affinity to other pods. What cannot be read, is very
long, or asks for other things than labels have (``Gt``, ``Lt``, ``matchFields``), is not known: whoever decides by it
takes every node for possible.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from extauthz.core.model import Tree
from extauthz.core.quota.problems import Problems
from extauthz.core.quota.selectors import LabelSelector, parse

ANY: Final = ""
"""Any node."""

_MAX_CHARS: Final = 4096
"""A longer placement is not kept."""

_SHARED: Final = 1024
"""Placements that are kept read. Equal ones are one text."""

_REQUIRED: Final = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")


def placement(pod: Mapping[str, Tree]) -> str | None:
    """That of the ``spec`` of a pod template, as text; ``None``: it cannot be told."""
    selector, terms = pod.get("nodeSelector"), _at(pod, *_REQUIRED)
    if not selector and terms is None:
        return ANY
    if not isinstance(terms, list | None):
        return None
    # A term must match, and the labels of ``nodeSelector`` with it. A term with nothing in it matches no node.
    either = [{}] if terms is None else [one for one in terms if one]
    if any(not isinstance(one, Mapping) or one.keys() - {"matchExpressions"} for one in either):
        return None
    text = json.dumps([{**one, "matchLabels": selector} for one in either], sort_keys=True, separators=(",", ":"))
    return _shared(text) if len(text) <= _MAX_CHARS and _read(text) is not None else None


def allows(placement: str | None, labels: Mapping[str, str]) -> bool:
    """Whether the pods may land on a node with these labels."""
    found = _read(placement) if placement else None
    return found is None or any(one.matches(labels) for one in found)


@lru_cache(_SHARED)
def _read(placement: str) -> tuple[LabelSelector, ...] | None:
    """``None``: an API server takes no such placement, or it asks for more than labels."""
    problems = Problems()
    found = tuple(parse(one, (), problems) for one in json.loads(placement))
    return None if len(problems) else found


_shared: Final = lru_cache(_SHARED)(str)


def _at(tree: Tree, *keys: str) -> Tree:
    for key in keys:
        tree = tree.get(key) if isinstance(tree, Mapping) else None
    return tree
