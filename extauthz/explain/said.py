"""What a controller itself says in conditions: it is quoted before any arithmetic."""

from __future__ import annotations

from typing import Final

from extauthz.core.model import Tree

from .answer import Step
from .objects import condition, told

HPA: Final = ("AbleToScale", "ScalingActive")
KEDA: Final = ("Ready",)
KNATIVE: Final = ("Active",)
"""Of a PodAutoscaler (``pa_lifecycle.go`` of knative.dev/serving)."""
KNATIVE_SERVICE: Final = ("Ready",)
ELSEWHERE: Final = frozenset({"FailedUpdateScale", "ScalingDisabled", "NoTraffic"})
"""Reasons that the answer quotes by itself, and that of what rests at zero."""


def of(tree: Tree, types: tuple[str, ...]) -> list[Step]:
    """Of each condition that is not well, a step."""
    found = []
    for name in types:
        one = condition(tree, name)
        if one.get("status") == "False" and one.get("reason") not in ELSEWHERE:
            found.append(Step("said", f"{name} is False, when it last looked: {told(one)}", None, certain=True))
    return found
