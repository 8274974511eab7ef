"""The HTTP API: paths and parameters.

``answers`` has what is behind them, ``openapi.yaml`` describes them, and ``rights`` says who may see what.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Container
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TypeAlias

import yaml
from aiohttp import web

from extauthz.core.errors import BodyError
from extauthz.core.model import Verdict, WorkloadRef
from extauthz.core.wire import gojson
from extauthz.core.wire.gojson import TOO_COMPLEX, Work
from extauthz.serve.servers import listener
from extauthz.serve.servers.api import questions, rights, shown
from extauthz.serve.servers.api.answers import MOST, Answers, RefusedWrite
from extauthz.serve.servers.api.history import Filter
from extauthz.serve.servers.api.questions import Manifest, reference
from extauthz.serve.servers.api.rights import ALL, CONTENT_TYPE, Access, Problem, Rights, Scope
from extauthz.serve.servers.api.shown import Json
from extauthz.serve.servers.bodies import Result, Share

ROOT = "/api/v1"

MAX_BODY_BYTES = 64 << 10
"""Of a question. The largest one asks about an object that does not exist yet."""

BODY_WITHIN_S = 10.0
"""How long a body may take to come."""

WORKLOAD = ROOT + "/namespaces/{namespace}/workloads/{resource}/{name}"

MAX_WORK = 4_000
"""Units of work of a body (``core.wire.gojson``): 1,000 values. A Deployment with 80 containers has fewer."""

Known: TypeAlias = Callable[[], Answers | None]
"""What is known; ``None``: the gate is still reading."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One question: what is known, who asks, and what."""

    answers: Answers
    rights: Rights
    request: web.Request
    share: Share

    async def take(self, work: Callable[[], Result]) -> Result:
        """What comes of the work, in its turn. Raises Problem."""
        return await self.share.of(self.rights.name, work)

    async def must_see(self, kind: Scope, name: str) -> None:
        """Raises Problem if who asks may not see it, whether it exists or not."""
        if name not in await self.rights.visible(kind, [name]):
            raise Problem(403, f'you may not get {kind.value} "{name}"')

    async def workload(self) -> WorkloadRef:
        """The one that the path names. Raises Problem if who asks may not see its namespace."""
        ref = reference(self.request.match_info)
        await self.must_see(Scope.NAMESPACE, ref.namespace)
        return ref

    async def veiled(self, found: Json) -> Json:
        """An answer about a workload, without names and amounts of quotas that who asks may not see."""
        return rights.over(found, await self.rights.visible(Scope.QUOTA, rights.named(found)))

    async def all_veiled(self, found: Json) -> Json:
        """The same of a page of such answers."""
        named = {name for one in found["items"] for name in rights.named(one)}
        seen = await self.rights.visible(Scope.QUOTA, named)
        return found | {"items": [rights.over(one, seen) for one in found["items"]]}


Answer: TypeAlias = Callable[[Asked], Awaitable[Json]]


def routes(known: Known, access: Access) -> list[web.RouteDef]:
    """The paths, for those whom ``access`` lets in."""

    share = Share()

    def get(path: str, answer: Answer) -> web.RouteDef:
        return web.get(ROOT + path, _guarded(known, access, share, answer), allow_head=False)

    def post(path: str, answer: Answer) -> web.RouteDef:
        return web.post(ROOT + path, _guarded(known, access, share, answer))

    return [
        get("/openapi.json", _document),
        get("/quotas", _quotas),
        get("/quotas/{quota}", _quota),
        get("/quotas/{quota}/workloads", _workloads),
        get("/quotas/{quota}/line", _line),
        get(WORKLOAD.removeprefix(ROOT), _workload),
        get(WORKLOAD.removeprefix(ROOT) + "/headroom", _headroom),
        get("/pendingwrites", _pending),
        get("/decisions", _decisions),
        get("/episodes", _episodes),
        post("/headroom", _headrooms),
        post("/decisions", _decision),
    ]


@cache
def document() -> Json:
    """The OpenAPI 3.1 document of the API (https://spec.openapis.org/oas/v3.1.1). Tests hold all answers against it."""
    found: Json = yaml.load(resources.files(__package__).joinpath("openapi.yaml").read_text(), yaml.CSafeLoader)
    return found


async def _document(asked: Asked) -> Json:
    return document()


async def _quotas(asked: Asked) -> Json:
    given = _query(asked.request, "below", "continue")
    below = given.get("below")
    if below is not None:
        await asked.must_see(Scope.QUOTA, below)
    visible = await asked.rights.visible(Scope.QUOTA, asked.answers.names(below))
    limit = _limit(asked.request)
    return await asked.take(lambda: asked.answers.quotas(below, given.get("continue"), limit, visible))


async def _quota(asked: Asked) -> Json:
    name = asked.request.match_info["quota"]
    await asked.must_see(Scope.QUOTA, name)
    return asked.answers.quota(name)


async def _workloads(asked: Asked) -> Json:
    name = asked.request.match_info["quota"]
    await asked.must_see(Scope.QUOTA, name)
    visible = await asked.rights.visible(Scope.NAMESPACE, asked.answers.namespaces(name))
    sort = _query(asked.request, "sort").get("sort")
    return await asked.answers.workloads(name, sort, _limit(asked.request), visible)


async def _line(asked: Asked) -> Json:
    name = asked.request.match_info["quota"]
    await asked.must_see(Scope.QUOTA, name)
    visible = await asked.rights.visible(Scope.NAMESPACE, asked.answers.namespaces(name))
    _query(asked.request)
    limit = _limit(asked.request)
    return await asked.take(lambda: asked.answers.line(name, limit, visible))


