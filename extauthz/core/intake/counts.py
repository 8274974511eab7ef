"""Reads a request at Envoy: a ``Write`` of a count, ``NotAWrite``, ``NotACount``, or ``Unreadable``.

From method and target it tells whether a request can grow a workload, and which one, as the API server reads paths.
Sources: ``net/url`` (``ParseRequestURI``), ``k8s.io/apiserver/pkg/endpoints/request/requestinfo.go``, go-restful's
``CurlyRouter`` and ``k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go``. None of them cleans a
path: one decoding of the escapes, then the segments between slashes, leading and trailing slashes cut off.

An autoscaler writes a count. What may change more than that is not read here: ``MoreThanACount`` says so, and the
webhook is shown the object that comes of it. Sources: ``gopkg.in/evanphx/json-patch.v4``, RFC 7386,
``k8s.io/apimachinery/pkg/util/strategicpatch``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from enum import IntEnum, auto
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import unquote_to_bytes

from extauthz.core.errors import BodyError, ObjectError
from extauthz.core.kinds import BY_PATH, GATED
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
    WorkloadRef,
    Write,
)
from extauthz.core.objects.fields import converted_int32, mapping, replicas
from extauthz.core.objects.workloads import DEFAULT_REPLICAS
from extauthz.core.wire import gojson, goproto
from extauthz.core.wire.gojson import SMALL_BYTES, TOO_COMPLEX

# The route, as the API server finds it.


# Percent-decoding as Go's ``net/url`` does it: strict about what follows ``%``, where Python lets it stand.

_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


class PercentError(ValueError):
    """``%`` is not followed by two hexadecimal digits; Go refuses the whole text (``url.EscapeError``)."""


def unquote(text: str) -> str:
    """Decodes every escape. Bytes that are not UTF-8 come out as lone surrogates (``surrogateescape``)."""
    if "%" not in text:
        return text
    if _BAD_ESCAPE.search(text):
        raise PercentError(text)
    return unquote_to_bytes(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogateescape")


# Reads the query of a request target the way the API server does: Go's ``net/url`` and Kubernetes' ``dryRun``.

MAX_PARAMETERS = 10_000
"""``net/url.defaultMaxParams``: if there are more, Go reads none (since 1.24.12 and 1.25.6; before, it read all)."""


def dry_run(query: str) -> bool:
    """Whether the server takes a write with this query for a dry run: ``dryRun`` is there, and every value is ``All``.

    Any other value is refused by the server (``ValidateDryRun`` in ``apimachinery/pkg/apis/meta/v1/validation``), so
    that the write is not taken for a dry run here. Never raises.

    >>> dry_run("dryRun=All"), dry_run("dryRun=All&dryRun="), dry_run("dryrun=All")
    (True, False, False)
    """
    if "ry" not in query and "%" not in query:
        return False
    if query.count("&") >= MAX_PARAMETERS:
        return False
    values = [*_values(query)]
    return bool(values) and all(value == "All" for value in values)


def _values(query: str) -> Iterator[str]:
    """Those of ``dryRun``, as ``url.ParseQuery`` has them for ``URL.Query``: malformed pairs are dropped, and so is a
    pair with ``;``."""
    for part in query.split("&"):
        key, _, value = part.partition("=")
        # Each of its six characters may be written as an escape of three.
        if len(key) == 6 + 2 * key.count("%") and ";" not in part:
            with suppress(PercentError):
                if unquote(key) == "dryRun":
                    yield unquote(value.replace("+", " "))


class Route(NamedTuple):
    """The target of a write. A create has no name yet. A patch may turn out to be an apply."""

    ref: WorkloadRef
    operation: Operation
    scale: bool
    dry_run: bool


OPERATIONS = {"POST": Operation.CREATE, "PUT": Operation.UPDATE, "PATCH": Operation.PATCH}

MAX_PATH = 8_192
"""Characters of a path. nginx and Apache take no more either."""

MAX_QUERY = 32_768
"""Characters of a query. Envoy takes 60 KiB for all headers together, unless it is told otherwise."""

MAX_NAME = 253
"""``DNS1123SubdomainMaxLength`` in ``apimachinery/pkg/util/validation``: no object has a longer name or namespace."""

_READS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "CONNECT"})
_READ = NotAWrite("read", "reading changes nothing")
DELETE = NotAWrite("delete", "deleting frees room, it never takes any")
_OTHER = NotAWrite("other-resource", "not a resource with replicas, and not a scale subresource")
_STATUS = NotAWrite("status", "the API server keeps spec as it is when it writes status")
_SUBRESOURCE = NotAWrite("other-subresource", "this subresource holds no replica count and no pod template")
_VERB_PREFIX = NotAWrite("watch", "below /watch/ and /proxy/ the API server reads, whatever the method")

_VERB_PREFIXES = frozenset({"proxy", "watch"})  # RequestInfo's specialVerbs

# As every autoscaler spells an object or its scale: nothing that ``_spelled`` would read in another way.
_PLAIN = re.compile(
    r"/apis/([a-z0-9][a-z0-9.-]*)/[a-z0-9]+/namespaces/([a-z0-9][a-z0-9-]*)/([a-z]+)/([a-z0-9][a-z0-9.-]*)(?:/(scale))?"
)


def routed(method: str, target: str) -> Route | NotAWrite | Unreadable:
    """Reads a request line. Never raises; what the API server might take for growth is never ``NotAWrite``."""
    if method in _READS:
        return _READ
    if method == "DELETE":
        return DELETE
    plain = _PLAIN.fullmatch(target)
    raw_path, _, raw_query = ("", "", "") if plain else _origin_form(target).partition("?")
    outcome = workload(*plain.groups("")) if plain else _spelled(raw_path)
    if not isinstance(outcome, tuple):
        return outcome
    ref, scale = outcome
    if len(target) > MAX_NAME and (len(raw_query) > MAX_QUERY or max(map(len, ref)) > MAX_NAME):
        why = f"a name in the path is longer than {MAX_NAME} characters, or the query than {MAX_QUERY}"
        return Unreadable("target-too-long", f"{why}; no object of the API server needs that")
    operation = OPERATIONS.get(method)
    if operation is None or bool(ref.name) == (operation is Operation.CREATE):
        return Unreadable("method-not-served", f"no API server is known to serve {method[:20]!a} here", ref)
    return Route(ref, operation, scale, dry_run(raw_query))


def _spelled(raw_path: str) -> tuple[WorkloadRef, bool] | NotAWrite | Unreadable:
    if len(raw_path) > MAX_PATH:
        return _endless(raw_path)
    try:
        path = unquote(raw_path)
    except PercentError:
        return _odd(raw_path, "it holds a % that no two hexadecimal digits follow")
    path = path.rstrip("/")
    why = _oddity(path)
    return _odd(path, why) if why else _route(path[1:].split("/"))


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[^/?]*)?(?=/)")


def _origin_form(target: str) -> str:
    """Cuts off everything before the path of an absolute-form target (RFC 9112 §3.2.2), as ``net/url`` does."""
    found = None if target.startswith("/") else _SCHEME.match(target)
    return target[found.end() :] if found else target


# Paths that name an object in more than one way, depending on who reads them. The API server answers most of them with
# 404, but a proxy on the way may rewrite them into what it serves.
_ODD = re.compile(r"//|/\.{1,2}(?:/|$)|[\\#;%\x00-\x1f\x7f\ud800-\udfff]")


def _oddity(path: str) -> str:
    if not path.startswith(("/api/", "/apis/")):
        return "the API server serves /api and /apis at the root only"
    found = _ODD.search(path)
    return f"it holds {found.group()!a}" if found else ""


_PLURALS = "|".join(kind.key[1] for kind in GATED)
_GROWTH_SEGMENT = re.compile(rf"(?<![^/\\;#])(?:{_PLURALS}|scale)(?![^/\\;#?])")


def _odd(path: str, why: str) -> NotAWrite | Unreadable:
    """An odd path passes only if no reading of it can name a workload."""
    loose = path
    for _ in range(3):
        loose = re.sub(r"%([0-9a-f]{2})", lambda escape: chr(int(escape[1], 16)), loose).casefold()
    if _GROWTH_SEGMENT.search(loose):
        return Unreadable("odd-path", f"the path may name a workload, and {why}; spell it plainly")
    return _OTHER


def _endless(path: str) -> NotAWrite | Unreadable:
    """A path that is too long to read passes only if it is not escaped and names no workload."""
    if "%" not in path and not _GROWTH_SEGMENT.search(path.casefold()):
        return _OTHER
    return Unreadable("target-too-long", f"the path is longer than {MAX_PATH} characters and may name a workload")


def _route(parts: list[str]) -> tuple[WorkloadRef, bool] | NotAWrite:
    """RequestInfo's reading of the segments: the workload and whether its scale is meant."""
    group, parts = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    if not parts:
        return _OTHER
    if parts[0] in _VERB_PREFIXES:
        return _VERB_PREFIX
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    resource, name, subresource = [*parts, "", "", ""][:3]
    return workload(group, namespace, resource, name, subresource)


