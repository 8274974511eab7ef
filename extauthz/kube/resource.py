"""Names a collection of the API, and spells its paths."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote


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
