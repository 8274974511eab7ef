"""Objects of custom resources: where they have what counts, and what that is."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from extauthz.core.model import Kind, Observed, Template, Tree
from extauthz.core.objects import fields, groups
from extauthz.core.objects.fields import at, replicas
from extauthz.core.objects.groups import Groups
from extauthz.core.objects.workloads import intern, prune

Keys: TypeAlias = tuple[str, ...]
"""Where a field is: ``.spec.replicas`` is ``("spec", "replicas")``. Definitions allow no brackets there
(``apiextensions/v1``, ``CustomResourceSubresourceScale``)."""

Where: TypeAlias = Keys | Groups
"""What the pods of an object are made of: one template, or several groups of pods."""

TEMPLATE: Final[Keys] = ("spec", "template")
"""Where a pod template is, unless the settings name another place for a kind."""

DEFAULT_REPLICAS: Final = 1
"""Of an object that gives no count: most operators take it for one, as the built-in kinds do. The scale subresource
says 0 then (``customresource/etcd.go``), which would be the less careful guess."""


class Shape(NamedTuple):
    """Where the objects of one version have what counts."""

    replicas: Keys
    """Empty: the kind has no scale. Each object is one."""
    template: Where = TEMPLATE

    @property
    def pointer(self) -> str:
        """Where the count is, as a JSON Pointer. Definitions allow no key there that needs an escape."""
        return "".join(f"/{key}" for key in self.replicas)


Shapes: TypeAlias = Mapping[Kind, Mapping[str, Shape]]
"""By kind and API version."""

NO_SHAPES: Final[Shapes] = MappingProxyType({})


class Customs(NamedTuple):
    """The custom resources that are known: those with a scale, or with groups of pods."""

    resources: Mapping[tuple[str, str], str] = MappingProxyType({})
    """API group and kind to the plural name."""
    shapes: Shapes = NO_SHAPES


NO_CUSTOMS: Final = Customs()


def described(shape: Shape, root: Mapping[str, Tree]) -> Observed:
    """A whole object, as an admission webhook is shown it. Raises ObjectError."""
    return fields.described(root, count(shape, root), template(shape, root))


def count(shape: Shape, root: Tree) -> int:
    """Its replica count. Raises ObjectError."""
    if not shape.replicas:
        return 1
    return replicas(at(root, *shape.replicas), DEFAULT_REPLICAS, ".".join(shape.replicas))


def template(shape: Shape, root: Tree) -> Template | None:
    """Its pod template, which is recognised by its containers; ``None``: it has none. Raises ObjectError."""
    if isinstance(shape.template, Groups):
        return groups.template(shape.template, root)
    tree = at(root, *shape.template)
    if not isinstance(at(tree, "spec", "containers"), list):
        return None
    return intern(prune({"template": tree}))
