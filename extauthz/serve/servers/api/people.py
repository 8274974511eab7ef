"""Who asks the API from elsewhere, and what they may see: the API server says both.

A client certificate names user and groups as the API server reads it (CN and O). A bearer token is judged by a
TokenReview. What somebody may ``get`` is judged by SubjectAccessReviews. Answers are kept for a short while. Of a token
only a keyed hash is kept, and nothing of it is logged.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import Awaitable, Callable, Container, Hashable, Iterable
from itertools import islice
from typing import Any, Final, Generic, TypeAlias, TypeVar

from aiohttp import web
from cachetools import TTLCache

from extauthz.core.texts import Tell
from extauthz.inputs.kube.connection import ApiError, Unreachable
from extauthz.inputs.kube.resource import Calls
from extauthz.inputs.kube.reviews import Person, Target, may, person_of
from extauthz.serve.rpc.places import FullError, Turns
from extauthz.serve.servers.api.rights import ALL, Problem, Rights, Scope

KEPT_S: Final = 30.0
"""How long a good answer of the API server is used: so long a revoked right may last."""

REFUSED_KEPT_S: Final = 10.0
"""The same of a bad one."""

AT_ONCE: Final = 8
"""Reviews of each sort that are under way."""

MOST_STRANGERS: Final = 64
"""Tokens that wait to be judged. Addresses take turns; whose has most of them is told to come again."""

MOST_RIGHTS: Final = 4_000
"""Rights that wait to be judged. The same by persons."""

MOST_KEPT: Final = 10_000
"""Answers that are kept, of each sort."""

MOST_JUDGED: Final = 1_000
"""Names that one question may have judged one by one."""

EVERYBODY: Final = "system:authenticated"
"""The group that an API server adds to everybody whom it knows."""

BEARER: Final = "bearer "

COOKIE: Final = "__Host-extauthz"
"""Where a browser keeps a token that its person has shown to the page. A browser takes one of that name over HTTPS
alone, and sends it to this host alone
(https://developer.mozilla.org/en-US/docs/Web/HTTP/Reference/Headers/Set-Cookie#cookie_prefixes)."""

Found = TypeVar("Found")

Covers: TypeAlias = Callable[[str], Iterable[str]]


class Judgements(Generic[Found]):
    """Answers of one sort: asked for once at a time, a few at once, and kept.

    Good and bad ones are kept apart, so that strangers push no good one out.
    """

    def __init__(self, waiting: int, clock: Callable[[], float]) -> None:
        self._good: TTLCache[Hashable, Found] = TTLCache(MOST_KEPT, KEPT_S, clock)
        self._bad: TTLCache[Hashable, Found] = TTLCache(MOST_KEPT, REFUSED_KEPT_S, clock)
        self._under_way: dict[Hashable, asyncio.Task[Found]] = {}
        self._turns = Turns(waiting, AT_ONCE)

    async def get(self, key: Hashable, peer: Hashable, ask: Callable[[], Awaitable[Found]]) -> Found:
        """The answer for ``key``. Raises Problem where too many wait and most are this peer's, and what ``ask``
        raises."""
        for kept in (self._good, self._bad):
            if key in kept:
                return kept[key]
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.create_task(self._asked(key, peer, ask))
            task.add_done_callback(lambda done: self._done(key, done))
        return await asyncio.shield(task)  # whoever leaves must not take it from the others

    async def _asked(self, key: Hashable, peer: Hashable, ask: Callable[[], Awaitable[Found]]) -> Found:
        try:
            await self._turns.enter(peer)
        except FullError:
            raise Problem(503, "too many wait to be judged; try again in a few seconds") from None
        try:
            found = await ask()
        finally:
            self._turns.leave()
        (self._good if found else self._bad)[key] = found
        return found

    def _done(self, key: Hashable, task: asyncio.Task[Found]) -> None:
        del self._under_way[key]
        if not task.cancelled():
            task.exception()  # it was told to whoever still waits


class PersonalRights:
    """What one person may see."""

    def __init__(self, person: Person, judged: Callable[[Person, Target], Awaitable[bool]], covers: Covers) -> None:
        self.person = person
        self.name: str | None = person.user
        self._judged = judged
        self._covers = covers

    async def visible(self, kind: Scope, names: Iterable[str]) -> Container[str]:
        """Those of ``names`` that they may get. Raises Problem."""
        if await self._judged(self.person, _target(kind, "")):
            return ALL
        wanted = list(islice(dict.fromkeys(names), MOST_JUDGED + 1))
        if len(wanted) > MOST_JUDGED:
            raise Problem(
                403,
                f"you may not get every {kind.value}, and this asks about more than {MOST_JUDGED} of them; ask about "
                "one quota that you may get, such as ?below=NAME or ?quota=NAME",
            )
        allowed = await asyncio.gather(*(self._judged(self.person, _target(kind, name)) for name in wanted))
        found = {name for name, is_allowed in zip(wanted, allowed, strict=True) if is_allowed}
        if kind is Scope.QUOTA:
            found |= await self._by_namespace([name for name in wanted if name not in found])
        return frozenset(found)

    async def _by_namespace(self, quotas: list[str]) -> set[str]:
        """Those that cover a namespace in which they may get quotas: an owner's RoleBinding to ``view`` is enough."""
        asked = islice(((quota, name) for quota in quotas for name in self._covers(quota)), MOST_JUDGED)
        pairs = list(asked)
        targets = [_target(Scope.QUOTA, quota)._replace(namespace=name) for quota, name in pairs]
        allowed = await asyncio.gather(*(self._judged(self.person, target) for target in targets))
        return {quota for (quota, _), is_allowed in zip(pairs, allowed, strict=True) if is_allowed}


class People:
    """Lets in whom the API server knows.

    Args:
        calls: to the API server.
        tell: told of each question: who, what, and the status of the answer.
        audience: whom tokens must be for; empty: the API server.
        covers: the namespaces that a quota itself selects.
    """

    def __init__(
        self,
        calls: Calls,
        tell: Tell,
        clock: Callable[[], float] = time.monotonic,
        audience: str = "",
        covers: Covers = lambda _: (),
    ) -> None:
        self._calls = calls
        self._audience = audience
        self._covers = covers
        self._tell = tell
        self._clock = clock
        self._secret = secrets.token_bytes(32)
        self._persons: Judgements[Person | None] = Judgements(MOST_STRANGERS, clock)
        self._rights: Judgements[bool] = Judgements(MOST_RIGHTS, clock)
        self._strangers = 0
        self._told_s = -1.0
        self._away = False

    async def rights(self, request: web.Request) -> Rights:
        person = _by_certificate(request) or await self._by_token(request)
        if person is None:
            raise Problem(401, "show a bearer token that the API server takes, or a client certificate")
        return PersonalRights(person, self._judged, self._covers)

    def answered(self, request: web.Request, rights: Rights | None, status: int) -> None:
        """A line in the log; of strangers one a second at most, so that they cannot fill it."""
        if isinstance(rights, PersonalRights):
            user = rights.person.user
            self._tell("info", "api", user=user, method=request.method, path=request.path, status=status)
            return
        self._strangers += 1
        if self._clock() >= self._told_s + 1 or self._told_s < 0:
            self._told_s = self._clock()
            times, self._strangers = self._strangers, 0
            self._tell("warning", "api-refused", peer=request.remote, path=request.path, status=status, times=times)

    async def _by_token(self, request: web.Request) -> Person | None:
        given = request.headers.get("Authorization", BEARER + request.cookies.get(COOKIE, ""))
        token = given[len(BEARER) :].strip()
        if not given.lower().startswith(BEARER) or not token or not token.isascii():
            return None
        key = hashlib.blake2b(token.encode(), key=self._secret, digest_size=32).digest()
        return await self._persons.get(
            key, request.remote, lambda: self._sure(person_of(self._calls, token, self._audience))
        )

    async def _judged(self, person: Person, target: Target) -> bool:
        return await self._rights.get((person, target), person, lambda: self._sure(may(self._calls, person, target)))

    async def _sure(self, asking: Awaitable[Any]) -> Any:  # noqa: ANN401 (whatever was asked)
        """The answer. Raises Problem while the API server gives none."""
        try:
            found = await asking
        except (ApiError, Unreachable) as error:
            if not self._away:
                self._tell("error", "api-not-judged", why=str(error))
            self._away = True
            raise Problem(503, "nobody can be judged now: the API server gives no answer; try again later") from None
        if self._away:
            self._away = False
            self._tell("info", "api-judged")
        return found


def _by_certificate(request: web.Request) -> Person | None:
    """As the API server reads it: the last CN is the user, each O is a group. TLS has verified it."""
    shown = request.transport.get_extra_info("peercert") if request.transport is not None else None
    names = [pair for rdn in (shown or {}).get("subject", ()) for pair in rdn]
    users = [value for key, value in names if key == "commonName" and value]
    if not users:
        return None
    groups = dict.fromkeys(value for key, value in names if key == "organizationName")
    return Person(users[-1], (*groups, EVERYBODY))


def _target(kind: Scope, name: str) -> Target:
    if kind is Scope.QUOTA:
        return Target("extauthz.dev", "workspacequotas", name)
    return Target("", "namespaces", name, name)
