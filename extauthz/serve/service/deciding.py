"""The request path: it gives the pure gate an id and the time, fetches what answers need, and tells the observers. In
mode Clamp it asks the gate what to send in place of a write that does not fit."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar

from extauthz.core import texts
from extauthz.core.decision import sentences
from extauthz.core.decision.gate import Gate, audited
from extauthz.core.intake.counts import read
from extauthz.core.intake.rewritten import rewritten
from extauthz.core.model import (
    COMMIT,
    Decision,
    Fetch,
    Held,
    Lower,
    NeedsFetch,
    Question,
    Reading,
    Refusal,
    Request,
    Requester,
    Verdict,
)
from extauthz.core.quota.selectors import by_name
from extauthz.serve.servers.ext_proc import Lowered
from extauthz.serve.service.ids import new_id
from extauthz.serve.service.inputs import Look
from extauthz.tell.observe.observers import Observers, Report

Commit: TypeAlias = Callable[[Reading, str, Decision, Requester | None, float | None], Awaitable[Decision]]
"""Takes a write, its source, a decision that would grant it, who asks, and how long he still waits, in seconds, if that
is known. Returns a grant that every gate knows, or a refusal."""

A = TypeVar("A", bound=Decision | None)

INTERNAL_ERROR = "internal-error"

LOOK_WITHIN_S = 1.0
"""Half of Envoy's ext_authz timeout as ``extauthz render`` sets it."""

NOTHING: Final[Mapping[Fetch, Look]] = MappingProxyType({})


@dataclass(slots=True)
class Underway:
    request: Request | None
    """``None``: its server has read it."""
    id: str
    started_s: float
    source: str
    reading: Reading | None = None
    """``None``: it was not read yet."""
    user_agent: str = ""
    user: str = ""
    requester: Requester | None = None
    timeout_s: float | None = None
    """How long its asker waits. ``None``: not known."""


class _Later:
    """A decision that waits for something. Nothing begins before it is awaited: its caller may have left by then."""

    def __init__(self, begin: Callable[[], Coroutine[Any, Any, Decision]]) -> None:
        self._begin = begin

    def __await__(self) -> Generator[Any, None, Decision]:
        return self._begin().__await__()


