"""Writes the body of a request anew with fewer replicas, in the encoding that it has, and checks what it has written.

For a proxy that may change a body. What cannot be written so that it reads as it should is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final

import orjson

from extauthz.core.errors import BodyError
from extauthz.core.intake import media
from extauthz.core.intake.media import Encoding
from extauthz.core.intake.read import read
from extauthz.core.lowering import lowered
from extauthz.core.model import (
    Apply,
    Change,
    JsonPatch,
    MergePatch,
    Operation,
    Put,
    Request,
    StrategicMergePatch,
    Tree,
    Write,
)
from extauthz.core.wire import protoedit, protofields


def rewritten(request: Request, count: int, version: str) -> bytes | None:
    """The body that asks for ``count`` replicas, on the object's resourceVersion ``version`` alone; ``None``: there is
    none that surely says this and nothing else.

    >>> target = "/apis/apps/v1/namespaces/shop/deployments/web/scale"
    >>> patch = {"content-type": "application/merge-patch+json"}
    >>> rewritten(Request("PATCH", target, patch, b'{"spec": {"replicas": 9}}'), 4, "7")
    b'{"spec":{"replicas":4},"metadata":{"resourceVersion":"7"}}'
    """
    before = read(request)
    if not isinstance(before, Write):
        return None
    is_bound = before.precondition.resource_version is not None
    wanted = lowered(before.change, count, None if is_bound else version)
    if wanted is None:
        return None
    try:
        body = _encoded(request, before, wanted, count, None if is_bound else version)
    except (BodyError, TypeError):
        return None
    after = read(request._replace(body=body)) if body is not None else None
    return body if isinstance(after, Write) and _says(after, wanted, version) else None


def _says(after: Write, wanted: Change, version: str) -> bool:
    """An apply is bound by its version too, which no pending write relies on (``preconditions``)."""
    return after.change == wanted and (
        isinstance(after.change, Apply) or after.precondition.resource_version == version
    )


def _encoded(request: Request, before: Write, wanted: Change, count: int, version: str | None) -> bytes | None:
    """JSON is YAML too. Raises BodyError, TypeError."""
    operation = Operation.PATCH if before.operation is Operation.APPLY else before.operation
    found = media.negotiate(operation, request.headers.get("content-type", ""))
    encoding = found[0] if found is not None else None
    if encoding is Encoding.PROTOBUF:
        message = protofields.SCALE if before.scale else protofields.OBJECTS[before.ref.resource]
        body = protoedit.edited(request.body, message, ("spec", "replicas"), count)
        return protoedit.edited(body, message, ("metadata", "resourceVersion"), version) if version else body
    if encoding in (Encoding.JSON, Encoding.YAML):
        return orjson.dumps(_CONTENT[type(wanted)](wanted))
    return None


_CONTENT: Final[Mapping[type, Callable[[Any], Tree]]] = {
    Put: attrgetter("document"),
    JsonPatch: attrgetter("operations"),
    MergePatch: attrgetter("patch"),
    StrategicMergePatch: attrgetter("patch"),
    Apply: attrgetter("configuration"),
}
