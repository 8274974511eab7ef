"""Label selectors as the API takes them in a query."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from extauthz.core.model import Tree

_OPERATORS: Mapping[str, Callable[[str, str], str]] = {
    "In": lambda key, values: f"{key} in ({values})",
    "NotIn": lambda key, values: f"{key} notin ({values})",
    "Exists": lambda key, _: key,
    "DoesNotExist": lambda key, _: f"!{key}",
}


def spelled(selector: Tree) -> str:
    """A ``metav1.LabelSelector`` of a stored object as text: ``LabelSelectorAsSelector`` and ``Selector.String``.

    >>> expression = {"key": "tier", "operator": "In", "values": ["a", "b"]}
    >>> spelled({"matchLabels": {"app": "web"}, "matchExpressions": [expression]})
    'app=web,tier in (a,b)'
    """
    labels = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    expressions = [
        _OPERATORS[one["operator"]](one["key"], ",".join(one.get("values") or []))
        for one in selector.get("matchExpressions") or []
    ]
    return ",".join([*labels, *expressions])