class Deciding:
    """Callable by every server. Never raises, and waits only to fetch what a decision needs, and for other gates to
    agree: what goes wrong inside is an answer too.

    Args:
        gate: the decision engine.
        observers: told of each decision, once its answer has left.
        event: a line for the log: level, name and fields; with the traceback where we are at fault.
        fetch: brings what a decision may need, in the order in which it may need it.
        commit: agrees with other gates upon a grant that is in memory so far; ``None``: there are none.
        audits: nothing is refused, whatever goes wrong.
        clock: seconds, monotonic.
        ids: makes an id for each decision.
        read: what a request means.
        note: takes a decision, what the request means, user and user agent at once, in the order of all changes;
            ``None``: nobody does.
    """

    def __init__(
        self,
        gate: Gate,
        observers: Observers,
        event: Callable[..., None],
        *,
        fetch: Mapping[Fetch, Look] = NOTHING,
        commit: Commit | None = None,
        audits: bool = False,
        clock: Callable[[], float] = time.monotonic,
        ids: Callable[[], str] = new_id,
        read: Callable[[Request], Reading] = read,
        note: Callable[[Decision, Reading | None, str, str], None] | None = None,
    ) -> None:
        self._gate = gate
        self._observers = observers
        self.event = event
        self._fetch = fetch
        self._commit = commit
        self._audits = audits
        self.clock = clock
        self._new_id = ids
        self._read = read
        self._note = note

    def __call__(self, question: Request | Question) -> Decision | Awaitable[Decision]:
        """The decision. If it waits for something: what to await for it."""
        asked = self.asked(question)
        decision = self._decide(asked)
        todo = decision.todo
        if (isinstance(todo, NeedsFetch) and todo.what in self._fetch) or self._must_commit(decision):
            return _Later(lambda: self._finished(asked, decision))
        return self._answered(decision, asked)

    def asked(self, question: Request | Question) -> Underway:
        """A question on its way, with an id of its own."""
        started_s = self.clock()
        if isinstance(question, Question):
            user = question.user
            who, timeout_s = question.requester, question.timeout_s
            return Underway(None, self._new_id(), started_s, user, question.reading, "", user, who, timeout_s)
        agent, user, timeout_s = question.headers.get("user-agent", ""), question.requester, question.timeout_s
        who = by_name(user) if user else None
        return Underway(question, self._new_id(), started_s, question.source, None, agent, user, who, timeout_s)

    async def _finished(self, asked: Underway, decision: Decision) -> Decision:
        """The end of a decision that waits for something. So far nothing was recorded or reported."""
        try:
            decision = await self.fetched(decision, lambda: self._decide(asked))
            if self._must_commit(decision):
                assert self._commit is not None
                assert asked.reading is not None
                left_s = asked.timeout_s
                if left_s is not None:
                    left_s -= self.clock() - asked.started_s
                decision = await self._commit(asked.reading, asked.source, decision, asked.requester, left_s)
        except Exception:  # noqa: BLE001 (as in _decide)
            decision = self._failed(asked.id)
        return self._answered(decision, asked)

    def _answered(self, decision: Decision, asked: Underway) -> Decision:
        if self._gate.ledger.coverage.tree.has_turns:
            self._gate.answered(decision, self.clock())
        return self.tell(decision, asked)

    async def fetched(self, answer: A, again: Callable[[], A]) -> A:
        """The answer, given ``again`` whenever something was fetched that it needed."""
        for what, fetch in self._fetch.items():
            if answer is not None and isinstance(answer.todo, NeedsFetch) and answer.todo.what is what:
                await fetch(answer.todo)
                answer = again()
        return answer

    def reading(self, asked: Underway) -> Reading:
        """What it means. It is read once."""
        if asked.reading is None:
            assert asked.request is not None
            asked.reading = self._read(asked.request)
        return asked.reading

    def _must_commit(self, decision: Decision) -> bool:
        """Whether other gates must know of it first. Of a write that no quota may refuse they are told afterwards."""
        return self._commit is not None and decision.todo is COMMIT and not decision.evidence.afterwards

    def _decide(self, asked: Underway) -> Decision:
        """Record a grant at once, unless other gates must agree."""
        try:
            decision = self._decided(asked, charge=self._commit is None)
            if self._commit is not None and decision.todo is COMMIT and decision.evidence.afterwards:
                decision = self._decided(asked, charge=True)
        except Exception:  # noqa: BLE001 (whatever it is, the request must be refused by name and not by a broken call)
            return self._failed(asked.id)
        return decision

    def _decided(self, asked: Underway, *, charge: bool) -> Decision:
        now_s = self.clock()
        return self._gate.decide(
            self.reading(asked), asked.id, now_s, source=asked.source, charge=charge, requester=asked.requester
        )

    def tell(self, decision: Decision, asked: Underway) -> Decision:
        """Have the observers told of it, once the answer has left. They may keep what it returns."""
        held = None
        if isinstance(decision.todo, Held):
            held, decision = decision.todo.growth, decision._replace(todo=None)
        if self._note is not None:
            self._note(decision, asked.reading, asked.user, asked.user_agent)
        self._observers.put(Report(decision, asked.user, asked.user_agent, self.clock() - asked.started_s, held))
        return decision

    def _failed(self, decision_id: str) -> Decision:
        self.event("error", INTERNAL_ERROR, id=decision_id, traceback=traceback.format_exc())
        sentence = f"this write was not decided: the quota gate failed (decision {decision_id}); its log says why"
        failed = Decision(decision_id, Verdict.UNAVAILABLE, INTERNAL_ERROR, sentence)
        if self._audits:
            return audited(failed)
        return audited(failed, "all quotas only audit") if self._gate.ledger.coverage.tree.audits else failed


def briefly(look: Look) -> Look:
    """``look``, for as long as Envoy can wait. If it takes longer, the write is decided on what is known."""

    async def look_briefly(needs: NeedsFetch) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_WITHIN_S):
                await look(needs)

    return look_briefly


