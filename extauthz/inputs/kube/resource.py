"""Names a collection of the API, and spells its paths."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol
from urllib.parse import quote

from extauthz.core.model import Tree
from extauthz.core.objects.custom import Keys
from extauthz.core.objects.fields import text


class Resource(NamedTuple):
    """A kind in one of its served versions."""

    group: str
    """API group, ``""`` for the core group."""
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """``apps/v1``; ``v1`` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        """``deployments.apps``, as the API server's own sentences spell it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def collection(self, namespace: str | None = None) -> str:
        """Path of all objects, or of those in one namespace."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        within = f"/namespaces/{quote(namespace, safe='')}" if namespace and self.namespaced else ""
        return f"{root}{within}/{self.plural}"

    def object(self, namespace: str | None, name: str) -> str:
        """Path of one object. ``namespace`` is left out where the kind has none."""
        assert bool(namespace) or not self.namespaced, f"{self.group_resource} are in namespaces"
        return f"{self.collection(namespace)}/{quote(name, safe='')}"


# What senders of single requests need of a connection. A stand-in can be one.


class Calls(Protocol):
    """A ``connection.Connection`` without watches."""

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        body: Tree | None = None,
        content_type: str = "application/json",
        timeout_s: float = 10.0,
    ) -> Tree:
        """Send one request. Raises ApiError and Unreachable."""


class Lists(Calls, Protocol):
    """The same, and it reads long lists."""

    async def items(
        self,
        path: str,
        take: Callable[[Tree], object],
        *,
        query: Sequence[tuple[str, str]] = (),
        timeout_s: float = 60.0,
    ) -> Tree:
        """Hand the items of a List to ``take`` one by one. Raises ApiError and Unreachable."""


# Finds the custom resources that count: those whose definition has a scale subresource, and those that are named.

DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)


class ScaledKind(NamedTuple):
    """A custom resource, in the version to watch: the stored one if that can be scaled."""

    resource: Resource
    spec_replicas: Keys
    """Where the object has its count; empty if it has no scale subresource."""
    selector: Keys
    """Where the object has its pods' label selector as a string; empty if the definition does not tell."""
    counts: tuple[tuple[str, Keys], ...]
    """Each version that can be scaled, or is served where none can, and where its objects have their count."""


def scaled(definition: Tree, named: Collection[str] = ()) -> ScaledKind | None:
    """The kind of a CustomResourceDefinition, as an API server prints it; ``None``: it does not count yet.

    Args:
        named: those that count even without a scale subresource, as ``resource.group``.
    """
    spec, status = definition["spec"], definition.get("status") or {}
    served = [each for each in spec["versions"] if each["served"]]
    found = [each for each in served if _scale(each)]
    if not found and definition["metadata"]["name"] in named:
        found = served
    if not found or not _is_established(status):
        return None
    version, names = next((each for each in found if each["storage"]), found[0]), spec["names"]
    named = (spec["group"], version["name"], names["plural"], names["kind"])
    group, served_as, plural, name = (text(each, "spec") for each in named)
    return ScaledKind(
        Resource(group, served_as, plural, name, spec["scope"] == "Namespaced"),
        _keys(_scale(version).get("specReplicasPath") or ""),
        _keys(_scale(version).get("labelSelectorPath") or ""),
        tuple((text(each["name"], "spec"), _keys(_scale(each).get("specReplicasPath") or "")) for each in found),
    )


def _scale(version: Tree) -> Tree:
    return (version.get("subresources") or {}).get("scale") or {}


def _is_established(status: Tree) -> bool:
    conditions = status.get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def _keys(path: str) -> Keys:
    return tuple(path.split(".")[1:])
