"""Joins route, content type and body into what a request means: a ``Write``, ``NotAWrite`` or ``Unreadable``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from extauthz.core.model import (
    Apply,
    Change,
    JsonPatch,
    MergePatch,
    NotAWrite,
    Operation,
    Precondition,
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
    return _read(routes.read(request.method, request.target), request, _patch)


MAX_KEPT = 256
"""Characters of a target; bytes of a patch with its content type. Nobody fills the memory with what means nothing."""


class Reader:
    """``read``, which remembers what came before: autoscalers send the same few counts to the same few thousand scales.

    Nobody changes what was read.
    """

    def __init__(self) -> None:
        self._route = lru_cache(maxsize=8_192)(routes.read)
        self._patch = lru_cache(maxsize=4_096)(_patch)

    def __call__(self, request: Request) -> Reading:
        read_route = self._route if len(request.target) <= MAX_KEPT else routes.read
        size = len(request.body) + len(request.headers.get("content-type", ""))
        read_patch = self._patch if size <= MAX_KEPT else _patch
        return _read(read_route(request.method, request.target), request, read_patch)


def _read(route: routes.Route | NotAWrite | Unreadable, request: Request, read_patch: _ReadPatch) -> Reading:
    if not isinstance(route, routes.Route):
        return route
    try:
        return _write(route, request, read_patch)
    except BodyError as error:
        return Unreadable(error.code, error.detail, route.ref)


def _write(route: routes.Route, request: Request, read_patch: _ReadPatch) -> Write:
    _check_length(request)
    ref, operation, scale, dry_run = route
    content_type, body = request.headers.get("content-type", ""), request.body
    if operation is Operation.PATCH:
        said = read_patch(content_type, body)
    else:
        said = _said(operation, content_type, body, route)
    if operation is Operation.CREATE:
        ref = _created(ref, said.change)
    return Write(ref, said.operation, scale, dry_run, said.change, said.precondition)


class _Said(NamedTuple):
    """What content type and body say, wherever it is sent."""

    operation: Operation
    change: Change
    precondition: Precondition


def _said(operation: Operation, content_type: str, body: bytes, route: routes.Route | None = None) -> _Said:
    """Without a ``route`` only patches, none of which is protobuf."""
    found = media.negotiate(operation, content_type)
    if found is None:
        raise BodyError("unsupported-media-type", f"content-type {content_type[:80]!a} is not served for this method")
    encoding, meaning = found
    change = _CHANGES[meaning](_DECODERS[encoding](body, route))
    operation = Operation.APPLY if meaning is Meaning.APPLY else operation
    return _Said(operation, change, preconditions.find(operation, change))


def _patch(content_type: str, body: bytes) -> _Said:
    return _said(Operation.PATCH, content_type, body)


_ReadPatch: TypeAlias = Callable[[str, bytes], _Said]


def _check_length(request: Request) -> None:
    if request.truncated:
        raise BodyError("truncated", "only a part of the body reached the gate")
    if len(request.body) > MAX_BODY_BYTES:
        raise BodyError("body-too-large", f"more than {MAX_BODY_BYTES} bytes, which the API server refuses too")


_DECODERS: Mapping[Encoding, Callable[[bytes, routes.Route | None], Tree]] = {
    Encoding.JSON: lambda data, route: gojson.loads(data),
    Encoding.YAML: lambda data, route: goyaml.loads(data),
    Encoding.CBOR: lambda data, route: gocbor.loads(data),
    Encoding.PROTOBUF: lambda data, route: goproto.loads(data, _message(route)),
}


def _message(route: routes.Route | None) -> protofields.Message:
    assert route is not None, "of a patch nothing is protobuf"
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


def _created(ref: WorkloadRef, change: Change) -> WorkloadRef:
    assert isinstance(change, Put), "a create brings a whole object"
    name = preconditions.metadata(change.document).get("name")
    if name is None:
        return ref
    if type(name) is not str:
        raise BodyError("name-not-a-string", "metadata.name must be a string")
    return ref._replace(name=name)
