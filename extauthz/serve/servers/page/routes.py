"""The page's paths: whole pages, files beside them, and streams. The API's ``Access`` says who may see what."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qs

from aiohttp import web

from extauthz.serve.servers import listener
from extauthz.serve.servers.api.people import COOKIE
from extauthz.serve.servers.api.rights import Access, Problem, Rights
from extauthz.serve.servers.api.routes import Asked, Known, known_answers
from extauthz.serve.servers.bodies import Share
from extauthz.serve.servers.page import live, quota, rendering, tree, workload
from extauthz.serve.servers.page.live import Client, Knowledge, Streams, digest
from extauthz.serve.servers.page.rendering import HEADERS, KEPT, Look, Templates, files

LOOKS: Final[dict[str, Look]] = {
    rendering.HOME: tree.look,
    rendering.QUOTA: quota.look,
    rendering.WORKLOAD: workload.look,
}

LIVE: Final = "<!-- live -->"
"""Where the part that lives is put into a page. No value can be that: each is escaped."""

MOST_OF_A_TOKEN: Final = 3_800
"""Characters. A browser keeps a cookie of 4,096 bytes, with its name and attributes (RFC 6265 §6.1)."""

TOKEN: Final = re.compile(rf"(?=.{{1,{MOST_OF_A_TOKEN}}}\Z)[A-Za-z0-9._~+/-]+=*")
"""As RFC 6750 §2.1 has it. A cookie takes all these characters."""

MOST_OF_A_FORM: Final = 3 * MOST_OF_A_TOKEN + 100
"""Bytes. A form may spell a character with three."""

FORM_WITHIN_S: Final = 5.0

KEPT_S: Final = 3_600
"""As long as a token of ``kubectl create token`` is good."""

OWN_SITE: Final = "same-origin"

Handler = Callable[[web.Request, Rights], Awaitable[web.StreamResponse]]


class Page:
    """All paths of the page, for those whom ``access`` lets in.

    Args:
        known: what is known; ``None``: the gate is still reading.
        knowledge: what the gate says of itself.
        clock: seconds since the epoch.
        signs_in: a person may show a bearer token by a form.
    """

    def __init__(
        self,
        known: Known,
        access: Access,
        knowledge: Callable[[], Knowledge],
        clock: Callable[[], float] = time.time,
        *,
        signs_in: bool = False,
    ) -> None:
        self._known = known
        self._access = access
        self._knowledge = knowledge
        self._clock = clock
        self._static = files()
        self._signs_in = signs_in
        self._share = Share()
        self._streams = Streams()
        self._templates = Templates(self._static)

    def add_to(self, app: web.Application) -> None:
        """Serve it there, and end its streams when that ends: they would hold up a stop."""
        app.add_routes(self.routes())

        async def leave(_: web.Application) -> None:
            await self._streams.leave()

        app.on_shutdown.append(leave)

    def routes(self) -> list[web.RouteDef]:
        pages = [web.get(path, self._guarded(self._page_of(look))) for path, look in LOOKS.items()]
        streams = [
            web.get(rendering.STREAM + path, self._guarded(self._stream_of(look)), allow_head=False)
            for path, look in LOOKS.items()
        ]
        forms = [web.post(path, self._sign_in) for path in LOOKS if self._signs_in]
        return [*pages, *forms, *streams, web.get(rendering.STATIC, self._guarded(self._file))]

    def _guarded(self, handler: Handler) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def guarded(request: web.Request) -> web.StreamResponse:
            rights: Rights | None = None
            try:
                rights = await self._access.rights(request)
                return await handler(request, rights)
            except Problem as problem:
                self._access.answered(request, rights, problem.status)
                return await self._problem(problem)

        return guarded

    async def _problem(self, problem: Problem) -> web.Response:
        shown = {**problem.shown(), "signs_in": self._signs_in}
        return self._html(await self._templates.write("problem", shown), problem.status)

    async def _sign_in(self, request: web.Request) -> web.Response:
        """Have the browser keep a token, and show it with each question, which then is judged as a header would be.

        The cookie needs no guard against requests of other sites: a browser sends it with none of theirs (``Strict``),
        and whatever is asked changes nothing. No script can read it (``HttpOnly``). Cookies know no ports (RFC 6265
        §8.5): each server of this host name is sent it.
        """
        # Its Origin is null, as the page sends no referrer (Fetch, "append a request Origin header").
        if request.headers.get("Sec-Fetch-Site", OWN_SITE) != OWN_SITE:
            return await self._not_taken(request, Problem(403, "the page takes a token from its own form alone"))
        sent = await listener.body(request, MOST_OF_A_FORM, FORM_WITHIN_S)
        token = parse_qs(sent.decode("ascii", "replace")).get("token", [""])[0].strip()
        if not TOKEN.fullmatch(token):
            why = f"that is no bearer token of at most {MOST_OF_A_TOKEN} characters"
            return await self._not_taken(request, Problem(401, why))
        response = web.Response(status=303, headers=HEADERS | {"Location": str(request.rel_url)})
        response.set_cookie(COOKIE, token, path="/", max_age=KEPT_S, secure=True, httponly=True, samesite="Strict")
        return response

    async def _not_taken(self, request: web.Request, problem: Problem) -> web.Response:
        self._access.answered(request, None, problem.status)
        return await self._problem(problem)

    def _page_of(self, look: Look) -> Handler:
        async def page(request: web.Request, rights: Rights) -> web.StreamResponse:
            template, context = await self._view(look, request, rights)
            part = await self._templates.write(f"{template}.live", context)
            query = {**request.query, "seen": digest(part)}
            stream = rendering.with_query(rendering.STREAM + request.rel_url.raw_path, query)
            self._access.answered(request, rights, 200)
            return self._html(
                (await self._templates.write(template, {**context, "stream": stream})).replace(LIVE, part)
            )

        return page

    def _stream_of(self, look: Look) -> Handler:
        async def stream(request: web.Request, rights: Rights) -> web.StreamResponse:
            async def write() -> str:
                now = await self._access.rights(request)  # they may have been taken away meanwhile
                template, context = await self._view(look, request, now)
                return await self._templates.write(f"{template}.live", context)

            person = rights.name
            self._streams.admit(person)
            await self._view(look, request, rights)
            headers = HEADERS | {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
            response = web.StreamResponse(headers=headers)
            self._access.answered(request, rights, 200)
            await response.prepare(request)
            client = Client(response.write, lambda: request.transport is None)
            await self._streams.follow(client, person, request.query.get("seen", ""), write)
            return response

        return stream

    async def _view(self, look: Look, request: web.Request, rights: Rights) -> tuple[str, Mapping[str, Any]]:
        now_s = self._clock()
        view = await look(self._asked(request, rights), now_s)
        said = await live.shown(self._knowledge(), rights)
        return view.template, {"title": view.title, "now_s": now_s, "knows": said, **view.context}

    def _asked(self, request: web.Request, rights: Rights) -> Asked:
        return Asked(known_answers(self._known), rights, request, self._share)

    async def _file(self, request: web.Request, rights: Rights) -> web.StreamResponse:
        found = self._static.get(request.match_info["file"])
        if found is None:
            raise Problem(404, "there is no such file")
        headers = HEADERS | {"ETag": f'"{found.tag}"', "Cache-Control": KEPT}
        return web.Response(body=found.body, content_type=found.content_type, charset="utf-8", headers=headers)

    def _html(self, text: str, status: int = 200) -> web.Response:
        return web.Response(text=text, content_type="text/html", charset="utf-8", headers=HEADERS, status=status)
