"""What an HPA scales: its count, and the pods that it selects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from extauthz.core.kinds import GATED
from extauthz.core.model import Tree
from extauthz.core.objects.fields import at

from .objects import ExplainError, Objects

_IN: Final = re.compile(r"\s*(\S+)\s+(in|notin)\s+\(([^)]*)\)\s*")
_EQUAL: Final = re.compile(r"\s*([^=!\s]+)\s*(==|=|!=)\s*(\S*)\s*")
_SPLIT: Final = re.compile(r",(?![^(]*\))")


class Requirement(NamedTuple):
    """One part of a selector, as ``matchExpressions`` has them."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.operator == "Exists":
            return self.key in labels
        if self.operator == "DoesNotExist":
            return self.key not in labels
        return (labels.get(self.key) in self.values) == (self.operator == "In")


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


def of_hpa(objects: Objects, hpa: Tree) -> Target:
    """What the HPA names.

    Raises:
        ExplainError: it is not among the objects.
    """
    ref, namespace = hpa["spec"]["scaleTargetRef"], hpa["metadata"].get("namespace", "default")
    kind, name = ref["kind"], ref["name"]
    workload = objects.one(kind, namespace, name)
    scale = objects.one("Scale", namespace, name)
    if workload is None and scale is None:
        raise ExplainError(f"{kind} {namespace}/{name}, which the HPA scales, is not among the objects; add it")
    source = scale or workload
    asked = at(source, "spec", "replicas")
    text = at(source, "status", "selector")
    selector = parsed(text) if isinstance(text, str) else labelled(at(workload, "spec", "selector"))
    # What kubectl prints always has a count for built-in kinds; an empty scale has none for zero.
    asked = (1 if scale is None else 0) if asked is None else asked
    return Target(kind, name, asked, at(source, "status", "replicas") or 0, selector)


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
        *(Requirement(key, "In", frozenset([value])) for key, value in pairs),
        *(Requirement(one["key"], one["operator"], frozenset(one.get("values") or [])) for one in more),
    )


def parsed(text: str) -> Selector:
    """A selector as a text, as a scale has it.

    >>> [one.key for one in parsed("app=web,tier in (a,b),!old")]
    ['app', 'tier', 'old']
    """
    return tuple(_requirement(part) for part in _SPLIT.split(text) if part.strip())


def text(selector: Selector) -> str:
    """The other way: as a query has it.

    >>> text(parsed("app=web,tier in (a,b),!old"))
    'app in (web),tier in (a,b),!old'
    """
    return ",".join(map(_spelled, selector))


def _spelled(one: Requirement) -> str:
    if one.operator in ("Exists", "DoesNotExist"):
        return "!" * (one.operator == "DoesNotExist") + one.key
    return f"{one.key} {'in' if one.operator == 'In' else 'notin'} ({','.join(sorted(one.values))})"


def plural(kind: str) -> str:
    """Of a kind that Kubernetes has itself; of others the usual one.

    >>> plural("Deployment"), plural("Gadget")
    ('deployments', 'gadgets')
    """
    return next((one.key[1] for one in GATED if one.name == kind), f"{kind.lower()}s")


def _requirement(part: str) -> Requirement:
    if match := _IN.fullmatch(part):
        values = frozenset(value.strip() for value in match[3].split(","))
        return Requirement(match[1], "In" if match[2] == "in" else "NotIn", values)
    if match := _EQUAL.fullmatch(part):
        return Requirement(match[1], "NotIn" if match[2] == "!=" else "In", frozenset([match[3]]))
    key = part.strip()
    return Requirement(key.removeprefix("!"), "DoesNotExist" if key.startswith("!") else "Exists")
