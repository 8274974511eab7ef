"""The Secret that gates share. The API server arbitrates: it takes a write of the version that it has, and no other."""

from __future__ import annotations

import base64
from typing import NamedTuple

from extauthz.core.model import Tree
from extauthz.kube.calls import Calls
from extauthz.kube.connection import ApiError
from extauthz.kube.resource import Resource
from extauthz.selfsigned import issuing
from extauthz.selfsigned.issuing import BrokenError, Held

SECRETS = Resource("", "v1", "secrets", "Secret")


class ConflictError(Exception):
    """Another gate was faster."""


class Place(NamedTuple):
    """Where the Secret is."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"Secret {self.namespace}/{self.name}"

    @property
    def path(self) -> str:
        return SECRETS.object(self.namespace, self.name)


async def get(api: Calls, place: Place) -> Tree | None:
    """The object; ``None`` if there is none. Raises ApiError and Unreachable."""
    try:
        return await api.call("GET", place.path)
    except ApiError as error:
        if error.status == 404:
            return None
        raise


async def put(api: Calls, place: Place, held: Held, before: Tree | None) -> None:
    """Store it in place of ``before``.

    Raises:
        ConflictError: there is another one by now.
        ApiError, Unreachable: as a call does.
    """
    data = {name: base64.b64encode(value).decode() for name, value in issuing.written(held).items()}
    try:
        if before is None:
            await api.call("POST", SECRETS.collection(place.namespace), body=_new(place, data))
        else:
            await api.call("PUT", place.path, body={**before, "data": data})
    except ApiError as error:
        if error.status == 409 or (error.status == 404 and before is not None):
            raise ConflictError from error
        raise


def held(secret: Tree) -> Held:
    """What it holds. Raises BrokenError."""
    try:
        data = {name: base64.b64decode(value, validate=True) for name, value in (secret.get("data") or {}).items()}
    except ValueError as error:
        raise BrokenError(f"no base64 ({error})") from None
    return issuing.read(data)


def _new(place: Place, data: dict[str, str]) -> Tree:
    labels = {"app.kubernetes.io/name": "extauthz"}
    return {
        "apiVersion": SECRETS.api_version,
        "kind": SECRETS.kind,
        "metadata": {"name": place.name, "namespace": place.namespace, "labels": labels},
        "type": "kubernetes.io/tls",
        "data": data,
    }
