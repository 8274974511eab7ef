"""The way of a write through the simulated API server: worked out, admitted by the webhook, stored, or tried again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from random import Random
from typing import NamedTuple

from extauthz.core.model import Verdict
from extauthz.inputs.kube.connection import ApiError
from tests.worlds import reviews
from tests.worlds.asking import Asking
from tests.worlds.checks import Checks
from tests.worlds.loop import VirtualLoop
from tests.worlds.member import Member
from tests.worlds.objects import Sent
from tests.worlds.reference import ReferenceModel
from tests.worlds.server import ApiServer, Prepared
from tests.worlds.wire import Answer, Question

WEBHOOK_S = 2.0
"""``timeoutSeconds`` of the configuration."""

TRIES = 5
"""How often a write is worked out anew because another one was faster."""

REFUSED_LATER = 0.25
CALL_LOST = 0.15


class Around(NamedTuple):
    """What the API server's admission needs of its world."""

    loop: VirtualLoop
    server: ApiServer
    reference: ReferenceModel
    checks: Checks
    asking: Asking
    tell: Callable[[str], None]
    passed: Callable[[str], None]
    """Told of a decision of the webhook whose version is no longer the last one."""


class Admission:
    """Takes writes. ``asks``: there is a webhook; where it does not answer, growth is refused. ``clamps``: there is a
    mutating one too; where it does not answer, counts stay as they are."""

    def __init__(self, around: Around, faults: frozenset[str], *, asks: bool, clamps: bool) -> None:
        self._around = around
        self._faults = faults
        self._asks = asks
        self._clamps = clamps
        self._uids = count(1)

    async def write(self, sent: Sent, by: str, random: Random, until_s: float) -> int:
        """One request, until it is answered: the status.

        Args:
            by: the decision by which Envoy let it pass; empty: no Envoy has decided it.
            until_s: when the API server gives up.
        """
        request = sent.request
        path, content_type = request.target.partition("?")[0], request.headers.get("content-type", "")
        for _ in range(TRIES):
            try:
                prepared = self._around.server.prepare(request.method, path, sent.body, content_type)
            except ApiError as error:
                return self._told(by, sent, error.status)
            decision = by
            if self._clamps and reviews.may_be_lowered(prepared):
                prepared = await self._lowered(prepared, sent, random, until_s)
            if self._asks and reviews.may_grow(prepared):
                answer = await self._admitted(prepared, sent, random, until_s)
                if answer is None or answer.verdict is not Verdict.ALLOW:
                    return self._told(by, sent, 500 if answer is None else 403)
                decision = answer.id
                if not sent.dry and await self._is_refused_later(decision, random, until_s):
                    return self._told(by, sent, 403)
            if sent.dry or self._is_stored(prepared, decision, by, sent):
                return self._told(by, sent, 200)
            if sent.promise.only_on or sent.promise.creates:
                break
        return self._told(by, sent, 409)

    async def ask(self, sent: Sent, random: Random, member: Member) -> Answer | None:
        """What the webhook of one gate answers to a dry run."""
        request, around = sent.request, self._around
        path, content_type = request.target.partition("?")[0], request.headers.get("content-type", "")
        prepared = around.server.prepare(request.method, path, sent.body, content_type)
        return await around.asking.ask(self._question(prepared, sent), random, WEBHOOK_S, member)

    def _question(self, prepared: Prepared, sent: Sent) -> Question:
        uid = f"review-{next(self._uids)}"
        promise = reviews.promise(prepared, self._around.reference.state(prepared.key, prepared.after))
        return Question(reviews.review(prepared, uid, dry=sent.dry), promise, sent.number, sent.dry, uid)

    def _told(self, by: str, sent: Sent, code: int) -> int:
        self._around.tell(f"api: {by} ({sent.promise.key[1]} to {sent.promise.replicas}) landed: {code}")
        return code

    async def _lowered(self, prepared: Prepared, sent: Sent, random: Random, until_s: float) -> Prepared:
        """The write as the mutating webhook leaves it."""
        around = self._around
        within_s = min(WEBHOOK_S, until_s - around.loop.time())
        count = await around.asking.lower(self._question(prepared, sent), random, within_s)
        if count is None:
            return prepared
        was, wanted = (tree["spec"]["replicas"] for tree in (prepared.before, prepared.after))
        if not was < count < wanted:
            around.checks.broken(
                "a count is lowered, to more than there is", f"{prepared.key}: {was} to {wanted} became {count}"
            )
        return reviews.lowered(prepared, count)

    async def _admitted(self, prepared: Prepared, sent: Sent, random: Random, until_s: float) -> Answer | None:
        """The webhook's answer; ``None``: none."""
        around = self._around
        within_s = min(WEBHOOK_S, until_s - around.loop.time())
        lost = random.random() < CALL_LOST if "webhook-lost" in self._faults else False
        if lost and random.random() < 0.5:
            await asyncio.sleep(within_s)
            return None
        answer = await around.asking.ask(self._question(prepared, sent), random, within_s)
        if lost and answer is not None:
            around.reference.promises.pop(answer.id, None)
            await asyncio.sleep(max(min(WEBHOOK_S, until_s - around.loop.time()), 0.0))
            return None
        return answer

    async def _is_refused_later(self, decision: str, random: Random, until_s: float) -> bool:
        """Other webhooks and ResourceQuotas come after ours, and take their time."""
        around = self._around
        after_s = random.choice((0.0, 0.005, 0.05, 0.5)) * random.random()
        if "late" in self._faults and random.random() < 0.2:
            after_s = random.random() * (until_s - around.loop.time())
        await asyncio.sleep(after_s)
        refused = "refused-later" in self._faults and random.random() < REFUSED_LATER
        if refused or around.loop.time() > until_s:
            around.reference.promises.pop(decision, None)
            around.tell(f"api: {decision} was refused after it was admitted")
            return True
        return False

    def _is_stored(self, prepared: Prepared, decision: str, by: str, sent: Sent) -> bool:
        """False: another write was faster."""
        around = self._around
        around.reference.promises.pop(decision, None)
        before, reachable = around.reference.workloads(), around.reference.reachable()
        try:
            around.server.store(prepared)
        except ApiError:
            if prepared.before is not None:  # what somebody else has made may be deleted, and then a create lands
                around.passed(decision)
            return False
        around.reference.promises.pop(by, None)
        if decision:
            promise = sent.promise
            if decision != by:
                promise = reviews.promise(prepared, around.reference.state(prepared.key, prepared.after))
                around.passed(decision)
            around.checks.landed(before, around.reference.workloads(), promise, decision)
        elif not self._asks:  # Envoy let it pass undecided
            now_s, version = around.loop.time(), around.server.version
            around.checks.grew_ungated(now_s, version, reachable, around.reference.reachable())
        return True
