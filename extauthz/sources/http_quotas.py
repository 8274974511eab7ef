"""Quotas from a platform's own service: asked at intervals, the last good answer kept (docs/http-source.md)."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from typing import Final

from extauthz.core.model import Tree
from extauthz.core.quota import selectors, spec
from extauthz.sources.gathering import Gathered, Quotas, read
from extauthz.sources.http import Client, Endpoint, SourceError

LIST_KIND = f"{spec.KIND}List"

WORKSPACE_LABEL: Final = "workspace"
"""Label of namespaces whose value is the workspace, unless the answer names another."""

_PLAIN_FIELDS = ("workspaces", "workspaceLabel")

MAX_BACKOFF: Final = 8
"""After failures it is asked less often, down to once in so many intervals."""


class HttpQuotas:
    """Follows the quotas of one service.

    An answer of neither form is refused as a whole, and the old quotas stay in force. Each quota of a good answer is
    taken by itself, as from the Kubernetes API (``Gathered``).

    Args:
        every_s: how often it is asked while all is well.
        accept: called with all quotas after every answer that brought some.
        tell: called after every request with its result (``ok``, ``not-modified``, a code of ``SourceError``) and why.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        every_s: float,
        accept: Callable[[Quotas], None],
        tell: Callable[[str, str], None],
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.client = Client(endpoint)
        self._every_s = every_s
        self._accept = accept
        self._tell = tell
        self._clock = clock
        self._jitter = jitter
        self._gathered = Gathered()
        self._etag = ""
        self._failures = 0
        self.good_s: float | None = None
        """When it last gave a good answer, on the clock; ``None``: never."""
        self.error = ""
        """The last error; empty once it has answered again."""

    async def run(self) -> None:
        """Follow for ever. Ends by cancellation."""
        async with self.client:
            while True:
                await self.ask()
                await asyncio.sleep(self._pause_s())

    def _pause_s(self) -> float:
        """Several gates ask one service: not all at the same moment."""
        times = min(2**self._failures, MAX_BACKOFF) if self._failures else 1
        return self._every_s * times * (0.9 + 0.2 * self._jitter())

    async def ask(self) -> None:
        """Once."""
        started_s = self._clock()
        try:
            reply = await self.client.get(etag=self._etag)
            if reply.tree is not None:
                self._take(reply.tree)
                self._etag = reply.etag
            elif not self._etag:
                raise SourceError("malformed", "it answered 304 to a request without If-None-Match")
        except SourceError as error:
            self._failures += 1
            self.error = str(error)
            self._tell(error.code, str(error))
        else:
            self._failures = 0
            self.error = ""
            self.good_s = started_s
            self._tell("ok" if reply.tree is not None else "not-modified", "")

    def _take(self, tree: Tree) -> None:
        objects = [read(one) for one in listed(tree)]
        self._gathered.replace(objects)
        self._accept(self._gathered.quotas())


def listed(tree: Tree) -> list[Tree]:
    """The WorkspaceQuota objects of an answer, each with a name of its own.

    Raises:
        SourceError: the answer is none of the two forms of docs/openapi.yaml.
    """
    if not isinstance(tree, Mapping):
        raise SourceError("malformed", "its answer is not a JSON object")
    items = _plain(tree) if "workspaces" in tree else _objects(tree)
    names: set[str] = set()
    for at, item in enumerate(items):
        name = _name(item)
        if name is None:
            raise SourceError("malformed", f"item {at} of its answer has no good metadata.name")
        if name in names:
            raise SourceError("malformed", f"its answer has {name!r} twice")
        names.add(name)
    return items


def _objects(tree: Mapping[str, Tree]) -> list[Tree]:
    if tree.get("kind") != LIST_KIND or tree.get("apiVersion") != spec.API_VERSION:
        raise SourceError("malformed", f"its answer is neither a {LIST_KIND} of {spec.API_VERSION} nor has workspaces")
    items = tree.get("items")
    if not isinstance(items, list):
        raise SourceError("malformed", "its answer has no list of items")
    # The items of an API server's list lack these fields. If an item has them, they are checked.
    return [
        {"apiVersion": spec.API_VERSION, "kind": spec.KIND, **one} if isinstance(one, Mapping) else one for one in items
    ]


def _plain(tree: Mapping[str, Tree]) -> list[Tree]:
    """Plain limits per workspace, as the quotas that they mean: each over the namespaces that bear its name."""
    unknown = [field for field in tree if field not in _PLAIN_FIELDS]
    label, workspaces = tree.get("workspaceLabel", WORKSPACE_LABEL), tree["workspaces"]
    if unknown or not isinstance(label, str) or not isinstance(workspaces, Mapping):
        raise SourceError("malformed", "beside workspaces, an object, its answer has at most workspaceLabel, a string")
    return [
        {
            "apiVersion": spec.API_VERSION,
            "kind": spec.KIND,
            "metadata": {"name": name},
            "spec": {"namespaceSelector": {"matchLabels": {label: name}}, "hard": hard},
        }
        for name, hard in workspaces.items()
    ]


def _name(item: Tree) -> str | None:
    metadata = item.get("metadata") if isinstance(item, Mapping) else None
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return name if isinstance(name, str) and selectors.is_subdomain(name) else None
