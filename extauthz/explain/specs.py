"""The metrics of an HPA as its spec has them, and the scene that they are read from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from extauthz.core.model import Tree
from extauthz.core.objects.fields import at

from .flags import Flags
from .objects import ExplainError, Objects, milli
from .ratios import Tolerances
from .target import Target

CPU: Final = [
    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
]
"""What an HPA without metrics goes by."""


class UnknownError(ExplainError):
    """A value is not among the objects: nothing can be said, not even that the metric fails."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One entry of ``spec.metrics``."""

    number: int
    type: str
    name: str
    container: str
    target: int
    """Percent, or thousandths."""
    measure: str
    """``Utilization``, ``AverageValue`` or ``Value``."""
    spec: Tree

    @property
    def said(self) -> str:
        """Its name in sentences and for ``--at``: of one container with that container's."""
        return f"{self.container}/{self.name}" if self.container else self.name

    @property
    def resource(self) -> str:
        """Of pods; empty where the metric is none of these."""
        return self.name if self.type in ("Resource", "ContainerResource") else ""


@dataclass(frozen=True, slots=True)
class Scene:
    """All that metrics are read from."""

    objects: Objects
    hpa: Tree
    target: Target
    flags: Flags
    band: Tolerances
    now: float
    pods: tuple[Tree, ...]
    """Those that the target selects."""

    @property
    def namespace(self) -> str:
        return str(self.hpa["metadata"].get("namespace", "default"))


def of_hpa(hpa: Tree) -> list[Metric]:
    """All of them, in order."""
    return [_metric(number, entry) for number, entry in enumerate(at(hpa, "spec", "metrics") or CPU)]


def _metric(number: int, entry: Tree) -> Metric:
    kind = entry["type"]
    spec = entry[kind[0].lower() + kind[1:]]
    target = spec["target"]
    name = spec["name"] if "name" in spec else spec["metric"]["name"]
    if target.get("averageUtilization") is not None:
        measure, aim = "Utilization", target["averageUtilization"]
    elif target.get("averageValue") is not None:
        measure, aim = "AverageValue", milli(target["averageValue"])
    else:
        measure, aim = "Value", milli(target["value"])
    return Metric(number, kind, name, spec.get("container", ""), aim, measure, spec)
