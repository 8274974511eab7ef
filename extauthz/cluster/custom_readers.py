"""Readers of custom resources, by their definition. A file and a watch use the same."""

from __future__ import annotations

from extauthz.cluster.object_readers import Workload
from extauthz.cluster.selectors import parsed
from extauthz.core.model import Tree
from extauthz.core.objects import custom
from extauthz.core.objects.custom import Shape, Where
from extauthz.core.objects.fields import at, text
from extauthz.core.objects.groups import Groups
from extauthz.core.objects.metadata import EVERYTHING, labels_text, observed
from extauthz.core.quota.selectors import LabelSelector
from extauthz.kube.discovery import ScaledKind


def read(kind: ScaledKind, template: Where, root: Tree) -> Workload:
    """What counts of one object. ``None``: it declares no template. Raises ObjectError."""
    group, plural = kind.resource.group, kind.resource.plural
    shape = Shape(kind.spec_replicas, template)
    ref, seen = observed(group, plural, root, custom.count(shape, root), custom.template(shape, root))
    seen.selector = EVERYTHING if isinstance(template, Groups) else _plain(selector_of(kind, root))
    return ref, seen


def shapes(kind: ScaledKind, template: Where) -> dict[str, Shape]:
    """By API version, where its objects have what counts."""
    return {version: Shape(replicas, template) for version, replicas in kind.counts}


def selector_text(kind: ScaledKind, root: Tree) -> str:
    """The selector of an object's own pods; empty: it names none. Raises ObjectError."""
    return text(at(root, *kind.selector), ".".join(kind.selector)) if kind.selector else ""


def selector_of(kind: ScaledKind, root: Tree) -> LabelSelector | None:
    """The same, parsed. Raises ObjectError."""
    return parsed(selector_text(kind, root))


def _plain(selector: LabelSelector | None) -> str | None:
    if selector is None or selector.requirements:
        return None
    return labels_text(dict(selector.match_labels)) or None
