"""From a changed document to an ``Outcome``: which parts a write touches, and what it leaves there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Flag, auto
from typing import Final

from extauthz.core.budget import Work
from extauthz.core.effects import weights
from extauthz.core.errors import ObjectError
from extauthz.core.model import Outcome, OwnerRef, Tree
from extauthz.core.objects.fields import mapping, replicas
from extauthz.core.objects.metadata import controller, labels_text
from extauthz.core.objects.partial import Hidden
from extauthz.core.objects.workloads import DEFAULT_REPLICAS, intern


class Area(Flag):
    """The parts of a document that count."""

    NONE = 0
    REPLICAS = auto()
    TEMPLATE = auto()
    LABELS = auto()
    OWNER = auto()


SPEC: Final = Area.REPLICAS | Area.TEMPLATE

_AREAS: Final[Mapping[tuple[str, ...], Area]] = {
    (): SPEC | Area.LABELS | Area.OWNER,
    ("metadata",): Area.LABELS | Area.OWNER,
    ("metadata", "ownerReferences"): Area.OWNER,
    ("metadata", "labels"): Area.LABELS,
    ("spec",): SPEC,
    ("spec", "replicas"): Area.REPLICAS,
    ("spec", "template"): Area.TEMPLATE,
    ("spec", "volumeClaimTemplates"): Area.TEMPLATE,
    ("spec", "ordinals"): Area.TEMPLATE,
}


def area(path: tuple[str, ...]) -> Area:
    """What a change at this path of a document touches."""
    return _AREAS.get(path[:2], Area.NONE)


def touched(patch: Mapping[str, Tree]) -> Area:
    """What a patch in the shape of a document touches, directives (``$patch``, ``$retainKeys``) included."""
    result = Area.NONE
    for path in _paths(patch):
        result |= area(path)
    return result


def outcome(
    document: Tree, touched: Area, work: Work, *, scale: bool, convert: Callable[[Tree], Tree] = lambda value: value
) -> Outcome:
    """What a changed document leaves behind in the areas that were touched. Raises ObjectError.

    ``convert`` is what the server does to a number on its way into ``spec.replicas``.
    """
    root = mapping(document, "(root)", "object")
    spec = _spec(root, scale=scale)
    count = None
    if Area.REPLICAS in touched:
        count = _replicas(convert(spec.get("replicas")), scale=scale)
    if scale:
        return Outcome(count)
    weights.of_metadata(root, work)
    return Outcome(
        replicas=count,
        templates=(intern(weights.pruned(_seen(spec), work)),) if Area.TEMPLATE in touched else (),
        labels=_labels(root) if Area.LABELS in touched else None,
        owner=_owner(root) if Area.OWNER in touched else None,
        frees=Area.OWNER in touched,
    )


def _owner(root: Mapping[str, Tree]) -> OwnerRef | None:
    """The controller that a patch names: the object's own are not kept, so that there is no other in the document."""
    metadata = root.get("metadata")
    return controller(metadata.get("ownerReferences"), of_patch=True) if isinstance(metadata, Mapping) else None


def _paths(patch: Mapping[str, Tree]) -> Iterable[tuple[str, ...]]:
    for key, value in patch.items():
        if key.startswith("$"):
            yield ()
        elif not isinstance(value, dict):
            yield (key,)
        else:
            yield from ((key,) if below.startswith("$") else (key, below) for below in value)


def _spec(root: Mapping[str, Tree], *, scale: bool) -> Mapping[str, Tree]:
    return mapping(root.get("spec"), "spec", "" if scale else "spec")


def _replicas(value: Tree, *, scale: bool) -> int | None:
    return None if value is Hidden.BASE else replicas(value, 0 if scale else DEFAULT_REPLICAS)


def _seen(spec: Mapping[str, Tree]) -> Mapping[str, Tree]:
    if Hidden.BASE in (spec.get("template"), spec.get("volumeClaimTemplates")):
        raise ObjectError("spec.template", "is patched, and the gate has not seen the object", "object-not-seen")
    return spec


def _labels(root: Mapping[str, Tree]) -> str:
    metadata = mapping(root.get("metadata"), "metadata", "metadata")
    labels = metadata.get("labels")
    if labels is Hidden.BASE:
        raise ObjectError("metadata.labels", "is patched, and the gate has not seen the object", "object-not-seen")
    return labels_text(mapping(labels, "metadata.labels"))
