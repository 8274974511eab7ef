"""Names a collection of the API, and spells its paths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol
from urllib.parse import quote

from extauthz.core.model import Tree


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

    async def items(self, path: str, take: Callable[[Tree], object], *, query: Sequence[tuple[str, str]] = ()) -> Tree:
        """Hand the items of a List to ``take`` one by one. Raises ApiError and Unreachable."""
