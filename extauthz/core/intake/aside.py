"""Reads a long body where it holds nobody up, and keeps of it what counts: the rest costs whoever decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final

from extauthz.core.budget import Work, of_rest
from extauthz.core.errors import BodyError
from extauthz.core.intake.read import read
from extauthz.core.model import (
    Apply,
    Change,
    JsonPatch,
    MergePatch,
    Put,
    Reading,
    Request,
    StrategicMergePatch,
    Tree,
    Unreadable,
    Write,
)
from extauthz.core.objects.partial import KNOWN

_READ_TOO: Final[Mapping[str, frozenset[str]]] = {
    "metadata": frozenset({"generateName", "ownerReferences"}),
    "template": frozenset({"metadata"}),
    "pod-metadata": frozenset({"labels"}),
}
"""Keys that whole objects are read by, and that no observed document has."""

_KIND_OF: Final[Mapping[tuple[str, str], str]] = {
    ("object", "metadata"): "metadata",
    ("object", "spec"): "spec",
    ("spec", "template"): "template",
    ("spec", "volumeClaimTemplates"): "claim",
    ("template", "metadata"): "pod-metadata",
    ("template", "spec"): "pod",
    ("pod", "containers"): "container",
    ("pod", "initContainers"): "container",
    ("pod", "volumes"): "volume",
    ("volume", "ephemeral"): "ephemeral",
    ("ephemeral", "volumeClaimTemplate"): "claim",
    ("claim", "metadata"): "claim-metadata",
    ("claim", "spec"): "claim-spec",
}
"""(kind of a mapping, key) to the kind of the mapping there, or of each in the list there. All else is kept whole."""

_KEYS: Final[Mapping[str, frozenset[str]]] = {
    kind: KNOWN.get(kind, frozenset()) | _READ_TOO.get(kind, frozenset()) for kind in (*KNOWN, "pod-metadata")
} | {"ephemeral": frozenset({"volumeClaimTemplate"})}

_OF_ONE_FIELD: Final = ("$setElementOrder/", "$deleteFromPrimitiveList/")
"""Directives of a strategic merge patch that concern the field they name."""

_TOUCHED_AS_A_WHOLE: Final = frozenset({"object", "metadata", "spec"})
"""Kinds of mappings that any directive touches as a whole, whatever it names (``effects.outcome.touched``)."""


def read_aside(request: Request) -> Reading:
    """``read``, without what counts for nothing. A decision on it is the same; more than a little of it is refused.

    >>> target = "/apis/apps/v1/namespaces/shop/deployments/web"
    >>> patch = {"content-type": "application/merge-patch+json"}
    >>> read_aside(Request("PATCH", target, patch, b'{"spec":{"replicas":3,"paused":true}}')).change.patch
    {'spec': {'replicas': 3}}
    """
    return slimmed(read(request))


def slimmed(reading: Reading) -> Reading:
    """A reading without what counts for nothing."""
    if not isinstance(reading, Write):
        return reading
    change = _SLIM[type(reading.change)](reading.change)
    try:
        _weigh(_CONTENT[type(change)](change), of_rest())
    except BodyError as error:
        return Unreadable(error.code, error.detail, reading.ref)
    return reading._replace(change=change)


def _json_patch(change: JsonPatch) -> JsonPatch:
    """Operations may look at any value that one before them brought. So only of a lone one is anything left out."""
    first = change.operations[0] if len(change.operations) == 1 else {}
    if first.get("path") != "" or "value" not in first:
        return change
    return JsonPatch((dict(first) | {"value": _slim(first["value"], "object")},))


_SLIM: Final[Mapping[type, Callable[[Any], Change]]] = {
    Put: lambda change: Put(_slim(change.document, "object")),
    JsonPatch: _json_patch,
    MergePatch: lambda change: MergePatch(_slim(change.patch, "object")),
    StrategicMergePatch: lambda change: StrategicMergePatch(_slim(change.patch, "object")),
    Apply: lambda change: Apply(_slim(change.configuration, "object")),
}


def _slim(tree: Tree, kind: str | None) -> Tree:
    """A tree without the fields that no outcome rests on. What is no mapping where one should be stays as it is."""
    if kind is None:
        return tree
    if isinstance(tree, list):
        return [_slim(item, kind) for item in tree]
    if not isinstance(tree, dict):
        return tree
    return {key: _slim(value, _KIND_OF.get((kind, key))) for key, value in tree.items() if _counts(key, kind)}


def _counts(key: str, kind: str) -> bool:
    keys = _KEYS[kind]
    if key.startswith(_OF_ONE_FIELD) and kind not in _TOUCHED_AS_A_WHOLE:
        return key.partition("/")[2] in keys
    return key in keys or key.startswith("$")


_CONTENT: Final[Mapping[type, Callable[[Any], Tree]]] = {
    Put: attrgetter("document"),
    JsonPatch: attrgetter("operations"),
    MergePatch: attrgetter("patch"),
    StrategicMergePatch: attrgetter("patch"),
    Apply: attrgetter("configuration"),
}


def _weigh(tree: Tree, work: Work) -> None:
    """Pay for each value. Raises BodyError."""
    work.spend(1, "what counts of the body", "have fewer containers, volumes, labels and resources in one object")
    if isinstance(tree, dict):
        for value in tree.values():
            _weigh(value, work)
    elif isinstance(tree, list | tuple):
        for item in tree:
            _weigh(item, work)
