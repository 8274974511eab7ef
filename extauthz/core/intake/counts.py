"""Reads a request at Envoy: a ``Write`` of a count, ``NotAWrite``, ``NotACount``, or ``Unreadable``.

An autoscaler writes a count. What may change more than that is not read here: ``MoreThanACount`` says so, and the
webhook is shown the object that comes of it. Sources: ``gopkg.in/evanphx/json-patch.v4``, RFC 7386,
``k8s.io/apimachinery/pkg/util/strategicpatch``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum, auto
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from extauthz.core.errors import BodyError, ObjectError
from extauthz.core.intake import routes
from extauthz.core.model import (
    NO_PRECONDITION,
    NotACount,
    NotAWrite,
    Operation,
    Precondition,
    Reading,
    Request,
    Tree,
    Unreadable,
    Write,
)
from extauthz.core.objects.fields import converted_int32, mapping, replicas
from extauthz.core.objects.workloads import DEFAULT_REPLICAS
from extauthz.core.wire import gojson, goproto
from extauthz.core.wire.gojson import SMALL_BYTES, TOO_COMPLEX

REPLICAS: Final = ("spec", "replicas")

_OF_METADATA: Final = frozenset({"labels", "ownerReferences"})
"""What decides which quotas an object counts in, and through which owner."""

_OF_SPEC: Final = frozenset({"template", "volumeClaimTemplates", "ordinals", "selector"})
"""What decides what a replica costs, and which pods are the object's."""

_OPERATIONS: Final = frozenset({"add", "remove", "replace", "move", "copy", "test"})

_Place: TypeAlias = tuple[str, ...]


class MoreThanACount(Exception):  # noqa: N818 (no error of anybody: others decide it)
    """The body may change something else that costs. The text says what."""


class Said(NamedTuple):
    """What content type and body say, whatever the target."""

    replicas: int | None
    precondition: Precondition


def said(operation: Operation, content_type: str, body: bytes, scale: bool) -> Said:
    """Raises BodyError, ObjectError, MoreThanACount."""
    found = negotiate(operation, content_type)
    if found is None:
        raise BodyError("unsupported-media-type", f"content-type {content_type[:80]!a} is not served for this method")
    if found is Media.OTHER:
        raise MoreThanACount(f"its content type is {content_type[:80]!a}, which no autoscaler sends")
    work = gojson.of_count()
    if found is Media.PROTOBUF:
        document = goproto.loads(body, goproto.SCALE, work)
        bound = bound_object(document)
        return Said(of_put(document), bound)
    tree = gojson.loads(body, work=work)
    if found is Media.JSON_PATCH:
        steps = operations(tree)
        return Said(of_json_patch(steps, scale=scale), bound_json_patch(steps))
    if found is Media.JSON:
        document = members(tree, "an object of the API")
        bound = bound_object(document)
        return Said(of_put(document), bound)
    patch = members(tree, "a merge patch of an API object")
    of_patch = of_merge_patch if found is Media.MERGE_PATCH else of_strategic_merge_patch
    return Said(of_patch(patch, scale=scale), bound_merge_patch(patch))


# What the body is, as the API server negotiates it from its content type: a ``PUT`` by media type
# (``mime.ParseMediaType``: capitals and parameters do not matter, none at all means JSON), a ``PATCH`` byte for byte up
# to the first semicolon (``endpoints/handlers/patch.go``).


class Media(IntEnum):
    """Numbers, because they are quick to look up."""

    JSON = auto()
    PROTOBUF = auto()
    JSON_PATCH = auto()
    MERGE_PATCH = auto()
    STRATEGIC_MERGE_PATCH = auto()
    OTHER = auto()
    """The API server takes it, and no autoscaler sends it."""


_OBJECTS = {
    "": Media.JSON,
    "application/json": Media.JSON,
    "application/yaml": Media.OTHER,
    "application/cbor": Media.OTHER,
    "application/vnd.kubernetes.protobuf": Media.PROTOBUF,
}

_PATCHES = {
    "application/json-patch+json": Media.JSON_PATCH,
    "application/merge-patch+json": Media.MERGE_PATCH,
    "application/strategic-merge-patch+json": Media.STRATEGIC_MERGE_PATCH,
    "application/apply-patch+yaml": Media.OTHER,
    "application/apply-patch+cbor": Media.OTHER,
}


