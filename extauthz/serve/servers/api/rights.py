"""What of the answers somebody may see, and who says so. ``people`` asks the API server; whoever is on this host or in
this pod sees all. Of quotas that who asks may not see, answers are covered."""

from __future__ import annotations

from collections.abc import Container, Iterable
from enum import Enum
from http import HTTPStatus
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, Protocol

from extauthz.serve.servers.api.shown import AMOUNTS, Json

if TYPE_CHECKING:
    from aiohttp import web

BROUGHT = ("x-forwarded-", "x-envoy-", "forwarded", "via")
"""How headers begin that a proxy adds (RFC 7239, RFC 9110 §7.6.3, and Envoy's own)."""

THIS_HOST = ("127.0.0.1", "::1")
"""Whence ``kubectl port-forward`` and programs on this host or in this pod connect."""


class Scope(Enum):
    """Whose rights decide what is seen."""

    QUOTA = "WorkspaceQuota"
    NAMESPACE = "namespace"


class _All:
    def __contains__(self, name: object) -> bool:
        return True


ALL: Final[Container[str]] = _All()
"""Every name."""


class Rights(Protocol):
    """Of one person."""

    @property
    def name(self) -> str | None:
        """Who it is; ``None``: whoever is on this host."""

    async def visible(self, kind: Scope, names: Iterable[str]) -> Container[str]:
        """Those of ``names`` that they may see; ``ALL`` if there is no bound. Raises Problem."""


class Access(Protocol):
    """Lets people in, and tells what became of their questions."""

    async def rights(self, request: web.Request) -> Rights:
        """What who asks may see. Raises Problem: nothing."""

    def answered(self, request: web.Request, rights: Rights | None, status: int) -> None:
        """Note a question that was answered; ``None``: nobody was let in."""


class Everything:
    """The rights of whoever is on this host."""

    name = None

    async def visible(self, kind: Scope, names: Iterable[str]) -> Container[str]:
        return ALL


class ThisHost:
    """Lets in whoever connects from this host or pod, and nobody else."""

    async def rights(self, request: web.Request) -> Rights:
        if not _is_local(request):
            raise Problem(403, "the API answers this host or pod alone; use kubectl port-forward, or ask on 127.0.0.1")
        if _is_of_another_site(request):
            raise Problem(403, "the API answers no page of another site")
        return Everything()

    def answered(self, request: web.Request, rights: Rights | None, status: int) -> None:
        """Nothing is noted."""


def _is_local(request: web.Request) -> bool:
    """Whether both ends of the socket are on this host or in this pod. A Unix socket has no addresses: its file mode
    guards it.

    What is sent to the pod's own address comes from elsewhere, whoever in the pod relays it: a sidecar of a mesh keeps
    that address, and Istio's connects from 127.0.0.6. A proxy that names itself is refused too. A name in place of an
    address would let a page in somebody's browser ask, whose name leads here.
    """
    ends = [_end(request, which) for which in ("peername", "sockname")]
    if not all(isinstance(end, tuple) for end in ends):
        return True
    is_brought = any(name.lower().startswith(BROUGHT) for name in request.headers)
    return all(_host_of(end) in THIS_HOST for end in ends) and not is_brought and _names_loopback(request)


def _is_of_another_site(request: web.Request) -> bool:
    """A browser says so (Fetch Metadata; RFC 6454 §7). It sends what a page of another site asks for all the same."""
    origin = request.headers.get("Origin")
    is_foreign = origin is not None and origin.partition("://")[2].lower() != request.host.lower()
    return is_foreign or request.headers.get("Sec-Fetch-Site", "").lower() == "cross-site"


def _names_loopback(request: web.Request) -> bool:
    try:
        host = request.url.host or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _end(request: web.Request, which: str) -> object:
    return request.transport.get_extra_info(which) if request.transport is not None else None


def _host_of(end: object) -> str:
    return str(end[0]).removeprefix("::ffff:") if isinstance(end, tuple) else ""


LISTS: Final = ("shortages", "audit", "unspecified")
"""Fields of a decision whose rows are about quotas each."""

BOUNDS: Final = ("bound", "auditBound", "turn")
"""Fields of a headroom, and of a decision, that are such a row."""

SENTENCE: Final = "it does not fit, or is not clear to, a workspace quota that you may not get"


def named(found: Json) -> set[str]:
    """The quotas that an answer tells of."""
    return {row["quota"] for row in _rows(found) if row["quota"] is not None}


def over(found: Json, seen: Container[str]) -> Json:
    """The answer without names and amounts of other quotas than those ``seen``. ``requested`` is the asker's own."""
    if all(name in seen for name in named(found)):
        return found
    covered = dict(found)
    for field in BOUNDS:
        if found.get(field) is not None:
            covered[field] = _covered(found[field], seen)
    for field in LISTS:
        if field in found:
            covered[field] = [_covered(row, seen) for row in found[field]]
    if found.get("sentence") is not None:
        covered["sentence"] = SENTENCE
    return covered


def _rows(found: Json) -> list[Json]:
    bounds = [found[field] for field in BOUNDS if found.get(field) is not None]
    return bounds + [row for field in LISTS for row in found.get(field, ())]


def _covered(row: Json, seen: Container[str]) -> Json:
    if row["quota"] in seen:
        return row
    hidden = {name: None for name in (*AMOUNTS, "place") if name in row and name != "requested"}
    return row | {"quota": None} | ({"path": []} if "path" in row else {}) | hidden


# Errors of the API as RFC 9457 has them.

CONTENT_TYPE = "application/problem+json"


class Problem(Exception):  # noqa: N818 (the word of RFC 9457)
    """A question that cannot be answered. ``detail`` names the field and the cure."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail

    def shown(self) -> dict[str, Any]:
        return {"title": HTTPStatus(self.status).phrase, "status": self.status, "detail": self.detail}
