"""The flags of kube-controller-manager that take part: their defaults, or what its own command line says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Final

from extauthz.core.objects.fields import at

from .objects import Objects, seconds

PREFIX: Final = "horizontal-pod-autoscaler-"


@dataclass(frozen=True, slots=True)
class Flags:
    """Each is ``--horizontal-pod-autoscaler-…`` with dashes. Times are in seconds."""

    tolerance: float = 0.1
    cpu_initialization_period: float = 300.0
    initial_readiness_delay: float = 30.0
    downscale_stabilization: float = 300.0
    sync_period: float = 15.0

    def with_texts(self, texts: Iterable[str]) -> Flags:
        """Changed by ``NAME=VALUE``, with or without the dashes and the prefix. Others of the controller are skipped.

        Raises:
            ValueError: a value is none.
        """
        known = {field.name for field in fields(self)}
        changes = {}
        for text in texts:
            name, _, value = text.lstrip("-").removeprefix(PREFIX).partition("=")
            if (field := name.replace("-", "_")) in known:
                changes[field] = _number(text, value)
        return replace(self, **changes)


def names() -> list[str]:
    """Of all flags, without their prefix."""
    return [field.name.replace("_", "-") for field in fields(Flags)]


def of_cluster(objects: Objects) -> Flags:
    """As the pod of kube-controller-manager is started, where it is among the objects; else the defaults."""
    words = [
        str(word)
        for pod in objects.of("Pod", "kube-system")
        if at(pod, "metadata", "labels", "component") == "kube-controller-manager"
        for container in at(pod, "spec", "containers") or []
        for word in [*container.get("command", []), *container.get("args", [])]
    ]
    return Flags().with_texts(word for word in words if "=" in word)


def _number(text: str, value: str) -> float:
    try:
        return seconds(value) if value[-1:] in "hms" and value else float(value)
    except ValueError:
        raise ValueError(f"{text}: write a number, or a time such as 5m0s") from None
