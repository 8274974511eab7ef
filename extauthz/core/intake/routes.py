"""Tells from method and target whether a request can grow a workload, and which one, as the API server reads paths.

Sources: ``net/url`` (``ParseRequestURI``), ``k8s.io/apiserver/pkg/endpoints/request/requestinfo.go``, go-restful's
``CurlyRouter`` and ``k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go``. None of them cleans a
path: one decoding of the escapes, then the segments between slashes, leading and trailing slashes cut off.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from extauthz.core.kinds import BY_PATH, GATED
from extauthz.core.model import NotAWrite, Operation, Unreadable, WorkloadRef

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
    values = [value for key, value in parse("&".join(filter(_may_be, query.split("&")))) if key == "dryRun"]
    return bool(values) and all(value == "All" for value in values)


def _may_be(part: str) -> bool:
    """Whether a parameter may be ``dryRun``. Each of its six characters may be written as an escape of three."""
    key, _, _ = part.partition("=")
    return len(key) == 6 + 2 * key.count("%")


def parse(query: str) -> list[tuple[str, str]]:
    """``url.ParseQuery`` as ``URL.Query`` uses it: malformed pairs are dropped, and so is a pair with ``;``."""
    pairs: list[tuple[str, str]] = []
    for part in query.split("&"):
        if not part or ";" in part:
            continue
        key, _, value = part.partition("=")
        try:
            pairs.append((unquote(key.replace("+", " ")), unquote(value.replace("+", " "))))
        except PercentError:
            continue
    return pairs


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


def read(method: str, target: str) -> Route | NotAWrite | Unreadable:
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
