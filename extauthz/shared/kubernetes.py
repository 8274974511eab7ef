"""A ledger store in the Kubernetes API: a WorkspaceLedger object per root quota. etcd is the arbiter."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from extauthz.core.model import Tree
from extauthz.core.quota.spec import GROUP
from extauthz.kube.connection import ApiError, Connection, Unreachable
from extauthz.kube.reflector import CURES, Reflector
from extauthz.kube.resource import Resource

from .store import Conflict, Follower, Refused, Stored, Unclear

WORKSPACE_LEDGERS = Resource(GROUP, "v1alpha1", "workspaceledgers", "WorkspaceLedger", namespaced=False)

WITHIN_S = 1.0
"""How long one call may take: a check waits for it, and Envoy waits for the check."""

NOT_AS_BEFORE = frozenset({404, 409})
"""It is gone, was changed, or was made by somebody else."""

NOT_WRITTEN = frozenset({400, 401, 403, 405, 413, 415, 422, 429})
"""4xx that the API server answers only where it has stored nothing (``doors.access_log`` has the same for writes)."""


class KubernetesStore:
    """Ledger objects behind one connection."""

    def __init__(self, connection: Connection, clock: Callable[[], float] = time.monotonic) -> None:
        self._connection = connection
        self._clock = clock

    async def get(self, root: str) -> Stored | None:
        try:
            return stored(await self._connection.call("GET", _path(root), timeout_s=WITHIN_S))
        except ApiError as error:
            if error.status == 404:
                return None
            raise Refused(_told(error)) from error
        except Unreachable as error:
            raise Refused(str(error)) from error

    async def put(self, root: str, payload: str, intents: int, before: Stored | None) -> Stored:
        method, path = ("PUT", _path(root)) if before is not None else ("POST", WORKSPACE_LEDGERS.collection())
        try:
            body = _tree(root, payload, intents, before)
            return stored(await self._connection.call(method, path, body=body, timeout_s=WITHIN_S))
        except ApiError as error:
            if error.status in NOT_AS_BEFORE:
                raise Conflict from error
            if error.status in NOT_WRITTEN:
                raise Refused(_told(error)) from error
            raise Unclear(_told(error)) from error
        except Unreachable as error:
            raise Unclear(str(error)) from error

    async def run(self, follower: Follower) -> None:
        await Reflector(self._connection, WORKSPACE_LEDGERS, _Sink(follower), clock=self._clock).run()


class _Sink:
    """Between a reflector and a follower."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._roots: set[str] = set()

    def convert(self, tree: Tree) -> Stored:
        return stored(tree)

    async def replaced(self, objects: Iterable[Stored], version: str) -> None:
        listed = {one.root: one for one in objects}
        for root in self._roots - listed.keys():
            self._follower.gone(root)
        for one in listed.values():
            self._follower.changed(one)
        self._roots = set(listed)
        self._follower.listed()

    def changed(self, event: str, obj: Stored) -> None:
        if event == "DELETED":
            self._roots.discard(obj.root)
            self._follower.gone(obj.root)
        else:
            self._roots.add(obj.root)
            self._follower.changed(obj)

    def reached(self, version: str) -> None:
        """Bookmarks change no ledger."""


def stored(tree: Tree) -> Stored:
    """What a WorkspaceLedger holds. One that is not as gates write it holds no payload, which no gate can read."""
    metadata, spec = tree["metadata"], tree.get("spec") or {}
    return Stored(metadata["name"], str(spec.get("payload", "")), metadata["resourceVersion"], metadata["uid"])


def _tree(root: str, payload: str, intents: int, before: Stored | None) -> Tree:
    metadata: dict[str, str] = {"name": root}
    if before is not None:
        metadata |= {"resourceVersion": before.version, "uid": before.uid}
    return {
        "apiVersion": WORKSPACE_LEDGERS.api_version,
        "kind": WORKSPACE_LEDGERS.kind,
        "metadata": metadata,
        "spec": {"payload": payload, "intents": intents},
    }


def _path(root: str) -> str:
    return WORKSPACE_LEDGERS.object(None, root)


def _told(error: ApiError) -> str:
    cure = f" ({CURES[error.status]})" if error.status in CURES else ""
    return f"{error}{cure}"
