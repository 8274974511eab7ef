"""The admission webhook: AdmissionReview → question → decision → AdmissionReview, and nothing else.

The protocol is that of ``ValidatingWebhookConfiguration`` and ``MutatingWebhookConfiguration``
(https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/). The API server puts the
name of the webhook before the sentence of a refusal.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol, TypeAlias

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler

from extauthz.core.intake.admission import API_VERSION, KIND, MAX_REVIEW_BYTES, Review, read_at_once
from extauthz.core.model import Decision, Question, Unreadable, Verdict
from extauthz.core.objects.custom import NO_SHAPES, Shapes
from extauthz.servers import status
from extauthz.servers.lowering import Lower, Lowered

PATH: Final = "/validate"

MUTATE_PATH: Final = "/mutate"

MAX_HELD_BYTES: Final = 8 * MAX_REVIEW_BYTES
"""Bodies that are received or read at a time."""

RECEIVED_WITHIN_S: Final = 2.0
"""How long a body may take to come. The API server waits for the answer no longer than this."""

KEPT_ALIVE_S: Final = 120.0
"""How long a connection may be idle. An API server ends it after 90 s, and should be first: what it sends on a
connection that ends meanwhile would be lost."""

LEAVES_S: Final = 1.0
"""How long a stop leaves idle connections open. Those in use end sooner, each with an answer that says so. What an API
server sends on a connection that ends without a word is lost, and the write that it asks about fails."""

PASSING: Final = frozenset({"too-many-bodies", "not-read"})
"""Why a body was not read, where another try may help."""

Decide: TypeAlias = Callable[[Question], Decision | Awaitable[Decision]]
"""Answers at once, unless something must be fetched first."""

ReadAside: TypeAlias = Callable[[bytes, Shapes, str | None], Awaitable[Review | Unreadable]]
"""Reads a body that takes long, where it holds nobody up. Peers, by their addresses, take turns."""


class Posted(Protocol):
    """What of an HTTP request is looked at."""

    @property
    def content_length(self) -> int | None:
        """As the header has it."""

    @property
    def remote(self) -> str | None:
        """The peer's address."""

    async def read(self) -> bytes:
        """The body, once it has come."""


class Webhook:
    """The server.

    Args:
        decide: must neither block nor raise.
        lower: what the mutating hook asks; ``None``: there is no such hook.
        shapes: of the custom resources whose objects are read. It is looked at with each review.
    """

    def __init__(
        self, decide: Decide, read_aside: ReadAside, lower: Lower | None = None, shapes: Shapes = NO_SHAPES
    ) -> None:
        self._decide = decide
        self._read_aside = read_aside
        self._lower = lower
        self._shapes = shapes
        self._held = 0
        self._leaving = False

    def application(self) -> web.Application:
        """To be served over TLS: an API server asks no other webhook."""
        app = web.Application(client_max_size=MAX_REVIEW_BYTES, middlewares=[self._ending])
        app.add_routes([web.post(PATH, self.validate)])
        if self._lower is not None:
            app.add_routes([web.post(MUTATE_PATH, self.mutate)])
        return app

    async def leave(self, runner: web.AppRunner) -> None:
        """Stop: each connection ends after its next answer, and one that nobody uses a moment later."""
        self._leaving = True
        await asyncio.sleep(LEAVES_S)
        await runner.cleanup()

    @web.middleware
    async def _ending(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await handler(request)
        if self._leaving:
            response.force_close()
        return response

    async def validate(self, request: Posted) -> web.Response:
        """The answer to an AdmissionReview."""
        review = await self._review(request)
        if isinstance(review, Unreadable):
            return await self._refused(review)
        answer = reviewed(review.uid, await self._decided(review.question))
        return web.Response(body=orjson.dumps(answer), content_type="application/json")

    async def mutate(self, request: Posted) -> web.Response:
        """The answer of the mutating hook. Decides nothing and charges nothing: the validating hook is asked about what
        this one leaves."""
        assert self._lower is not None, "there is no such hook"
        review = await self._review(request)
        if isinstance(review, Unreadable):
            return web.Response(text=f"cannot read it: {review.detail}\n", status=_status(review))
        lowered = await self._lower.review(review.question)
        answer = mutated(review, lowered)
        return web.Response(body=orjson.dumps(answer), content_type="application/json")

    async def _review(self, request: Posted) -> Review | Unreadable:
        with self._holding(request.content_length):
            try:
                async with asyncio.timeout(RECEIVED_WITHIN_S):
                    body = await request.read()
            except TimeoutError:
                raise web.HTTPRequestTimeout(text=f"the body took more than {RECEIVED_WITHIN_S:g} s\n") from None
            review = read_at_once(body, self._shapes)
            return review if review is not None else await self._read_aside(body, self._shapes, request.remote)

    @contextmanager
    def _holding(self, size: int | None) -> Iterator[None]:
        """Bounds what all bodies take together."""
        if size is None:
            raise web.HTTPLengthRequired(text="send content-length, as an API server does\n")
        if size > MAX_REVIEW_BYTES:
            raise web.HTTPRequestEntityTooLarge(MAX_REVIEW_BYTES, size)
        if self._held + size > MAX_HELD_BYTES:
            raise web.HTTPServiceUnavailable(text="too many bodies are being read; try again in a second\n")
        self._held += size
        try:
            yield
        finally:
            self._held -= size

    async def _decided(self, question: Question) -> Decision:
        found = self._decide(question)
        return found if isinstance(found, Decision) else await found

    async def _refused(self, found: Unreadable) -> web.Response:
        """A body that is no AdmissionReview has no uid, so no AdmissionReview can answer it. It is told like any other
        decision."""
        decision = await self._decided(Question(found))
        return web.Response(text=f"{decision.sentence}\n", status=_status(found))


def _status(found: Unreadable) -> int:
    return 503 if found.code in PASSING else 400


def reviewed(uid: str, decision: Decision) -> dict[str, Any]:
    """The AdmissionReview that carries a decision."""
    response: dict[str, Any] = {"uid": uid, "allowed": decision.verdict is Verdict.ALLOW}
    if decision.verdict is not Verdict.ALLOW:
        response["status"] = status.fields(decision)
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}


def mutated(review: Review, lowered: Lowered | None) -> dict[str, Any]:
    """The AdmissionReview that lowers a count, or leaves the object as it is."""
    response: dict[str, Any] = {"uid": review.uid, "allowed": True}
    if lowered is not None:
        patch = [{"op": "replace", "path": review.count_path, "value": lowered.replicas}]
        encoded = base64.b64encode(orjson.dumps(patch)).decode()
        response |= {"patchType": "JSONPatch", "patch": encoded, "warnings": [lowered.warning]}
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}