def negotiate(operation: Operation, content_type: str) -> Media | None:
    """What a body is; ``None`` if the API server answers 415 Unsupported Media Type.

    Parameters of a ``PUT`` are not checked: Go refuses broken ones, and reads no body differently for them.
    """
    content_type = content_type.strip()
    base, semicolon, _ = content_type.partition(";")
    if operation is Operation.PATCH:
        return _PATCHES.get(base)
    if semicolon and not base:
        return None
    return _OBJECTS.get(base.strip().lower())


# The count.


def of_put(document: Tree) -> int:
    """Of a whole Scale. Raises ObjectError."""
    spec = mapping(mapping(document, "(root)").get("spec"), "spec")
    return replicas(spec.get("replicas"), 0)


def of_merge_patch(patch: Mapping[str, Tree], *, scale: bool) -> int | None:
    """``None``: it leaves the count as it is. Raises ObjectError, MoreThanACount."""
    return _of_tree(patch, lambda value: value, scale=scale)


def of_strategic_merge_patch(patch: Mapping[str, Tree], *, scale: bool) -> int | None:
    """The same. Directives (``$patch`` and others) are more than a count."""
    for part in (patch, patch.get("metadata"), patch.get("spec")):
        if isinstance(part, dict) and any(key.startswith("$") for key in part):
            raise MoreThanACount("it has directives of a strategic merge patch")
    return _of_tree(patch, converted_int32, scale=scale)


def _of_tree(patch: Mapping[str, Tree], convert: Callable[[Tree], Tree], *, scale: bool) -> int | None:
    if not scale:
        _refuse_more(patch)
    if "spec" not in patch:
        return None
    spec = mapping(patch["spec"], "spec")  # null takes the whole spec of a Scale away
    if patch["spec"] is not None and "replicas" not in spec:
        return None
    return replicas(convert(spec.get("replicas")), _default(scale=scale))


def _refuse_more(patch: Mapping[str, Tree]) -> None:
    for part, costly in (("metadata", _OF_METADATA), ("spec", _OF_SPEC)):
        given = patch.get(part, {})
        if given is None:
            raise MoreThanACount(f"it takes all of {part} away")
        if isinstance(given, dict) and (found := costly & given.keys()):
            raise MoreThanACount(f"it changes {part}.{min(found)}")


def of_json_patch(operations: Iterable[Mapping[str, Tree]], *, scale: bool) -> int | None:
    """``None``: it leaves the count as it is. Raises BodyError, ObjectError, MoreThanACount.

    ``test`` is taken as passed: what it looks at may have another value in the cluster by now.
    """
    found: list[Tree] = []
    for operation in operations:
        name = operation.get("op")
        if not isinstance(name, str) or name not in _OPERATIONS:
            raise BodyError("patch-malformed", "op must be add, remove, replace, move, copy or test")
        place = _place(operation, "path")
        if name in ("move", "copy"):
            _refuse_moved(name, _place(operation, "from"), place, scale=scale)
        elif name != "test" and _counts(place, scale=scale):
            found.append(_set(name, place, operation.get("value"), scale=scale))
    return replicas(found[-1], _default(scale=scale)) if found else None


def _set(name: str, place: _Place, value: Tree, *, scale: bool) -> Tree:
    """What an operation makes of the count; null: the default."""
    if place == REPLICAS:
        return value if name != "remove" else None
    if not scale or len(place) > 1:
        raise MoreThanACount(f"it changes {'.'.join(place[:2]) or 'the whole object'}")
    if name == "remove":
        return None
    spec = value if place else mapping(value, "(root)").get("spec")
    return mapping(spec, "spec").get("replicas")


def _refuse_moved(name: str, source: _Place, place: _Place, *, scale: bool) -> None:
    if _counts(place, scale=scale) or (name == "move" and _counts(source, scale=scale)):
        raise MoreThanACount(f"it can {name} more than a count")


