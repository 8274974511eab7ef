"""Finds the custom resources that autoscalers can scale: those whose definition has a scale subresource."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from extauthz.core.model import Tree
from extauthz.core.objects.custom import Keys

from .resource import Resource

DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)


class ScaledKind(NamedTuple):
    """A custom resource with a scale subresource, in the version to watch: the stored one if that can be scaled."""

    resource: Resource
    spec_replicas: Keys
    selector: Keys
    """Where the object has its pods' label selector as a string; empty if the definition does not tell."""
    counts: tuple[tuple[str, Keys], ...]
    """Each version that can be scaled, and where its objects have their count."""


class Definition(NamedTuple):
    """What is kept of a CustomResourceDefinition."""

    name: str
    scaled: ScaledKind | None
    """``None``: it cannot be scaled, or is not served yet."""


class ScaledKinds:
    """A reflector's event handler on ``DEFINITIONS``. It reports all scalable kinds, first and after every change."""

    def __init__(self, tell: Callable[[frozenset[ScaledKind]], None]) -> None:
        self._tell = tell
        self._told: frozenset[ScaledKind] | None = None
        self._definitions: dict[str, ScaledKind] = {}

    def convert(self, tree: Tree) -> Definition:
        return Definition(tree["metadata"]["name"], scaled(tree))

    async def replaced(self, objects: Iterable[Definition], version: str) -> None:
        self._definitions = {each.name: each.scaled for each in objects if each.scaled}
        self._tell_new()

    def changed(self, event: str, obj: Definition) -> None:
        if event == "DELETED" or obj.scaled is None:
            self._definitions.pop(obj.name, None)
        else:
            self._definitions[obj.name] = obj.scaled
        self._tell_new()

    def reached(self, version: str) -> None:
        pass

    def _tell_new(self) -> None:
        kinds = frozenset(self._definitions.values())
        if kinds != self._told:
            self._told = kinds
            self._tell(kinds)


def scaled(definition: Tree) -> ScaledKind | None:
    """The kind of a CustomResourceDefinition, as an API server prints it; ``None``: it cannot be scaled yet."""
    spec, status = definition["spec"], definition.get("status") or {}
    scalable = [each for each in spec["versions"] if each["served"] and (each.get("subresources") or {}).get("scale")]
    if not scalable or not _is_established(status):
        return None
    version = next((each for each in scalable if each["storage"]), scalable[0])
    scale, names = version["subresources"]["scale"], spec["names"]
    return ScaledKind(
        Resource(spec["group"], version["name"], names["plural"], names["kind"], spec["scope"] == "Namespaced"),
        _keys(scale["specReplicasPath"]),
        _keys(scale.get("labelSelectorPath") or ""),
        tuple((each["name"], _keys(each["subresources"]["scale"]["specReplicasPath"])) for each in scalable),
    )


def _is_established(status: Tree) -> bool:
    conditions = status.get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def _keys(path: str) -> Keys:
    return tuple(path.split(".")[1:])