MAX_WARNING: Final = 120
"""Characters. An API server passes on more, and advises against it."""


class Clamping:
    """Answers servers that can change a write. Never raises: where anything goes wrong, the write stays as it is.

    Args:
        deciding: brings questions to the gate, and tells observers of each write that is lowered.
        is_terse: clients learn no name of a quota.
    """

    def __init__(self, gate: Gate, deciding: Deciding, *, is_terse: bool) -> None:
        self._gate = gate
        self._deciding = deciding
        self._is_terse = is_terse
        self.asked = False
        """Somebody has."""

    async def __call__(self, question: Request | Question) -> Lowered | None:
        """The count, and the body where there is one, to send or store in place of what came; ``None``: leave it as it
        is."""
        self.asked = True
        try:
            asked = self._deciding.asked(question)
            found = await self._deciding.fetched(self._clamped(asked), lambda: self._clamped(asked))
            if found is None or not isinstance(found.todo, Lower):
                return None
            count, version = found.todo
            body = rewritten(question, count, version) if isinstance(question, Request) else b""
            if body is None:
                return None
            self._deciding.tell(found, asked)
            return Lowered(count, self._warning(found, count), body)
        except Exception:  # noqa: BLE001 (whatever it is, the write goes on to be decided)
            self._deciding.event("error", "clamp-failed", traceback=traceback.format_exc())
            return None

    def _clamped(self, asked: Underway) -> Decision | None:
        reading, now_s = self._deciding.reading(asked), self._deciding.clock()
        return self._gate.clamp(reading, asked.id, now_s, source=asked.source, requester=asked.requester)

    def _warning(self, found: Decision, count: int) -> str:
        what = f"replicas lowered from {found.replicas} to {count}: "
        turn = found.evidence.turn
        if self._is_terse:
            why = "others come first in a workspace quota" if turn is not None else "a workspace quota has no more room"
            return f"{what}{why} (decision {found.id})"
        if turn is not None:
            return texts.cut(what + sentences.in_line(turn), MAX_WARNING)
        short = found.evidence.shortages[0]
        for_it = " for it now" if found.evidence.places else ""  # what is left may be kept for who comes first
        return texts.cut(f"{what}no more {short.resource} in workspace quota {short.quota}{for_it}", MAX_WARNING)


Asked = TypeVar("Asked")

WHY = {
    Verdict.DENY: "is forbidden: exceeded a workspace quota",
    Verdict.UNAVAILABLE: "was not decided by the quota gate; it is safe to try again",
}

BY_POLICY = "is forbidden by a policy"
"""In place of its message."""

NOT_YET = "is forbidden: its turn for a workspace quota has not come"
"""In place of how many come first."""

UNSPECIFIED = "is forbidden: its containers must specify what a workspace quota limits"
"""In place of ``must specify requests.cpu for: c``."""


def terse(
    decide: Callable[[Asked], Decision | Awaitable[Decision]],
) -> Callable[[Asked], Decision | Awaitable[Decision]]:
    """The same decisions, with sentences that only the id leads further from: the log has it."""

    def decided(asked: Asked) -> Decision | Awaitable[Decision]:
        found = decide(asked)
        return shortened(found) if isinstance(found, Decision) else _later(found)

    return decided


async def _later(found: Awaitable[Decision]) -> Decision:
    return shortened(await found)


def shortened(decision: Decision) -> Decision:
    """With the terse sentence if it is a refusal. The rest of it stays, which no client sees."""
    is_silent = decision.verdict is Verdict.DENY and decision.evidence.unspecified
    why = UNSPECIFIED if is_silent else WHY.get(decision.verdict)
    if decision.refusal in (Refusal.FORBIDDEN_BY_POLICY, Refusal.HELD_BY_POLICY) and why is not None:
        why = BY_POLICY
    if decision.verdict is Verdict.DENY and decision.evidence.turn is not None:
        why = NOT_YET
    if why is None:
        return decision
    who = "this write" if decision.ref is None else texts.cut(sentences.subject(decision.ref), texts.MAX_NAME)
    return decision._replace(sentence=f"{who} {why} (decision {decision.id})")
