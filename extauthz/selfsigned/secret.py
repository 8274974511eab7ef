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


class MissingError(Exception):
    """There is no such Secret."""


class Place(NamedTuple):
    """Where the Secret is."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"Secret {self.namespace}/{self.name}"

    @property
    def path(self) -> str:
        return SECRETS.object(self.namespace, self.name)


async def get(api: Calls, place: Place) -> Tree:
    """The object.

    Raises:
        MissingError: there is none. Gates do not make it: who may create Secrets can have one made for any account.
        ApiError, Unreachable: as a call does.
    """
    try:
        return await api.call("GET", place.path)
    except ApiError as error:
        if error.status == 404:
            raise MissingError from error
        raise


async def put(api: Calls, place: Place, held: Held, before: Tree) -> None:
    """Store it in place of ``before``.

    Raises:
        ConflictError: there is another one by now.
        ApiError, Unreachable: as a call does.
    """
    data = {name: base64.b64encode(value).decode() for name, value in issuing.written(held).items()}
    try:
        await api.call("PUT", place.path, body={**before, "data": data})
    except ApiError as error:
        if error.status in (404, 409):
            raise ConflictError from error
        raise


def held(secret: Tree) -> Held:
    """What it holds. Raises BrokenError."""
    try:
        data = {name: base64.b64decode(value, validate=True) for name, value in (secret.get("data") or {}).items()}
    except ValueError as error:
        raise BrokenError(f"no base64 ({error})") from None
    return issuing.read(data)
