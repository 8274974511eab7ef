"""The way of an answer: what is heard of a request ends its pending write, or has its workload read."""

from __future__ import annotations

import pytest

from extauthz.core.ledger.pending_write import Event
from extauthz.core.model import Verdict, WorkloadRef
from extauthz.settlement.answers import Fate, Settlement
from extauthz.settlement.reads import Brought, ConsistentReads, Result
from extauthz.testing.builders import Asker, gate, quota, scale, workload

WEB = WorkloadRef("apps", "deployments", "team-a", "web")
WINDOW_S = 90.0


class Told:
    """A gate with one pending write, and what its settlement does."""

    def __init__(self, *, reads: bool = True) -> None:
        self.ask = Asker(gate([quota("acme", {"pods": "9"})], workload("web", 2)))
        self.now_s = 10.0
        self.heard: list[Event] = []
        self.read: list[WorkloadRef] = []
        self.pending = self.ask.gate.ledger.pending
        self.settlement = Settlement(self.pending, self.heard.append, lambda: self.now_s)
        if reads:
            self.settlement.reads = ConsistentReads(self._bring, self.pending, lambda *_: None, lambda: self.now_s)
        granted = self.ask(scale("web", 5))
        assert granted.verdict is Verdict.ALLOW
        self.id = granted.id

    async def _bring(self, ref: WorkloadRef) -> Brought:
        self.read.append(ref)
        return Brought(Result.OK, True)

    def hear(self, code: int) -> None:
        self.settlement.answered(self.id, Fate(code, "via_upstream", frozenset(), attempts=1, sent=True))


def test_a_refusal_of_the_api_server_ends_the_write_at_once():
    told = Told()
    told.hear(409)

    assert (len(told.pending), told.heard, told.read) == (0, [Event.REFUSED], [])


async def test_a_success_is_read_and_that_ends_the_write():
    told = Told()
    told.hear(200)
    assert len(told.pending) == 1, "what it has done is not observed yet"
    told.now_s += 1.0

    assert told.settlement.reads is not None
    assert await told.settlement.reads.read_anew(WEB)
    assert (len(told.pending), told.read) == (0, [WEB])


def test_an_unclear_answer_leaves_the_write_to_the_landing_window():
    told = Told()
    told.hear(504)
    told.settlement.tick(WINDOW_S - 1)
    assert (told.pending.due(WINDOW_S - 1), told.heard) == ([], [Event.ANSWERED_UNCLEAR])

    told.settlement.tick(WINDOW_S)
    assert told.pending.due(WINDOW_S) == [WEB]
    assert len(told.pending) == 1, "only a read ends it"


def test_where_nobody_can_be_asked_a_success_waits_for_the_landing_window():
    told = Told(reads=False)
    told.hear(200)

    assert len(told.pending) == 1


@pytest.mark.parametrize(("is_believed", "left"), [(True, 0), (False, 1)], ids=["believed", "refused"])
def test_the_word_of_a_state_file_counts_from_the_end_of_the_window_on(is_believed: bool, left: int):
    told = Told(reads=False)
    told.settlement.is_believed = lambda: is_believed
    told.settlement.tick(WINDOW_S - 1)
    assert len(told.pending) == 1

    told.settlement.tick(WINDOW_S)
    assert len(told.pending) == left


def test_an_answer_to_a_request_that_nobody_decided_changes_nothing():
    told = Told()
    told.settlement.answered("another", Fate(409, "via_upstream", frozenset(), attempts=1, sent=True))

    assert len(told.pending) == 1
