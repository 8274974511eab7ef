"""Joins route, content type and body into what a request means: a ``Write``, ``NotAWrite`` or ``Unreadable``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from extauthz.core.model import (
    Apply,
    Change,
    JsonPatch,
    MergePatch,
    Operation,
    Put,
    Reading,
    Request,
    StrategicMergePatch,
    Tree,
    Unreadable,
    WorkloadRef,
    Write,
)

from . import gocbor, gojson, goproto, goyaml, media, preconditions, protofields, routes
from .errors import BodyError
from .media import Encoding, Meaning

MAX_BODY_BYTES = 3 * 1024 * 1024
"""``MaxRequestBodyBytes`` of the generic API server's config: a longer body is answered with 413."""

MAX_JSON_PATCH_OPERATIONS = 10_000
"""``maxJSONPatchOperations`` in ``apiserver/pkg/endpoints/handlers/patch.go``: more are answered with 413."""


def read(request: Request) -> Reading:
    """Says what a request means, reading it as the Kubernetes API server would. Never raises, whatever the bytes.

    >>> target = "/apis/apps/v1/namespaces/shop/deployments/web/scale?dryRun=All"
    >>> patch = {"content-type": "application/merge-patch+json"}
    >>> write = read(Request("PATCH", target, patch, b'{"spec":{"replicas":3}}'))
    >>> str(write.ref), write.scale, write.dry_run, write.change.patch
    ('deployments.apps shop/web', True, True, {'spec': {'replicas': 3}})
    >>> read(Request("PATCH", target, patch, b'{"spec":')).code
    'json-syntax'
    """
    route = routes.read(request.method, request.target)
    if not isinstance(route, routes.Route):
        return route
    try:
        return _write(route, request)
    except BodyError as error:
        return Unreadable(error.code, error.detail, route.ref)


def _write(route: routes.Route, request: Request) -> Write:
    _check_length(request)
    content_type = request.headers.get("content-type", "")
    found = media.negotiate(route.operation, content_type)
    if found is None:
        raise BodyError("unsupported-media-type", f"content-type {content_type[:80]!a} is not served for this method")
    encoding, meaning = found
    body = _DECODERS[encoding](request.body, route)
    change = _CHANGES[meaning](body)
    operation = Operation.APPLY if meaning is Meaning.APPLY else route.operation
    ref = _created(route.ref, body) if operation is Operation.CREATE else route.ref
    return Write(ref, operation, route.scale, route.dry_run, change, preconditions.find(operation, change))


def _check_length(request: Request) -> None:
    if request.truncated:
        raise BodyError("truncated", "only a part of the body reached the gate")
    if len(request.body) > MAX_BODY_BYTES:
        raise BodyError("body-too-large", f"more than {MAX_BODY_BYTES} bytes, which the API server refuses too")


_DECODERS: Mapping[Encoding, Callable[[bytes, routes.Route], Tree]] = {
    Encoding.JSON: lambda data, route: gojson.loads(data),
    Encoding.YAML: lambda data, route: goyaml.loads(data),
    Encoding.CBOR: lambda data, route: gocbor.loads(data),
    Encoding.PROTOBUF: lambda data, route: goproto.loads(data, _message(route)),
}


def _message(route: routes.Route) -> protofields.Message:
    return protofields.SCALE if route.scale else protofields.OBJECTS[route.ref.resource]


def _members(body: Tree, what: str) -> dict[str, Tree]:
    if type(body) is not dict:
        raise BodyError("not-an-object", f"{what} must be an object")
    return body


def _json_patch(body: Tree) -> JsonPatch:
    if type(body) is not list:
        raise BodyError("not-an-array", "a JSON Patch must be an array of operations (RFC 6902 §3)")
    if len(body) > MAX_JSON_PATCH_OPERATIONS:
        raise BodyError("too-many-operations", f"more than {MAX_JSON_PATCH_OPERATIONS} operations")
    return JsonPatch(tuple([_members(operation, "an operation of a JSON Patch") for operation in body]))


_CHANGES: Mapping[Meaning, Callable[[Tree], Change]] = {
    Meaning.PUT: lambda body: Put(_members(body, "an object of the API")),
    Meaning.JSON_PATCH: _json_patch,
    Meaning.MERGE_PATCH: lambda body: MergePatch(_members(body, "a merge patch of an API object")),
    Meaning.STRATEGIC_MERGE_PATCH: lambda body: StrategicMergePatch(_members(body, "a strategic merge patch")),
    Meaning.APPLY: lambda body: Apply(_members(body, "an apply configuration")),
}


def _created(ref: WorkloadRef, body: dict[str, Tree]) -> WorkloadRef:
    name = preconditions.metadata(body).get("name")
    if name is None:
        return ref
    if type(name) is not str:
        raise BodyError("name-not-a-string", "metadata.name must be a string")
    return ref._replace(name=name)
