"""What an HPA scales: its count, and the pods that it selects."""

from __future__ import annotations

from typing import Final, NamedTuple

from extauthz.core.errors import ObjectError
from extauthz.core.kinds import BY_NAME
from extauthz.core.model import Tree
from extauthz.core.objects.fields import at
from extauthz.core.quota.selector_text import labelled, parsed
from extauthz.core.quota.selectors import LabelSelector

from .objects import ExplainError, Objects, namespace_of


class Target(NamedTuple):
    """A workload with a scale."""

    kind: str
    name: str
    asked: int
    """``spec.replicas``."""
    observed: int
    """``status.replicas``."""
    selector: LabelSelector
    """Empty: the controller refuses to work."""
    is_exact: bool = True
    """False: a custom resource, of which neither the scale nor the definition is among the objects."""


def required(objects: Objects, autoscaler: Tree, word: str) -> Target:
    """What an autoscaler scales; ``word``: what its kind is called.

    Raises:
        ExplainError: it is not among the objects.
    """
    found = of(objects, autoscaler)
    if found is None:
        (_, kind, name), namespace = named(autoscaler), namespace_of(autoscaler)
        raise ExplainError(
            f"{kind} {namespace}/{name}, which {word}/{autoscaler['metadata']['name']} scales, is not among the "
            f"objects; add it (kubectl get {kind.lower()} {name} -n {namespace} -o yaml)"
        )
    return found


def of(objects: Objects, autoscaler: Tree) -> Target | None:
    """What an autoscaler scales, as its scale shows it; ``None``: it is not among the objects."""
    (group, kind, name), namespace = named(autoscaler), namespace_of(autoscaler)
    workload = objects.one(kind, namespace, name, group)
    scale = objects.one("Scale", namespace, name)
    if workload is None and scale is None:
        return None
    if scale is not None:  # an empty scale has no count where it is zero
        selector = _in_text(at(scale, "status", "selector")) or labelled(at(workload, "spec", "selector"))
        return Target(kind, name, *_counts(scale, _USUAL, missing=0), selector)
    assert workload is not None
    paths = _paths(objects, group, kind, str(workload.get("apiVersion")).rpartition("/")[2])
    if paths is None:
        is_known = (group, kind) in BY_NAME
        selector = _in_text(at(workload, "status", "selector")) or labelled(at(workload, "spec", "selector"))
        return Target(kind, name, *_counts(workload, _USUAL, missing=1), selector, is_known)
    own = _in_text(at(workload, *paths.selector)) if paths.selector else None
    return Target(kind, name, *_counts(workload, paths, missing=0), own or LabelSelector())


def _in_text(text: Tree) -> LabelSelector | None:
    """Of a scale; ``None``: it has none."""
    try:
        return parsed(text) if isinstance(text, str) else None
    except ObjectError as error:
        raise ExplainError(str(error)) from None


class _Paths(NamedTuple):
    """Of the fields that a scale shows: its count, the count of its status, its selector."""

    asked: tuple[str, ...]
    observed: tuple[str, ...]
    selector: tuple[str, ...] = ()


_USUAL: Final = _Paths(("spec", "replicas"), ("status", "replicas"))


def _counts(tree: Tree, paths: _Paths, missing: int) -> tuple[int, int]:
    asked = at(tree, *paths.asked)
    return missing if asked is None else asked, at(tree, *paths.observed) or 0


def _paths(objects: Objects, group: str, kind: str, version: str) -> _Paths | None:
    """As the definition of a custom resource has them for this version; ``None``: there is no definition to see."""
    definition = objects.definition(group, kind)
    if definition is None:
        return None
    for one in definition["spec"]["versions"]:
        if one["name"] == version and (scale := at(one, "subresources", "scale")):
            names = ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
            return _Paths(*(tuple(str(scale.get(name) or "").split(".")[1:]) for name in names))
    raise ExplainError(f"{kind} of {group}/{version} has no scale by its definition, so nothing can scale it")


class Named(NamedTuple):
    group: str
    kind: str
    name: str


def named(autoscaler: Tree) -> Named:
    """What its ``scaleTargetRef`` names; one without a version means ``apps/v1``, as KEDA takes it."""
    ref = autoscaler["spec"]["scaleTargetRef"]
    group = str(ref.get("apiVersion") or "apps/v1").rpartition("/")[0]
    return Named(group, ref.get("kind") or "Deployment", ref["name"])


def plural(kind: str, definition: Tree = None) -> str:
    """Of a kind that Kubernetes has itself, or as its definition says; of others as kubectl guesses it
    (``meta.UnsafeGuessKindToResource`` of apimachinery).

    >>> plural("Deployment"), plural("Gadget"), plural("Prometheus"), plural("Proxy")
    ('deployments', 'gadgets', 'prometheuses', 'proxies')
    """
    if definition is not None:
        return str(definition["spec"]["names"]["plural"])
    singular = kind.lower()
    if singular.endswith("s"):
        return f"{singular}es"
    return f"{singular[:-1]}ies" if singular.endswith("y") else f"{singular}s"