def _counts(place: _Place, *, scale: bool) -> bool:
    """Whether something that costs is there, or below."""
    if not place:
        return True
    if place[0] == "metadata":
        return not scale and (len(place) == 1 or place[1] in _OF_METADATA)
    return place[0] == "spec" and (len(place) == 1 or place[1] == "replicas" or (not scale and place[1] in _OF_SPEC))


def _place(operation: Mapping[str, Tree], key: str) -> _Place:
    """The first tokens of a pointer: what is deeper makes no difference. What is before the first slash is dropped, as
    the library does it."""
    pointer = operation.get(key)
    if not isinstance(pointer, str):
        raise BodyError("patch-malformed", f"{key} of an operation must be a string")
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/", 3)[1:])


def _default(*, scale: bool) -> int:
    return 0 if scale else DEFAULT_REPLICAS


def members(body: Tree, what: str) -> dict[str, Tree]:
    """The keys of a body that is an object. Raises BodyError."""
    if type(body) is not dict:
        raise BodyError("not-an-object", f"{what} must be an object")
    return body


def operations(body: Tree) -> list[dict[str, Tree]]:
    """The operations of a JSON Patch. Raises BodyError."""
    if type(body) is not list:
        raise BodyError("not-an-array", "a JSON Patch must be an array of operations (RFC 6902 §3)")
    return [members(operation, "an operation of a JSON Patch") for operation in body]


# What the API server must verify before it writes. A precondition that were claimed and not enforced would end a
# pending write too early (design.md L3). Sources: ``Store.Update`` in
# ``apiserver/pkg/registry/generic/registry/store.go``; ``scaleUpdatedObjectInfo`` in ``pkg/registry/apps/*/storage``.

_RESOURCE_VERSION_PATH = "/metadata/resourceVersion"

_UINT64_DIGITS = 20

_MAX_UID = 253
"""The API server's uids have 36 characters. A longer one is not kept."""


def bound_create(document: Mapping[str, Tree]) -> Precondition:
    """What tells a create that an API server has admitted: it has given the new object its uid by then
    (``FillObjectMetaSystemFields`` in ``apiserver/pkg/registry/rest/meta.go``). No client can choose it."""
    return Precondition(uid=_uid(metadata(document)))


def bound_object(document: Mapping[str, Tree]) -> Precondition:
    """Of a whole object or Scale: the version and the uid that it has."""
    given = metadata(document)
    return _precondition(given.get("resourceVersion"), _uid(given))


def bound_merge_patch(patch: Mapping[str, Tree]) -> Precondition:
    """If a patch sets the version, the server compares it. The uid is not compared for every scale."""
    return _precondition(metadata(patch).get("resourceVersion"))


def bound_json_patch(operations: Iterable[Mapping[str, Tree]]) -> Precondition:
    """A ``test`` of the version, unless an operation before it may have changed what it looks at."""
    for operation in operations:
        if operation.get("op") != "test":
            if any(_may_touch_metadata(operation.get(key, _NOWHERE)) for key in ("path", "from")):
                return NO_PRECONDITION
        elif operation.get("path") == _RESOURCE_VERSION_PATH:
            return _precondition(operation.get("value"))
    return NO_PRECONDITION


_NOWHERE = "/"
"""The source of an operation that has none."""


def _may_touch_metadata(path: Tree) -> bool:
    # Not a comparison of segments: json-patch ignores what stands before the first slash.
    return type(path) is not str or not path or "metadata" in path


def metadata(body: Mapping[str, Tree]) -> Mapping[str, Tree]:
    """The metadata of a body; empty if there is none."""
    given = body.get("metadata")
    return given if type(given) is dict else {}


def _uid(given: Mapping[str, Tree]) -> str | None:
    uid = given.get("uid")
    return uid if type(uid) is str and 0 < len(uid) <= _MAX_UID else None


def _precondition(version: Tree, uid: str | None = None) -> Precondition:
    number = _number(version)
    if not number and uid is None:
        return NO_PRECONDITION
    return Precondition(str(number) if number else None, uid)


def _number(version: Tree) -> int:
    """Versions are compared as numbers (``ObjectResourceVersion``). Zero asks for nothing. Others are refused."""
    readable = type(version) is str and version.isascii() and version.isdecimal() and len(version) <= _UINT64_DIGITS
    return int(version) if readable else 0