def workload(
    group: str, namespace: str, resource: str, name: str, subresource: str
) -> tuple[WorkloadRef, bool] | NotAWrite:
    """The workload that these parts of a request name, and whether its scale is meant."""
    kind = BY_PATH.get((group, resource))
    ref = WorkloadRef(*(kind or (group, resource)), namespace, name)
    if subresource == "scale":
        return ref, True
    if kind is None:
        return _OTHER
    if not subresource:
        return ref, False
    return _STATUS if subresource == "status" else _SUBRESOURCE


# The count.


REPLICAS: Final = ("spec", "replicas")

_OF_METADATA: Final = frozenset({"labels", "ownerReferences"})
"""What decides which quotas an object counts in, and through which owner."""

_OF_SPEC: Final = frozenset({"template", "volumeClaimTemplates", "ordinals", "selector", "paused"})
"""What decides what a replica costs, and which pods are the object's. A pause decides which ReplicaSets may run."""

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
    tree = goproto.loads(body) if found is Media.PROTOBUF else gojson.loads(body, work=gojson.of_count())
    if found is Media.JSON_PATCH:
        steps = operations(tree)
        return Said(of_json_patch(steps, scale=scale), bound_json_patch(steps))
    if found in (Media.JSON, Media.PROTOBUF):
        document = members(tree, "an object of the API")
        return Said(of_put(document), bound_object(document))
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
    found = _VERSION(version) if type(version) is str else None
    if found is None and uid is None:
        return NO_PRECONDITION
    return Precondition(found[1] if found is not None else None, uid)


