"""The admission webhook: AdmissionReview → question → decision → AdmissionReview, and nothing else.

The protocol is that of ``ValidatingWebhookConfiguration`` and ``MutatingWebhookConfiguration``
(https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/). The API server puts the
name of the webhook before the sentence of a refusal.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler

from extauthz.core.intake.admission import API_VERSION, KIND, MAX_REVIEW_BYTES, TRIAL, Review, read_at_once
from extauthz.core.model import Decision, Question, Unreadable, Verdict
from extauthz.core.objects.custom import NO_SHAPES, Shapes
from extauthz.serve.rpc.accepting import Bounds
from extauthz.serve.servers import ext_authz, listener
from extauthz.serve.servers.bodies import Bodies
from extauthz.serve.servers.ext_proc import Lower, Lowered

PATH: Final = "/validate"

MUTATE_PATH: Final = "/mutate"

MAX_HELD_BYTES: Final = 8 * MAX_REVIEW_BYTES
"""Of bodies that are received or read at a time, what has arrived."""

RECEIVED_WITHIN_S: Final = 2.0
"""How long a body may take to come. The API server waits for the answer no longer than this."""

KEPT_ALIVE_S: Final = 120.0
"""How long a connection may be idle. An API server ends it after 90 s, and should be first: what it sends on a
connection that ends meanwhile would be lost."""

BOUNDS: Final = Bounds(connections=1_000, each=600, idle_s=KEPT_ALIVE_S)
"""An API server works on 600 requests at a time, unless told otherwise (``--max-requests-inflight``,
``--max-mutating-requests-inflight``), and asks here about each on a connection of its own."""

LEAVES_S: Final = 1.0
"""How long a stop leaves idle connections open. Those in use end sooner, each with an answer that says so. What an API
server sends on a connection that ends without a word is lost, and the write that it asks about fails."""

TIMEOUT: Final = re.compile(r"([1-9]|[12]\d|30)s", re.ASCII)
"""The query parameter ``timeout``, with which the API server says how long it waits: ``timeoutSeconds`` of its
configuration, 1 to 30."""

REACHED: Final = "a gate was reached"
"""The answer to a trial (``service.reaching``). It is refused, as what is allowed would also pass without a webhook."""

PASSING: Final = frozenset({"too-many-bodies", "not-read"})
"""Why a body was not read, where another try may help."""

Decide: TypeAlias = Callable[[Question], Decision | Awaitable[Decision]]
"""Answers at once, unless something must be fetched first."""

ReadAside: TypeAlias = Callable[[bytes, Shapes, str | None], Awaitable[Review | Unreadable]]
"""Reads a body that takes long, where it holds nobody up. Peers, by their addresses, take turns."""


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
        self._bodies = Bodies(MAX_HELD_BYTES)
        self._shapes = shapes
        self._leaving = False

    def application(self) -> web.Application:
        """To be served over TLS: an API server asks no other webhook."""
        app = web.Application(client_max_size=MAX_REVIEW_BYTES, middlewares=[self._ending])
        app.add_routes([web.post(PATH, self._posted(self.validate))])
        if self._lower is not None:
            app.add_routes([web.post(MUTATE_PATH, self._posted(self.mutate))])
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

    async def read(self, body: bytes, source: str | None = None) -> Review | Unreadable:
        """What a body of a peer says. One that takes long is read where it holds nobody up."""
        review = read_at_once(body, self._shapes)
        return review if review is not None else await self._read_aside(body, self._shapes, source)

    async def validate(self, review: Review | Unreadable) -> web.Response:
        """The answer to an AdmissionReview."""
        if isinstance(review, Unreadable):
            return await self._refused(review)
        if review.question.reading == TRIAL:
            return web.Response(body=orjson.dumps(_tried(review.uid)), content_type="application/json")
        answer = reviewed(review.uid, await self._decided(review.question))
        return web.Response(body=orjson.dumps(answer), content_type="application/json")

    async def mutate(self, review: Review | Unreadable) -> web.Response:
        """The answer of the mutating hook. Decides nothing and charges nothing: the validating hook is asked about what
        this one leaves."""
        assert self._lower is not None, "there is no such hook"
        if isinstance(review, Unreadable):
            return web.Response(text=f"cannot read it: {review.detail}\n", status=_status(review))
        lowered = await self._lower(review.question)
        answer = mutated(review, lowered)
        return web.Response(body=orjson.dumps(answer), content_type="application/json")

    def _posted(self, answer: Callable[[Review | Unreadable], Awaitable[web.Response]]) -> Handler:
        async def handler(request: web.Request) -> web.Response:
            with self._bodies.charged(request) as arrived:
                body = await listener.body(request, MAX_REVIEW_BYTES, RECEIVED_WITHIN_S, arrived)
                review = await self.read(body, request.remote)
            return await answer(_timed(review, request.query.get("timeout", "")))

        return handler

    async def _decided(self, question: Question) -> Decision:
        found = self._decide(question)
        return found if isinstance(found, Decision) else await found

    async def _refused(self, found: Unreadable) -> web.Response:
        """A body that is no AdmissionReview has no uid, so no AdmissionReview can answer it. It is told like any other
        decision."""
        decision = await self._decided(Question(found))
        return web.Response(text=f"{decision.sentence}\n", status=_status(found))


def _timed(review: Review | Unreadable, timeout: str) -> Review | Unreadable:
    """With how long its asker waits, if he says."""
    match = TIMEOUT.fullmatch(timeout)
    if match is None or isinstance(review, Unreadable):
        return review
    return review._replace(question=review.question._replace(timeout_s=float(match[1])))


def _status(found: Unreadable) -> int:
    return 503 if found.code in PASSING else 400


def reviewed(uid: str, decision: Decision) -> dict[str, Any]:
    """The AdmissionReview that carries a decision."""
    response: dict[str, Any] = {"uid": uid, "allowed": decision.verdict is Verdict.ALLOW}
    if decision.verdict is not Verdict.ALLOW:
        response["status"] = ext_authz.fields(decision)
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}


def _tried(uid: str) -> dict[str, Any]:
    """The AdmissionReview that tells a gate that one was reached."""
    response = {"uid": uid, "allowed": False, "status": {"code": 403, "reason": "Forbidden", "message": REACHED}}
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}


def mutated(review: Review, lowered: Lowered | None) -> dict[str, Any]:
    """The AdmissionReview that lowers a count, or leaves the object as it is."""
    response: dict[str, Any] = {"uid": review.uid, "allowed": True}
    if lowered is not None:
        patch = [{"op": "replace", "path": review.count_path, "value": lowered.replicas}]
        encoded = base64.b64encode(orjson.dumps(patch)).decode()
        response |= {"patchType": "JSONPatch", "patch": encoded, "warnings": [lowered.warning]}
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}
