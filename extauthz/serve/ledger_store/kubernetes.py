"""A ledger store in the Kubernetes API: the one WorkspaceLedger object ``cluster``. etcd is the arbiter."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from extauthz.core.model import Tree
from extauthz.core.quota.spec import GROUP
from extauthz.inputs.kube.connection import ApiError, Connection, Unreachable, get_or_none
from extauthz.inputs.kube.reflector import Reflector, with_cure
from extauthz.inputs.kube.resource import Resource
from extauthz.serve.ledger_store.store import Conflict, Follower, Stored, Unclear, WriteRefusedError

WORKSPACE_LEDGERS = Resource(GROUP, "v1alpha1", "workspaceledgers", "WorkspaceLedger", namespaced=False)

NAME = "cluster"
"""Name of the object. Gates of earlier releases had one for each root quota; those are left alone."""

WITHIN_S = 1.0
"""How long one call may take: a check waits for it, and Envoy waits for the check."""

NOT_WRITTEN = frozenset({400, 401, 403, 404, 405, 413, 415, 422, 429})
"""4xx that the API server answers only where it has stored nothing (``settlement.answers`` has the same for writes)."""


class KubernetesStore:
    """The ledger object behind one connection."""

    def __init__(self, connection: Connection, clock: Callable[[], float] = time.monotonic) -> None:
        self._connection = connection
        self._clock = clock

    async def get(self) -> Stored | None:
        try:
            found = await get_or_none(self._connection, _PATH, WITHIN_S)
            return stored(found) if found is not None else None
        except ApiError as error:
            raise WriteRefusedError(with_cure(error)) from error
        except Unreachable as error:
            raise WriteRefusedError(str(error)) from error

    async def put(self, payload: str, writes: int, before: Stored | None) -> Stored:
        method, path = ("PUT", _PATH) if before is not None else ("POST", WORKSPACE_LEDGERS.collection())
        try:
            body = _tree(payload, writes, before)
            return stored(await self._connection.call(method, path, body=body, timeout_s=WITHIN_S))
        except ApiError as error:
            if error.status == 409 or (error.status == 404 and before is not None):
                raise Conflict from error
            if error.status in NOT_WRITTEN:  # 404 of a POST: there is no such definition
                raise WriteRefusedError(with_cure(error)) from error
            raise Unclear(with_cure(error)) from error
        except Unreachable as error:
            raise Unclear(str(error)) from error

    async def run(self, follower: Follower) -> None:
        await Reflector(self._connection, WORKSPACE_LEDGERS, _Handler(follower), clock=self._clock).run()


class _Handler:
    """Passes states from a reflector to a follower."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._is_there = False

    def convert(self, tree: Tree) -> Stored | None:
        """``None``: another object than the gates'."""
        return stored(tree) if tree["metadata"]["name"] == NAME else None

    async def replaced(self, objects: Iterable[Stored | None], version: str) -> None:
        found = next(filter(None, objects), None)
        if found is not None:
            self.changed("ADDED", found)
        elif self._is_there:
            self._gone()
        self._follower.listed()

    def changed(self, event: str, obj: Stored | None) -> None:
        if obj is None:
            return
        if event == "DELETED":
            self._gone()
        else:
            self._is_there = True
            self._follower.changed(obj)

    def _gone(self) -> None:
        self._is_there = False
        self._follower.gone()

    def reached(self, version: str) -> None:
        """Bookmarks change no ledger."""


def stored(tree: Tree) -> Stored:
    """The content of a WorkspaceLedger. One that no gate wrote has no payload, and no gate can read it."""
    metadata, spec = tree["metadata"], tree.get("spec") or {}
    return Stored(str(spec.get("payload", "")), metadata["resourceVersion"], metadata["uid"])


def _tree(payload: str, writes: int, before: Stored | None) -> Tree:
    metadata: dict[str, str] = {"name": NAME}
    if before is not None:
        metadata |= {"resourceVersion": before.version, "uid": before.uid}
    return {
        "apiVersion": WORKSPACE_LEDGERS.api_version,
        "kind": WORKSPACE_LEDGERS.kind,
        "metadata": metadata,
        "spec": {"payload": payload, "intents": writes},
    }


_PATH = WORKSPACE_LEDGERS.object(None, NAME)