_VERSION: Final = re.compile("0*([1-9][0-9]{0,18})").fullmatch
"""Versions are compared as numbers (``ObjectResourceVersion``); those of etcd have 63 bits. Zero asks for nothing.
Others are refused."""


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
    return _read(routed(request.method, request.target), request)


MAX_KEPT = SMALL_BYTES
"""Targets of so many characters, and patches of so many bytes with their content type, are remembered."""

_KEPT_ROUTES = 8_192
_KEPT_PATCHES = 1_024


class Reader:
    """``read``, which remembers what came before: autoscalers send the same few counts to the same few thousand scales.

    What is no write, or cannot be read, is not kept. ``read`` has no state. The two caches here are the only one.
    """

    def __init__(self) -> None:
        self._routes: dict[tuple[str, str], Route] = {}
        self._said = lru_cache(maxsize=_KEPT_PATCHES)(said)

    def __call__(self, request: Request) -> Reading:
        of = request.method, request.target
        route = self._routes.get(of) or routed(*of)
        if isinstance(route, Route) and of not in self._routes and len(request.target) <= MAX_KEPT:
            if len(self._routes) >= _KEPT_ROUTES:
                self._routes.clear()
            self._routes[of] = route
        is_small = len(request.body) + len(request.headers.get("content-type", "")) <= MAX_KEPT
        return _read(route, request, self._said if is_small else said)


_ReadsBody: TypeAlias = Callable[[Operation, str, bytes, bool], Said]


def _read(route: Route | NotAWrite | Unreadable, request: Request, reads: _ReadsBody = said) -> Reading:
    if not isinstance(route, Route):
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