MAX_BYTES = 16 * 1024
"""The longest body that is read. A Scale is a few hundred bytes, and so is a patch of a count."""

_NO_COUNT = NotAWrite("no-count", "it leaves the replica count, the pod template, the labels and the owner as they are")


def read(request: Request) -> Reading:
    """Says what a request means, reading it as the Kubernetes API server would. Never raises, whatever the bytes.

    >>> target = "/apis/apps/v1/namespaces/shop/deployments/web/scale?dryRun=All"
    >>> patch = {"content-type": "application/merge-patch+json"}
    >>> write = read(Request("PATCH", target, patch, b'{"spec":{"replicas":3}}'))
    >>> str(write.ref), write.scale, write.dry_run, write.replicas
    ('deployments.apps shop/web', True, True, 3)
    >>> read(Request("PATCH", target, patch, b'{"spec":')).code
    'json-syntax'
    """
    return _read(routes.read(request.method, request.target), request)


MAX_KEPT = SMALL_BYTES
"""Targets of so many characters, and patches of so many bytes with their content type, are remembered."""

_KEPT_ROUTES = 8_192
_KEPT_PATCHES = 1_024


class Reader:
    """``read``, which remembers what came before: autoscalers send the same few counts to the same few thousand scales.

    What is no write, or cannot be read, is not kept. ``read`` has no state. The two caches here are the only one.
    """

    def __init__(self) -> None:
        self._route = lru_cache(maxsize=_KEPT_ROUTES)(_route_to_keep)
        self._patch = lru_cache(maxsize=_KEPT_PATCHES)(said)

    def __call__(self, request: Request) -> Reading:
        route = self._routed(request)
        is_small = len(request.body) + len(request.headers.get("content-type", "")) <= MAX_KEPT
        return _read(route, request, self._patch if is_small else said)

    def _routed(self, request: Request) -> routes.Route | NotAWrite | Unreadable:
        if len(request.target) > MAX_KEPT:
            return routes.read(request.method, request.target)
        try:
            return self._route(request.method, request.target)
        except _OtherRoute as unkept:
            return unkept.found


class _OtherRoute(Exception):  # noqa: N818 (no error: ``lru_cache`` keeps what is returned, and not what is raised)
    """Carries the reading of a request that is not a write."""

    def __init__(self, found: NotAWrite | Unreadable) -> None:
        super().__init__()
        self.found = found


def _route_to_keep(method: str, target: str) -> routes.Route:
    route = routes.read(method, target)
    if isinstance(route, routes.Route):
        return route
    raise _OtherRoute(route)


_ReadsBody: TypeAlias = Callable[[Operation, str, bytes, bool], Said]


def _read(route: routes.Route | NotAWrite | Unreadable, request: Request, reads: _ReadsBody = said) -> Reading:
    if not isinstance(route, routes.Route):
        return route
    ref, operation, scale, dry_run = route
    if not scale and operation is not Operation.PATCH:
        return NotACount(ref, "it brings a whole object")
    try:
        _check_length(request, scale=scale)
        replicas, precondition = reads(operation, request.headers.get("content-type", ""), request.body, scale)
    except MoreThanACount as more:
        return NotACount(ref, str(more))
    except (BodyError, ObjectError) as error:
        if error.code == TOO_COMPLEX and not scale:
            return NotACount(ref, "a patch of a count has few values")
        return Unreadable(error.code, error.detail, ref)
    if replicas is None:
        return _NO_COUNT
    return Write(ref, operation, scale, dry_run, replicas, precondition=precondition)


def _check_length(request: Request, *, scale: bool) -> None:
    """Raises BodyError, MoreThanACount."""
    is_long = len(request.body) > MAX_BYTES
    if not scale and (is_long or request.truncated):
        raise MoreThanACount(f"a patch of a count has at most {MAX_BYTES} bytes")
    if is_long:
        raise BodyError("body-too-large", f"more than {MAX_BYTES} bytes for a scale: send spec.replicas alone")
    if request.truncated:
        raise BodyError("truncated", "only a part of the body reached the gate")
