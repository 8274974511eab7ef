"""JSON merge patches (RFC 7386) as ``MergePatch`` of ``gopkg.in/evanphx/json-patch.v4`` applies them."""

from __future__ import annotations

from extauthz.core.effects.patches.trees import without_nulls
from extauthz.core.errors import PatchError
from extauthz.core.model import Tree
from extauthz.core.objects.partial import Hidden


def merge(document: dict[str, Tree], patch: Tree) -> Tree:
    """Changes ``document`` by ``patch``. They share nothing afterwards. Raises PatchError."""
    if not isinstance(patch, dict):
        raise PatchError("patch-malformed", "a merge patch of an API object must be an object")
    return _merged(document, patch)


def _merged(target: Tree, patch: Tree) -> Tree:
    if isinstance(target, Hidden) and isinstance(patch, dict):
        raise PatchError("object-not-seen", "the patch changes a part of an object that the gate has not seen")
    if not isinstance(target, dict) or not isinstance(patch, dict):
        # The server also drops nulls inside lists (``pruneNulls``), where RFC 7386 keeps them.
        return without_nulls(patch)
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif not isinstance(value, dict | list):
            target[key] = value
        else:
            target[key] = _merged(target.get(key), value)
    return target
