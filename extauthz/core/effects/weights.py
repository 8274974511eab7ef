"""What it costs to prune an object. It is counted before it is done: three bytes of a body can stand for a
container."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from extauthz.core.budget import AMOUNT, CONTAINER, TEMPLATE_BYTES, Work
from extauthz.core.model import Template, Tree
from extauthz.core.objects.workloads import prune

_PLACE: Final = "the pod template that the write leaves"
_CURE: Final = "have fewer containers, volumes and resources in one pod template"


def pruned(spec: Mapping[str, Tree], work: Work) -> Tree:
    """``prune``, after its cost was paid. Raises MeaningError."""
    of_spec(spec, work)
    return prune(spec)


def of_spec(spec: Tree, work: Work) -> None:
    """Pay for the pruning of an object's spec. Raises MeaningError."""
    for units in _weights(_mapping(spec)):
        work.spend(units, _PLACE, _CURE)


def of_metadata(root: Mapping[str, Tree], work: Work) -> None:
    """Pay for the reading of an object's labels and owners. Raises MeaningError."""
    metadata = _mapping(root.get("metadata"))
    for key in ("labels", "ownerReferences"):
        work.spend(AMOUNT * _length(metadata.get(key)), f"metadata.{key}", "have fewer of them")


def of_observed(template: Template | None, work: Work, bytes_a_unit: int = TEMPLATE_BYTES) -> None:
    """Pay for decoding the observed object, and for comparing it. Raises MeaningError."""
    if template is not None:
        cure = "send the whole object by PUT, or spec.replicas alone"
        work.spend(len(template.text) // bytes_a_unit, "the pod template that the write changes", cure)


def _weights(spec: Mapping[str, Tree]) -> Iterator[int]:
    template = _mapping(spec.get("template"))
    pod = _mapping(template.get("spec"))
    yield AMOUNT * _length(pod.get("overhead")) + _amounts(pod)
    for owner, key in (
        (pod, "containers"),
        (pod, "initContainers"),
        (pod, "volumes"),
        (spec, "volumeClaimTemplates"),
    ):
        listed = owner.get(key)
        if isinstance(listed, list):
            yield CONTAINER * len(listed)
            yield sum(_amounts(_holder(item)) for item in listed)


def _holder(item: Tree) -> Mapping[str, Tree]:
    """Where containers, claims and volumes have their resources."""
    holder = _mapping(item)
    if "ephemeral" in holder:
        holder = _mapping(_mapping(holder["ephemeral"]).get("volumeClaimTemplate"))
    return _mapping(holder["spec"]) if "spec" in holder else holder


def _amounts(owner: Mapping[str, Tree]) -> int:
    resources = _mapping(owner.get("resources"))
    return AMOUNT * (_length(resources.get("limits")) + _length(resources.get("requests")))


def _mapping(value: Tree) -> Mapping[str, Tree]:
    return value if isinstance(value, dict) else {}


def _length(value: Tree) -> int:
    return len(value) if isinstance(value, dict | list) else 0
