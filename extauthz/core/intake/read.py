"""Reads a request at Envoy: a ``Write`` of a count, ``NotAWrite``, ``NotACount``, or ``Unreadable``."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

from extauthz.core.budget import SMALL_BYTES, TOO_COMPLEX
from extauthz.core.errors import BodyError, ObjectError
from extauthz.core.intake import routes
from extauthz.core.intake.counts import MoreThanACount, Said, said
from extauthz.core.model import NotACount, NotAWrite, Operation, Reading, Request, Unreadable, Write

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
