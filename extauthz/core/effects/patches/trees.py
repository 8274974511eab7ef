"""Copies of values of a patch, bounded in depth and size. No document shares a node with a patch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from extauthz.core.errors import PatchError
from extauthz.core.model import Tree
from extauthz.core.objects.partial import Hidden, Partial

MAX_DEPTH: Final = 200
"""Deepest nesting. Deeper bodies are refused before. But JSON Patch can copy a document into itself."""


def copied(tree: Tree, spend: Callable[[int], None], depth: int = 0) -> Tree:
    """A deep copy. ``spend`` gets the least size in bytes of each node as JSON. Hidden values become MOVED."""
    if depth > MAX_DEPTH:
        raise PatchError("patch-too-deep", f"the result is nested more than {MAX_DEPTH} deep")
    if isinstance(tree, dict):
        spend(sum(map(len, tree)) + 4 * len(tree) + 2)
        content = {key: copied(value, spend, depth + 1) for key, value in tree.items()}
        return Partial(tree.of, content) if isinstance(tree, Partial) else content
    if isinstance(tree, list):
        spend(len(tree) + 2)
        return [copied(item, spend, depth + 1) for item in tree]
    if isinstance(tree, Hidden):
        return Hidden.MOVED
    spend(len(tree) if isinstance(tree, str) else 1)
    return tree


def fresh(tree: Tree) -> Tree:
    """A deep copy of what a body brings, which hides nothing and is as deep as a body may be."""
    if isinstance(tree, dict):
        return {key: fresh(value) if isinstance(value, dict | list) else value for key, value in tree.items()}
    return [fresh(item) for item in tree] if isinstance(tree, list) else tree


def without_nulls(tree: Tree) -> Tree:
    """A tree without keys that are null, in lists too. A null that is an item of a list stays."""
    if isinstance(tree, dict):
        return {
            key: without_nulls(value) if isinstance(value, dict | list) else value
            for key, value in tree.items()
            if value is not None
        }
    return [without_nulls(item) for item in tree] if isinstance(tree, list) else tree