async def _workload(asked: Asked) -> Json:
    return asked.answers.workload(await asked.workload())


async def _headroom(asked: Asked) -> Json:
    ref = await asked.workload()
    return await asked.veiled(await asked.take(lambda: asked.answers.headroom(ref)))


async def _headrooms(asked: Asked) -> Json:
    body = await _body(asked)
    refs = questions.batch(body)
    if refs is None:
        manifest = await asked.take(lambda: questions.manifest(body, asked.answers.customs))
        return shown.page("HeadroomList", [await _headroom_of(asked, manifest)], None)
    named = [ref.namespace for ref in refs if isinstance(ref, WorkloadRef)]
    found = await asked.answers.headrooms(refs, await asked.rights.visible(Scope.NAMESPACE, named), asked.take)
    return await asked.all_veiled(found)


async def _headroom_of(asked: Asked, manifest: Manifest) -> Json:
    await asked.must_see(Scope.NAMESPACE, manifest.ref.namespace)
    try:
        return await asked.veiled(await asked.take(lambda: asked.answers.headroom_of(manifest)))
    except RefusedWrite as refused:
        seen = await asked.rights.visible(Scope.QUOTA, refused.quotas)
        if all(name in seen for name in refused.quotas):
            raise
        raise Problem(refused.status, rights.SENTENCE) from None


async def _decision(asked: Asked) -> Json:
    body = await _body(asked)
    write = await asked.take(lambda: questions.write(body, asked.answers.customs))
    await asked.must_see(Scope.NAMESPACE, write.ref.namespace)
    return await asked.veiled(await asked.take(lambda: asked.answers.decision(write)))


async def _pending(asked: Asked) -> Json:
    quota = _query(asked.request, "quota").get("quota")
    if quota is not None:
        await asked.must_see(Scope.QUOTA, quota)
    visible = await asked.rights.visible(Scope.NAMESPACE, asked.answers.namespaces_of_pending(quota))
    limit = _limit(asked.request)
    return await asked.take(lambda: asked.answers.pending(quota, limit, visible))


async def _decisions(asked: Asked) -> Json:
    given = _query(asked.request, *Filter._fields, "continue")
    before = given.get("continue")
    if before is not None and not (before.isascii() and before.isdigit() and len(before) < 20):
        raise Problem(400, "continue: must be the field continue of the page before")
    by, visible = await _filtered(asked, given)
    limit, history = _limit(asked.request), asked.answers.history
    found = await asked.take(lambda: history.decisions(by, int(before) if before else None, limit, visible))
    return await asked.all_veiled(found)


async def _episodes(asked: Asked) -> Json:
    by, visible = await _filtered(asked, _query(asked.request, "quota", "namespace"))
    limit, history = _limit(asked.request), asked.answers.history
    return await asked.all_veiled(await asked.take(lambda: history.episodes(by, limit, visible)))


async def _filtered(asked: Asked, given: dict[str, str]) -> tuple[Filter, Container[str]]:
    """What is asked for, and of which namespaces who asks may see it."""
    by = Filter(given.get("quota"), given.get("namespace"), given.get("verdict"))
    if by.verdict is not None and by.verdict not in set(Verdict):
        raise Problem(400, f"verdict: must be one of {', '.join(Verdict)}")
    if by.quota is not None:
        await asked.must_see(Scope.QUOTA, by.quota)
        asked.answers.quota(by.quota)
    if by.namespace is not None:
        await asked.must_see(Scope.NAMESPACE, by.namespace)
        return by, ALL
    return by, await asked.rights.visible(Scope.NAMESPACE, asked.answers.history.namespaces())


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


async def _body(asked: Asked) -> Json:
    try:
        raw = await listener.body(asked.request, MAX_BODY_BYTES, BODY_WITHIN_S)
    except web.HTTPException as refused:
        raise Problem(refused.status, (refused.text or "").rstrip()) from None
    return await asked.take(lambda: _decoded(raw))


def _decoded(raw: bytes) -> Json:
    try:
        found = gojson.loads(raw, work=Work(MAX_WORK))
    except BodyError as error:
        raise Problem(
            413 if error.code == TOO_COMPLEX else 400, f"the body cannot be read as JSON: {error.detail}"
        ) from None
    if not isinstance(found, dict):
        raise Problem(400, "the body: must be a JSON object")
    return found


def _guarded(
    known: Known, access: Access, share: Share, answer: Answer
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def guarded(request: web.Request) -> web.Response:
        rights: Rights | None = None
        try:
            rights = await access.rights(request)
            asked = Asked(known_answers(known), rights, request, share)
            found = await answer(asked)
            response = await asked.take(lambda: _response(request, found))
        except Problem as problem:
            response = _refusal(problem)
        access.answered(request, rights, response.status)
        return response

    return guarded


def known_answers(known: Known) -> Answers:
    """Raises Problem while the gate still reads."""
    answers = known()
    if answers is None:
        raise Problem(503, "the gate does not know all quotas and workloads yet; /readyz says what is missing")
    return answers


def _refusal(problem: Problem) -> web.Response:
    headers = {"WWW-Authenticate": "Bearer"} if problem.status == 401 else {}
    response = web.json_response(problem.shown(), status=problem.status, content_type=CONTENT_TYPE, headers=headers)
    if problem.status in (401, 408):
        response.force_close()  # a stranger keeps no connection, nor does half a question
    return response


def _response(request: web.Request, found: Json) -> web.Response:
    text = json.dumps(found)
    tag = f'"{hashlib.blake2b(text.encode(), digest_size=12).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if request.headers.get("If-None-Match") == tag:
        return web.Response(status=304, headers=headers)
    return web.json_response(text=text, headers=headers)
