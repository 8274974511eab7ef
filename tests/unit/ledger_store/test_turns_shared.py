"""Who waits in line goes with the ledger object, so that all gates have the same order."""

from __future__ import annotations

import asyncio
import base64
import json
import time
import zlib
from dataclasses import replace

from extauthz.core.model import WorkloadRef
from extauthz.core.policies import Enlisted, Policies
from extauthz.serve.ledger_store import payload
from extauthz.serve.ledger_store.payload import decode, encode
from extauthz.serve.ledger_store.replica import LINE_S
from extauthz.serve.ledger_store.store import Conflict, Stored
from extauthz.testing import quota, scale, workload
from tests.support.memory_store import MemoryStore
from tests.unit.ledger.houses import Ranked
from tests.unit.ledger_store.gates import Member, members
from tests.unit.ledger_store.stores import TEN, Seat
from tests.waiting import until

WEB, API = (WorkloadRef("apps", "deployments", "team-a", name) for name in ("web", "api"))
SHARE = [quota("acme", {"requests.cpu": "10"}, turn_s=300)]


class Place(Seat):
    """A gate under a quota with turns."""

    def __init__(self, prefix: str, now_s: float = 1000.0) -> None:
        super().__init__(prefix, now_s, SHARE, holds_new=False)

    def wants(self, name: str, replicas: int) -> None:
        self._ask.now_s = self.now_s
        self.gate.answered(self._ask(scale(name, replicas)), self.now_s)

    def line(self) -> list[WorkloadRef]:
        return [one.ref for one in self.ledger.turns.waiting("acme", self.now_s)]


def test_a_place_is_written_at_most_once_a_second_and_a_retry_never():
    one, other = Place("a"), Place("b", 7.0)
    one.write(1)
    one.wants("web", 10)
    assert not one.replica.wants_write(), "it was written this very second"
    one.now_s += LINE_S
    assert one.replica.wants_write()
    other.replica.take(one.write(2))
    assert (one.line(), other.line()) == ([WEB], [WEB])
    one.now_s += 15
    one.wants("web", 10)
    assert not one.replica.wants_write()
    one.wants("web", 0)
    one.now_s += LINE_S
    assert one.replica.wants_write()
    other.replica.take(one.write(3))
    assert (one.line(), other.line()) == ([], [])


def test_all_gates_have_one_order_whatever_their_clocks_say():
    one, other = Place("a"), Place("b", 7.0)
    other.replica.take(one.write(1))
    other.wants("web", 10)
    one.now_s += 5
    other.now_s += 5
    one.wants("api", 10)
    one.replica.take(other.write(2))
    other.replica.take(one.write(3))
    assert one.line() == other.line() == [WEB, API]
    assert other.ledger.turns.waiting("acme", other.now_s)[0].waits_s == 5.0


def test_all_gates_have_one_order_though_their_policies_give_other_ranks():
    one, other = Place("a"), Place("b", 7.0)
    other.replica.take(one.write(1))
    for seat, ranks in ((one, {"web": 1, "api": -1}), (other, {"web": -1, "api": 1})):
        seat.gate.enlist(Policies([Enlisted("ranked", Ranked(ranks))]))
    one.wants("web", 10)
    other.wants("api", 10)
    other.now_s += LINE_S
    other.replica.take(one.write(2))
    one.replica.take(other.write(3))
    assert one.line() == other.line()
    assert {seat.ledger.turns.lines["acme"].waiters[WEB].place.rank for seat in (one, other)} == {1}


def test_a_place_is_not_lost_with_a_race():
    one, other = Place("a"), Place("b", 7.0)
    other.replica.take(one.write(1))
    one.wants("web", 10)
    one.replica.next_text()  # refused: the other gate was faster
    other.wants("api", 10)
    one.replica.take(other.write(2))
    one.now_s += LINE_S
    assert one.replica.wants_write()
    other.replica.take(one.write(3))
    assert set(other.line()) == {WEB, API}


def test_what_was_written_by_a_gate_without_lines_is_written_again():
    one = Place("a")
    one.wants("web", 10)
    stored = one.write(1)
    older = encode(replace(decode(stored.payload), line=None, clock_ms=decode(stored.payload).clock_ms + 1))
    one.replica.take(Stored(older, "2", "u"))
    one.now_s += LINE_S
    assert one.line() == [WEB]
    assert one.replica.wants_write()


def test_a_line_that_no_gate_wrote_takes_nothing_away():
    one = Place("a")
    one.wants("web", 10)
    found = decode(one.write(1).payload)
    for version, line in enumerate(({"x": "y"}, {"acme/apps/deployments/team-a/api": "{}"}), 2):
        bad = encode(replace(found, line=line, clock_ms=found.clock_ms + 1))
        one.replica.take(Stored(bad, str(version), "u"))
        assert one.told[-1] == ("error", "line-unreadable")
        assert one.line() == [WEB]
        assert one.replica.base is not None
        assert one.replica.base.version == str(version), "grants go on"


def test_a_line_stays_when_the_object_is_made_again():
    one, other = Place("a"), Place("b", 7.0)
    one.wants("web", 10)
    other.replica.take(one.write(1))
    one.replica.gone()
    one.write(2, "new")
    assert one.line() == [WEB]


def test_without_turns_the_object_is_as_before():
    """A release that does not know lines reads the header by its members, and leaves others aside."""
    plain, turning = Seat("a", quotas=TEN), Place("b")
    turning.wants("web", 10)
    headers = [header(one.write(1).payload) for one in (plain, turning)]
    assert [one["format"] for one in headers] == [payload.FORMAT] * 2 == [3, 3]
    assert headers[1].keys() - headers[0].keys() == {"line"}


def header(text: str) -> dict[str, object]:
    found = json.loads(zlib.decompress(base64.b64decode(text)).split(b"\n")[0])
    assert isinstance(found, dict)
    return found


class Racing(MemoryStore):
    """Each first try of a write loses against nobody."""

    def __init__(self) -> None:
        super().__init__()
        self.tries = 0

    async def put(self, text: str, writes: int, base: Stored | None) -> Stored:
        self.tries += 1
        if self.tries % 2 == 0:
            raise Conflict("somebody was faster")
        return await super().put(text, writes, base)


async def test_gates_that_write_at_once_keep_everybody_in_line():
    objects = [workload(name, 1) for name in ("web", "api")]
    async with members(3, SHARE, *objects, store=Racing()) as gates:
        for gate, name in zip(gates, ("web", "api", "web"), strict=True):
            await answered(gate, name, 10)
        await until(lambda: all(len(line(gate)) == 2 for gate in gates))
        await until(lambda: line(gates[0]) == line(gates[1]) == line(gates[2]))
        await answered(gates[1], "api", 0)  # it has asked no other gate
        await until(lambda: all(line(gate) == [WEB] for gate in gates))
        writes = [len(one.writes) for one in gates]
        await answered(gates[2], "web", 10)
        await asyncio.sleep(0.3)
        assert [len(one.writes) for one in gates] == writes


async def answered(gate: Member, name: str, replicas: int) -> None:
    decision = await gate.ask(scale(name, replicas))
    gate.gate.answered(decision, time.monotonic())


def line(gate: Member) -> list[WorkloadRef]:
    return [one.ref for one in gate.gate.ledger.turns.waiting("acme", time.monotonic())]
