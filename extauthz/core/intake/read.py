"""Reads a request from route, content type and body: a ``Write``, ``NotAWrite`` or ``Unreadable``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple, Protocol, TypeAlias

from extauthz.core.budget import AT_ONCE_BYTES, SMALL_BYTES, TOO_COMPLEX, VALUE, Work, at_once, of_body
from extauthz.core.errors import BodyError
from extauthz.core.intake import media, preconditions, routes
from extauthz.core.intake.media import Encoding, Meaning
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
from extauthz.core.wire import gocbor, gojson, goproto, goyaml, protofields

MAX_BODY_BYTES = 3 * 1024 * 1024
"""``MaxRequestBodyBytes`` of the generic API server's config: a longer body is answered with 413."""

MAX_SCALE_BYTES = 64 * 1024
"""A Scale is a few hundred bytes; no client sends a longer body to a ``/scale``."""

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
    return _read(routes.read(request.method, request.target), request, _patch, of_body)


MAX_KEPT = SMALL_BYTES
"""Targets of so many characters, and patches of so many bytes with their content type, are remembered."""

_KEPT_ROUTES = 8_192
_KEPT_PATCHES = 1_024
_KEPT_WORK = 32 * VALUE
"""A patch that took more work to decode holds more values than an autoscaler's, and is not kept. So an entry of either
cache takes at most a few KiB, and both together less than 32 MiB whatever is sent."""


class Reader:
    """``read``, which remembers what came before: autoscalers send the same few counts to the same few thousand scales.

    Nobody changes what was read. What is no write, or cannot be read, is not kept. ``read`` has no state. The two
    caches here are the only one.

    Args:
        at_once_bytes: a longer body of a write takes long.
    """

    def __init__(self, at_once_bytes: int = AT_ONCE_BYTES) -> None:
        self._at_once_bytes = at_once_bytes
        self._route = lru_cache(maxsize=_KEPT_ROUTES)(_route_to_keep)
        self._patch = lru_cache(maxsize=_KEPT_PATCHES)(_patch_to_keep)

    def __call__(self, request: Request) -> Reading:
        return _read(self._routed(request), request, self._small_patch, of_body)

    def at_once(self, request: Request) -> Reading | None:
        """The same where it takes little. ``None``: it takes longer than others should wait, so read it elsewhere."""
        route = self._routed(request)
        if not isinstance(route, routes.Route) or route.scale:
            return _read(route, request, self._small_patch, at_once)
        if self._at_once_bytes < len(request.body) <= MAX_BODY_BYTES and not request.truncated:
            return None
        found = _read(route, request, self._small_patch, at_once)
        return None if isinstance(found, Unreadable) and found.code == TOO_COMPLEX else found

    def _routed(self, request: Request) -> routes.Route | NotAWrite | Unreadable:
        if len(request.target) > MAX_KEPT:
            return routes.read(request.method, request.target)
        try:
            return self._route(request.method, request.target)
        except _OtherRoute as unkept:
            return unkept.found

    def _small_patch(self, content_type: str, body: bytes, budget: _Budget, scale: bool) -> _Said:
        if len(body) + len(content_type) > MAX_KEPT:
            return _patch(content_type, body, budget, scale)
        try:
            return self._patch(content_type, body)
        except _LargePatch as unkept:
            return unkept.found


class _OtherRoute(Exception):  # noqa: N818 (no error: ``lru_cache`` keeps what is returned, and not what is raised)
    """Carries the reading of a request that is not a write."""

    def __init__(self, found: NotAWrite | Unreadable) -> None:
        super().__init__()
        self.found = found


class _LargePatch(Exception):  # noqa: N818 (the same)
    """Carries a patch that is too large to be kept."""

    def __init__(self, found: _Said) -> None:
        super().__init__()
        self.found = found


def _route_to_keep(method: str, target: str) -> routes.Route:
    route = routes.read(method, target)
    if isinstance(route, routes.Route):
        return route
    raise _OtherRoute(route)


