"""``metadata`` and label selectors of objects: names, labels, the owner. The one place that reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from extauthz.core.errors import ObjectError
from extauthz.core.model import Labels, Observed, OwnerRef, Template, Tree, WorkloadRef
from extauthz.core.objects.fields import boolean, items, mapping, text

_SHARED_TEXTS, _SHARED_CHARS = 16_384, 512
"""How many texts are shared, and the longest of them. Equal ones often follow each other, as the labels of one
object."""


def kind_of(root: Mapping[str, Tree]) -> tuple[str, str]:
    """(API group, kind) of an object. Raises ObjectError."""
    group, _, _ = text(root.get("apiVersion"), "apiVersion").rpartition("/")
    kind = text(root.get("kind"), "kind")
    if not kind:
        raise ObjectError("kind", "is missing")
    return group, kind


def place_of(root: Tree) -> tuple[str, str]:
    """(namespace, name) of an object; the namespace is empty where there is none. Raises ObjectError."""
    metadata = mapping(mapping(root, "(root)").get("metadata"), "metadata")
    return text(metadata.get("namespace"), "metadata.namespace"), required(metadata, "name")


def version_of(root: Tree) -> str:
    """``metadata.resourceVersion``. Raises ObjectError."""
    metadata = mapping(mapping(root, "(root)").get("metadata"), "metadata")
    return text(metadata.get("resourceVersion"), "metadata.resourceVersion")


def required(metadata: Mapping[str, Tree], key: str) -> str:
    """A field of the metadata that every stored object has. Raises ObjectError."""
    value = text(metadata.get(key), f"metadata.{key}")
    if not value:
        raise ObjectError(f"metadata.{key}", "is missing")
    return value


def observed(
    group: str, resource: str, root: Mapping[str, Tree], replicas: int = 1, template: Template | None = None
) -> tuple[WorkloadRef, Observed]:
    """A stored object of that kind, by its metadata, with these replicas and this template. Raises ObjectError."""
    metadata = mapping(root.get("metadata"), "metadata")
    ref = WorkloadRef(group, resource, _shared(required(metadata, "namespace")), required(metadata, "name"))
    return ref, Observed(
        replicas=replicas,
        template=template,
        labels=labels_text(mapping(metadata.get("labels"), "metadata.labels")),
        annotations=annotations_text(metadata.get("annotations")),
        uid=text(metadata.get("uid"), "metadata.uid"),
        resource_version=text(metadata.get("resourceVersion"), "metadata.resourceVersion"),
        owner=controller(metadata.get("ownerReferences")),
    )


def controller(references: Tree) -> OwnerRef | None:
    """The owner with ``controller: true``, if there is one. Raises ObjectError."""
    for item, path in items(references, "metadata.ownerReferences"):
        if boolean(item.get("controller"), f"{path}.controller"):
            group, _, _ = text(item.get("apiVersion"), f"{path}.apiVersion").rpartition("/")
            kind, name, uid = (text(item.get(key), f"{path}.{key}") for key in ("kind", "name", "uid"))
            return OwnerRef(_shared(group), _shared(kind), name, uid)
    return None


# Labels.


def labels_text(labels: Mapping[str, Tree]) -> Labels:
    """``a=1,b=2``, sorted by key. Raises ObjectError for an impossible label."""
    if not labels:
        return ""
    pairs = [f"{_label(key)}={_label(text(value, 'labels'))}" for key, value in sorted(labels.items())]
    return _shared(",".join(pairs))


def labels_dict(labels: Labels) -> dict[str, str]:
    """The mapping that ``labels_text`` was given."""
    return dict(pair.split("=", 1) for pair in labels.split(",")) if labels else {}


ANNOTATIONS: Final = "policy.extauthz.dev/"
"""Annotations whose names begin like this are kept: policies may look at them."""

_MAX_ANNOTATIONS: Final = 1024
"""Characters that are kept of one object's."""


def annotations_text(annotations: Tree) -> str:
    """Those that policies may look at, as JSON; empty: there are none. What is no text, or too long, is left out."""
    if not isinstance(annotations, Mapping):
        return ""
    kept = {
        key: value
        for key, value in annotations.items()
        if isinstance(key, str) and key.startswith(ANNOTATIONS) and isinstance(value, str)
    }
    text = json.dumps(kept, sort_keys=True) if kept else ""
    return _shared(text) if len(text) <= _MAX_ANNOTATIONS else ""


def annotations_dict(annotations: str) -> dict[str, str]:
    """The mapping that ``annotations_text`` has kept."""
    found: dict[str, str] = json.loads(annotations) if annotations else {}
    return found


def plain_selector(selector: Tree, path: str = "spec.selector") -> Labels | None:
    """``matchLabels`` of a selector; ``None``: it has none, or uses expressions. Raises ObjectError."""
    given = mapping(selector, path)
    if given.get("matchExpressions"):
        return None
    return labels_text(mapping(given.get("matchLabels"), f"{path}.matchLabels")) or None


EVERYTHING: Final[Labels] = "*"
"""In place of a selector: the owner has whatever names it by its UID. No label is spelled so."""


def selects(selector: Labels | None, labels: Labels) -> bool:
    """Whether a plain selector selects an object with ``labels``. An empty one and one that is not plain select
    none."""
    if not selector:
        return False
    if selector == EVERYTHING:
        return True
    given = labels_dict(labels)
    return all(given.get(key) == value for key, value in labels_dict(selector).items())


def _label(part: str) -> str:
    if "," in part or "=" in part:
        raise ObjectError("labels", f"{part[:40]!r} is not a label")
    return part


def _shared(value: str) -> str:
    return _kept(value) if len(value) <= _SHARED_CHARS else value


_kept: Final = lru_cache(maxsize=_SHARED_TEXTS)(str)
