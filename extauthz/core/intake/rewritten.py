"""Writes the body of a request anew with fewer replicas, in the encoding that it has, and checks what it has written.

For a proxy that may change a body. What cannot be written so that it reads as it should is left alone.
"""

from __future__ import annotations

from typing import Final

import orjson

from extauthz.core.errors import BodyError
from extauthz.core.intake import counts
from extauthz.core.intake.counts import Media, read
from extauthz.core.model import Request, Tree, Write
from extauthz.core.wire import gojson, goproto

_REPLICAS_PATH: Final = "/spec/replicas"
_VERSION_PATH: Final = "/metadata/resourceVersion"


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
    try:
        body = _encoded(request, before, count, None if is_bound else version)
    except (BodyError, TypeError):
        return None
    after = read(request._replace(body=body)) if body is not None else None
    return body if isinstance(after, Write) and _says(after, count, version) else None


def _says(after: Write, count: int, version: str) -> bool:
    return after.replicas == count and after.precondition.resource_version == version


def _encoded(request: Request, before: Write, count: int, version: str | None) -> bytes | None:
    """Raises BodyError, TypeError."""
    found = counts.negotiate(before.operation, request.headers.get("content-type", ""))
    if found is Media.PROTOBUF:
        return goproto.lowered(request.body, count, version)
    tree = gojson.loads(request.body)
    lowered = _json_patch(tree, count, version) if found is Media.JSON_PATCH else _object(tree, count, version)
    return orjson.dumps(lowered) if lowered is not None else None


def _object(tree: dict[str, Tree], count: int, version: str | None) -> dict[str, Tree] | None:
    """Only a count that stands in its plain place, as an integer, is lowered."""
    spec, metadata = tree.get("spec"), tree.get("metadata", {})
    if type(spec) is not dict or type(spec.get("replicas")) is not int or type(metadata) is not dict:
        return None
    bound = {"metadata": metadata | {"resourceVersion": version}} if version is not None else {}
    return tree | {"spec": spec | {"replicas": count}} | bound


def _json_patch(operations: list[dict[str, Tree]], count: int, version: str | None) -> list[dict[str, Tree]] | None:
    setting = [at for at, one in enumerate(operations) if one.get("op") != "test" and one.get("path") == _REPLICAS_PATH]
    if len(setting) != 1 or type(operations[setting[0]].get("value")) is not int:
        return None
    changed = list(operations)
    changed[setting[0]] = changed[setting[0]] | {"value": count}
    bound: list[dict[str, Tree]] = [{"op": "test", "path": _VERSION_PATH, "value": version}] if version else []
    return [*bound, *changed]
