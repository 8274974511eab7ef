"""What an HPA scales: its count, and the pods that it selects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from extauthz.core.kinds import BY_NAME
from extauthz.core.model import Tree
from extauthz.core.objects.fields import at

from .objects import ExplainError, Objects

_IN: Final = re.compile(r"\s*(\S+)\s+(in|notin)\s+\(([^)]*)\)\s*")
_EQUAL: Final = re.compile(r"\s*([^=!\s]+)\s*(==|=|!=)\s*(\S*)\s*")
_SPLIT: Final = re.compile(r",(?![^(]*\))")


class Requirement(NamedTuple):
    """One part of a selector, as ``matchExpressions`` has them; ``=`` is of ``matchLabels``."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.operator == "Exists":
            return self.key in labels
        if self.operator == "DoesNotExist":
            return self.key not in labels
        return (labels.get(self.key) in self.values) == (self.operator != "NotIn")


Selector = tuple[Requirement, ...]


class Target(NamedTuple):
    """A workload with a scale."""

    kind: str
    name: str
    asked: int
    """``spec.replicas``."""
    observed: int
    """``status.replicas``."""
    selector: Selector
    """Empty: the controller refuses to work."""
    is_exact: bool = True
    """False: a custom resource, of which neither the scale nor the definition is among the objects."""


def of_hpa(objects: Objects, hpa: Tree) -> Target:
    """What the HPA names.

    Raises:
        ExplainError: it is not among the objects.
    """
    ref, namespace = hpa["spec"]["scaleTargetRef"], hpa["metadata"].get("namespace", "default")
    found = of_ref(objects, ref, namespace)
    if found is None:
        raise ExplainError(
            f"{ref['kind']} {namespace}/{ref['name']}, which the HPA scales, is not among the objects; add it"
        )
    return found


def of_ref(objects: Objects, ref: Tree, namespace: str) -> Target | None:
    """What a ``scaleTargetRef`` names, as its scale shows it; ``None``: it is not among the objects."""
    kind, name, group = ref.get("kind") or "Deployment", ref["name"], group_of_ref(ref)
    workload = objects.one(kind, namespace, name, group)
    scale = objects.one("Scale", namespace, name)
    if workload is None and scale is None:
        return None
    if scale is not None:  # an empty scale has no count where it is zero
        selector = parsed(at(scale, "status", "selector") or "") or labelled(at(workload, "spec", "selector"))
        return Target(kind, name, *_counts(scale, _USUAL, missing=0), selector)
    assert workload is not None
    paths = _paths(objects, group, kind, str(workload.get("apiVersion")).rpartition("/")[2])
    if paths is None:
        is_known = (group, kind) in BY_NAME
        text = at(workload, "status", "selector")
        selector = parsed(text) if isinstance(text, str) else labelled(at(workload, "spec", "selector"))
        return Target(kind, name, *_counts(workload, _USUAL, missing=1), selector, is_known)
    text = at(workload, *paths.selector) if paths.selector else ""
    return Target(kind, name, *_counts(workload, paths, missing=0), parsed(text or ""))


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


def group_of_ref(ref: Tree) -> str:
    """Of a ``scaleTargetRef``; one without a version means ``apps/v1``, as KEDA takes it."""
    return str(ref.get("apiVersion") or "apps/v1").rpartition("/")[0]


def selects(selector: Selector, labels: Mapping[str, str]) -> bool:
    """True if all of it matches."""
    return all(one.matches(labels) for one in selector)


def labelled(tree: Tree) -> Selector:
    """A ``LabelSelector``; the plain map of a ReplicationController too."""
    if tree is None:
        return ()
    if not ({"matchLabels", "matchExpressions"} & set(tree)):
        tree = {"matchLabels": tree}
    pairs = (tree.get("matchLabels") or {}).items()
    more = tree.get("matchExpressions") or []
    return (
        *(Requirement(key, "=", frozenset([value])) for key, value in pairs),
        *(Requirement(one["key"], one["operator"], frozenset(one.get("values") or [])) for one in more),
    )


def parsed(text: str) -> Selector:
    """A selector as a text, as a scale has it.

    >>> [one.key for one in parsed("app=web,tier in (a,b),!old")]
    ['app', 'tier', 'old']
    """
    return tuple(_requirement(part) for part in _SPLIT.split(text) if part.strip())


def text(selector: Selector) -> str:
    """The other way: as the HPA controller asks a metrics server (``LabelSelectorAsSelector`` of apimachinery). KEDA's
    adapter takes ``=`` alone.

    >>> text(parsed("app=web,tier in (a,b),!old"))
    'app=web,tier in (a,b),!old'
    """
    return ",".join(map(_spelled, selector))


def _spelled(one: Requirement) -> str:
    if one.operator in ("Exists", "DoesNotExist"):
        return "!" * (one.operator == "DoesNotExist") + one.key
    if one.operator == "=":
        return f"{one.key}={next(iter(one.values))}"
    return f"{one.key} {'in' if one.operator == 'In' else 'notin'} ({','.join(sorted(one.values))})"


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


def _requirement(part: str) -> Requirement:
    if match := _IN.fullmatch(part):
        values = frozenset(value.strip() for value in match[3].split(","))
        return Requirement(match[1], "In" if match[2] == "in" else "NotIn", values)
    if match := _EQUAL.fullmatch(part):
        return Requirement(match[1], "NotIn" if match[2] == "!=" else "=", frozenset([match[3]]))
    key = part.strip()
    return Requirement(key.removeprefix("!"), "DoesNotExist" if key.startswith("!") else "Exists")
