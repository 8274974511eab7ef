"""The HTTP API: paths and parameters. ``answers`` has what is behind them, ``openapi`` their description."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from typing import TypeAlias

from aiohttp import web

from extauthz.servers.api import openapi
from extauthz.servers.api.answers import MOST, Answers, reference
from extauthz.servers.api.problems import CONTENT_TYPE, Problem
from extauthz.servers.api.shown import Json

ROOT = "/api/v1"

MAX_BODY_BYTES = 64 << 10
"""Of a question. The largest one asks about an object that does not exist yet."""

WORKLOAD = ROOT + "/namespaces/{namespace}/workloads/{resource}/{name}"

BROUGHT = ("x-forwarded-", "x-envoy-", "forwarded", "via")
"""How headers begin that a proxy adds (RFC 7239, RFC 9110 §7.6.3, and Envoy's own)."""

THIS_HOST = ("127.0.0.1", "::1")
"""Whence ``kubectl port-forward`` and programs on this host or in this pod connect."""

Known: TypeAlias = Callable[[], Answers | None]
"""What is known; ``None``: the gate is still reading."""


def routes(known: Known) -> list[web.RouteDef]:
    """The paths, for the operators' server. Only who connects from this host or pod is answered."""

    def get(path: str, answer: Callable[[Answers, web.Request], Json | Awaitable[Json]]) -> web.RouteDef:
        return web.get(path, _guarded(known, answer), allow_head=False)

    def post(path: str, answer: Callable[[Answers, Json], Json | Awaitable[Json]]) -> web.RouteDef:
        async def posted(answers: Answers, request: web.Request) -> Json:
            found = answer(answers, await _body(request))
            return found if isinstance(found, dict) else await found

        return web.post(path, _guarded(known, posted))

    return [
        get(ROOT + "/openapi.json", lambda _, __: openapi.DOCUMENT),
        get(ROOT + "/quotas", _quotas),
        get(ROOT + "/quotas/{quota}", lambda answers, request: answers.quota(request.match_info["quota"])),
        get(ROOT + "/quotas/{quota}/workloads", _workloads),
        get(WORKLOAD, lambda answers, request: answers.workload(reference(request.match_info))),
        get(WORKLOAD + "/headroom", lambda answers, request: answers.headroom(reference(request.match_info))),
        get(ROOT + "/pendingwrites", lambda a, r: a.pending(_query(r, "quota").get("quota"), _limit(r))),
        post(ROOT + "/headroom", Answers.headrooms),
        post(ROOT + "/decisions", Answers.decision),
    ]


def _quotas(answers: Answers, request: web.Request) -> Json:
    given = _query(request, "below", "continue")
    return answers.quotas(given.get("below"), given.get("continue"), _limit(request))


async def _workloads(answers: Answers, request: web.Request) -> Json:
    given = _query(request, "sort")
    return await answers.workloads(request.match_info["quota"], given.get("sort"), _limit(request))


def _query(request: web.Request, *known: str) -> dict[str, str]:
    """The parameters. One that nobody knows is an error, because a filter that does nothing would mislead."""
    for name in request.query:
        if name not in (*known, "limit"):
            raise Problem(400, f"{name}: no such parameter; there are: {', '.join((*known, 'limit'))}")
    return dict(request.query)


def _limit(request: web.Request) -> int:
    text = request.query.get("limit", str(MOST))
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= MOST:
        raise Problem(400, f"limit: must be a whole number from 1 to {MOST}")
    return int(text)


async def _body(request: web.Request) -> Json:
    try:
        raw = await request.clone(client_max_size=MAX_BODY_BYTES).read()
    except web.HTTPRequestEntityTooLarge:
        raise Problem(413, f"the body is longer than {MAX_BODY_BYTES} bytes") from None
    try:
        asked = json.loads(raw)
        json.dumps(asked, ensure_ascii=False).encode()  # half a surrogate pair is no text
    except (ValueError, RecursionError) as error:
        raise Problem(400, f"the body is no JSON: {error}") from None
    if not isinstance(asked, dict):
        raise Problem(400, "the body: must be a JSON object")
    return asked


def _guarded(
    known: Known, answer: Callable[[Answers, web.Request], Json | Awaitable[Json]]
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def guarded(request: web.Request) -> web.Response:
        try:
            answers = _answers(known, request)
            found = answer(answers, request)
            return _response(request, found if isinstance(found, dict) else await found)
        except Problem as problem:
            return web.json_response(problem.shown(), status=problem.status, content_type=CONTENT_TYPE)

    return guarded


def _answers(known: Known, request: web.Request) -> Answers:
    if not _is_local(request):
        raise Problem(403, "the API answers this host or pod alone; use kubectl port-forward, or ask on 127.0.0.1")
    answers = known()
    if answers is None:
        raise Problem(503, "the gate does not know all quotas and workloads yet; /readyz says what is missing")
    return answers


def _is_local(request: web.Request) -> bool:
    """Whether the peer is on this host or in this pod. A Unix socket has no peer address: its file mode guards it.

    A sidecar of a mesh is in this pod too, and brings what others ask: it says so in a header. Where it takes the port
    for plain TCP it adds none, and Istio's connects from 127.0.0.6. A name in place of an address would let a page in
    somebody's browser ask, whose name leads here.
    """
    peer = _peer(request)
    if not isinstance(peer, tuple):
        return True
    is_brought = any(name.lower().startswith(BROUGHT) for name in request.headers)
    return peer[0] in THIS_HOST and not is_brought and _names_loopback(request)


def _names_loopback(request: web.Request) -> bool:
    try:
        host = request.url.host or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _peer(request: web.Request) -> object:
    return request.transport.get_extra_info("peername") if request.transport is not None else None


def _response(request: web.Request, found: Json) -> web.Response:
    text = json.dumps(found)
    tag = f'"{hashlib.blake2b(text.encode(), digest_size=12).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if request.headers.get("If-None-Match") == tag:
        return web.Response(status=304, headers=headers)
    return web.json_response(text=text, headers=headers)