def _patch_to_keep(content_type: str, body: bytes) -> _Said:
    work = of_body(len(body), scale=True)
    said = _said(Operation.PATCH, content_type, body, work)
    if work.used > _KEPT_WORK:
        raise _LargePatch(said)
    return said


def _read(
    route: routes.Route | NotAWrite | Unreadable, request: Request, read_patch: _ReadPatch, budget: _Budget
) -> Reading:
    if not isinstance(route, routes.Route):
        return route
    try:
        return _write(route, request, read_patch, budget)
    except BodyError as error:
        return Unreadable(error.code, error.detail, route.ref)


def _write(route: routes.Route, request: Request, read_patch: _ReadPatch, budget: _Budget) -> Write:
    _check_length(request, scale=route.scale)
    ref, operation, scale, dry_run = route
    content_type, body = request.headers.get("content-type", ""), request.body
    if operation is Operation.PATCH:
        said = read_patch(content_type, body, budget, scale)
    else:
        said = _said(operation, content_type, body, budget(len(body), scale=scale), route)
    if operation is Operation.CREATE:
        ref = created(ref, said.change)
    return Write(ref, said.operation, scale, dry_run, said.change, said.precondition)


class _Said(NamedTuple):
    """What content type and body say, whatever the target."""

    operation: Operation
    change: Change
    precondition: Precondition


def _said(operation: Operation, content_type: str, body: bytes, work: Work, route: routes.Route | None = None) -> _Said:
    """Without a ``route`` only patches, none of which is protobuf."""
    found = media.negotiate(operation, content_type)
    if found is None:
        raise BodyError("unsupported-media-type", f"content-type {content_type[:80]!a} is not served for this method")
    encoding, meaning = found
    change = _CHANGES[meaning](_DECODERS[encoding](body, work, route))
    operation = Operation.APPLY if meaning is Meaning.APPLY else operation
    return _Said(operation, change, preconditions.find(operation, change))


class _Budget(Protocol):
    def __call__(self, size: int, *, scale: bool) -> Work: ...


def _patch(content_type: str, body: bytes, budget: _Budget, scale: bool) -> _Said:
    return _said(Operation.PATCH, content_type, body, budget(len(body), scale=scale))


_ReadPatch: TypeAlias = Callable[[str, bytes, _Budget, bool], _Said]


def _check_length(request: Request, *, scale: bool) -> None:
    if request.truncated:
        raise BodyError("truncated", "only a part of the body reached the gate")
    if len(request.body) <= MAX_SCALE_BYTES:
        return
    if len(request.body) > MAX_BODY_BYTES:
        raise BodyError("body-too-large", f"more than {MAX_BODY_BYTES} bytes, which the API server refuses too")
    if scale:
        raise BodyError("body-too-large", f"more than {MAX_SCALE_BYTES} bytes for a scale: send spec.replicas alone")


_DECODERS: Mapping[Encoding, Callable[[bytes, Work, routes.Route | None], Tree]] = {
    Encoding.JSON: lambda data, work, route: gojson.loads(data, work=work),
    Encoding.YAML: lambda data, work, route: goyaml.loads(data, work),
    Encoding.CBOR: lambda data, work, route: gocbor.loads(data, work),
    Encoding.PROTOBUF: lambda data, work, route: goproto.loads(data, _message(route), work),
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


def created(ref: WorkloadRef, change: Change) -> WorkloadRef:
    """``ref`` with the name that the new object gives itself, if it has one. Raises BodyError."""
    assert isinstance(change, Put), "a create brings a whole object"
    name = preconditions.metadata(change.document).get("name")
    if name is None:
        return ref
    if type(name) is not str:
        raise BodyError("name-not-a-string", "metadata.name must be a string")
    if len(name) > routes.MAX_NAME:
        raise BodyError("name-too-long", f"metadata.name has {len(name)} characters, and may have {routes.MAX_NAME}")
    return ref._replace(name=name)
