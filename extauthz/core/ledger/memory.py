"""How many bytes a pending write holds: the patch it may apply again, the templates and labels it may leave."""

from __future__ import annotations

from sys import getsizeof

from extauthz.core.ledger.pending_write import PendingWrite
from extauthz.core.model import Change, JsonPatch, MergePatch, Put, StrategicMergePatch, Tree


def held_by(pending_write: PendingWrite) -> int:
    """Bytes, counted once for each value. A write of a count alone holds none that are worth a bound."""
    texts = sum(len(template.text) for template in pending_write.templates) + sum(
        len(one) for one in pending_write.labels
    )
    return texts + (_size(_tree(pending_write.write.change)) if pending_write.write is not None else 0)


def _tree(change: Change) -> Tree:
    match change:
        case JsonPatch(operations):
            return list(operations)
        case MergePatch(tree) | StrategicMergePatch(tree) | Put(tree):
            return tree
    return change.configuration


def _size(tree: Tree) -> int:
    size, left = 0, [tree]
    while left:
        value = left.pop()
        size += getsizeof(value)
        if isinstance(value, dict):
            left += value.keys()
            left += value.values()
        elif isinstance(value, list):
            left += value
    return size
