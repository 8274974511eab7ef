"""Label selectors: of an object, and in text, as a query and the status of what can be scaled have them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from extauthz.core.errors import ObjectError
from extauthz.core.model import Tree
from extauthz.core.quota.problems import Problems
from extauthz.core.quota.selectors import LabelSelector, Requirement, parse

_OPERATORS: Mapping[str, Callable[[str, str], str]] = {
    "In": lambda key, values: f"{key} in ({values})",
    "NotIn": lambda key, values: f"{key} notin ({values})",
    "Exists": lambda key, _: key,
    "DoesNotExist": lambda key, _: f"!{key}",
}


def labelled(tree: Tree) -> LabelSelector:
    """A ``LabelSelector`` of a stored object, which the API server has checked; the plain map of a
    ReplicationController too."""
    if tree and not {"matchLabels", "matchExpressions"} & tree.keys():
        tree = {"matchLabels": tree}
    return parse(tree or {}, (), Problems())


def spelled(selector: LabelSelector) -> str:
    """The same as a text: ``LabelSelectorAsSelector`` and ``Selector.String``. KEDA's adapter takes ``=`` alone.

    >>> expression = {"key": "tier", "operator": "In", "values": ["b", "a"]}
    >>> spelled(labelled({"matchLabels": {"app": "web"}, "matchExpressions": [expression]}))
    'app=web,tier in (a,b)'
    """
    labels = [f"{key}={value}" for key, value in selector.match_labels]
    others = [_OPERATORS[one.operator](one.key, ",".join(sorted(one.values))) for one in selector.requirements]
    return ",".join([*labels, *others])


_KEY = r"[A-Za-z0-9][-A-Za-z0-9_./]*"
_REQUIREMENT = re.compile(
    rf"\s*(?:(?P<absent>!)\s*)?(?P<key>{_KEY})\s*"
    r"(?:(?P<equals>==?|!=)\s*(?P<value>[-A-Za-z0-9_.]*)|(?P<set>in|notin)\s*\((?P<values>[-A-Za-z0-9_.,\s]*)\))?\s*(?:,|$)"
)


def parsed(text: str) -> LabelSelector | None:
    """A selector in text, as ``labels.Parse`` reads it; ``None`` for an empty one, which says nothing.

    Source: ``k8s.io/apimachinery/pkg/labels/selector.go``; ``>`` and ``<`` are not read.

    Raises:
        ObjectError: it is not one.

    >>> selector = parsed("app=web, tier in (a, b),!old")
    >>> selector.matches({"app": "web", "tier": "b"}), selector.matches({"app": "web", "tier": "a", "old": ""})
    (True, False)
    """
    labels: list[tuple[str, str]] = []
    requirements: list[Requirement] = []
    at = 0
    while at < len(text):
        found = _REQUIREMENT.match(text, at)
        if found is None:
            raise ObjectError("selector", f"{text[:80]!r} is not a label selector")
        at = found.end()
        _take(found, labels, requirements)
    return LabelSelector(tuple(labels), tuple(requirements)) if labels or requirements else None


def _take(found: re.Match[str], labels: list[tuple[str, str]], requirements: list[Requirement]) -> None:
    key, equals, of_set = found["key"], found["equals"], found["set"]
    if equals in ("=", "=="):
        labels.append((key, found["value"]))
    elif equals:
        requirements.append(Requirement(key, "NotIn", frozenset({found["value"]})))
    elif of_set:
        values = frozenset(value.strip() for value in found["values"].split(","))
        requirements.append(Requirement(key, "In" if of_set == "in" else "NotIn", values))
    else:
        requirements.append(Requirement(key, "DoesNotExist" if found["absent"] else "Exists"))
