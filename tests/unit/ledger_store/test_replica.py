"""What a gate takes from the ledger object and would write into it, step by step on a clock that stands still."""

from __future__ import annotations

import dataclasses
import json

import pytest

from extauthz.serve.ledger_store import payload
from extauthz.serve.ledger_store.payload import decode
from extauthz.serve.ledger_store.replica import AGES
from extauthz.serve.ledger_store.store import Stored
from extauthz.testing import create, quota, scale, workload
from tests.unit.ledger_store.stores import TEN, Seat, W

PUT_BACK = ("error", "ledger-put-back")


@pytest.mark.parametrize("late_s", [0.0, 0.0002, 0.0006, 30.0001])
@pytest.mark.parametrize("begun_s", [0.5, 0.5005, 0.5009])
def test_a_write_ends_at_another_gate_no_sooner_than_at_its_own_and_hardly_later(begun_s: float, late_s: float):
    """Whatever the other gate's clock says, and however long the write waits for its turn."""
    first, second = Seat("a"), Seat("b", 7.0)
    first.write(1)
    first.now_s += begun_s
    pending = first.ask(scale("web", 2))
    assert first.replica.wants_write()
    first.now_s += late_s
    second.replica.take(first.write(2))
    assert 0 <= second.left_s(pending) - first.left_s(pending) + 1e-9 < 0.0031


def test_one_whose_window_has_elapsed_still_pends_at_others_until_it_is_read():
    first, second = Seat("a"), Seat("b")
    pending = first.ask(scale("web", 2))
    first.now_s += W + 50
    second.replica.take(first.write(1))
    assert 0 <= second.left_s(pending) < 0.0021
    second.now_s += 10
    third = Seat("c")
    third.replica.take(Stored(second.write(2).payload, "2", "u"))
    assert third.left_s(pending) == 0


def test_what_is_older_than_what_was_seen_is_not_taken():
    first, second = Seat("a"), Seat("b")
    old = first.write(9)
    pending = first.ask(scale("web", 2))
    second.replica.take(first.write(10))
    for late in (old, old._replace(version="10")):
        second.replica.take(late)
        assert second.replica.base is not None
        assert (second.replica.base.version, second.ledger.pending.follows(pending)) == ("10", True)


def test_what_another_gate_has_ended_is_forgotten_and_no_other():
    first, second = Seat("a"), Seat("b")
    ended, stays = first.ask(scale("web", 2)), first.ask(scale("api", 2))
    second.replica.take(first.write(1))
    own = second.ask(scale("web", 3))
    first.ledger.pending.forget(ended)
    second.replica.take(first.write(2))
    assert [second.ledger.pending.follows(one) for one in (ended, stays, own)] == [False, True, True]


def test_a_hold_is_over_when_its_window_has_passed_and_not_before():
    seat = Seat("a")
    seat.write(1)
    for after_s, is_over in ((0.0, False), (W - 0.001, False), (W, True), (W + 1, True)):
        seat.now_s = 1000.0 + after_s
        assert seat.replica.hold_is_over == is_over
        assert seat.replica.holds


def test_a_hold_that_could_end_ends_with_the_next_write_of_the_same_object():
    seat = Seat("a")
    seat.write(1)
    assert not seat.replica.wants_write()
    seat.now_s += W
    seat.replica.released = True
    assert seat.replica.wants_write()
    seat.write(2)
    assert not seat.replica.holds
    assert not seat.replica.wants_write()


@pytest.mark.parametrize("is_told", [True, False])
def test_what_could_end_the_hold_of_one_object_does_not_end_that_of_the_next(is_told: bool):
    """Also where nobody tells that the first one is gone."""
    seat, other = Seat("a"), Seat("b")
    seat.write(1)
    seat.now_s += W
    seat.replica.released = True
    other.now_s += 50
    if is_told:
        seat.replica.gone()
    else:
        seat.replica.take(other.write(2, "another"))
    seat.write(3, "another")
    assert seat.replica.holds
    assert not seat.replica.hold_is_over


def test_a_hold_lasts_a_whole_window_from_when_the_object_is_made():
    """And not from when the gate that makes it started: others may have lost one meanwhile."""
    seat = Seat("a")
    seat.now_s += 50
    seat.write(1)
    seat.now_s += W - 0.001
    assert not seat.replica.hold_is_over
    seat.now_s += 0.001
    assert seat.replica.hold_is_over


def test_what_pends_is_told_to_an_object_of_another_clock_by_that_clock():
    """A later moment on an old clock may have passed on a new one: the write would end before it can land."""
    seat, other, third = Seat("a"), Seat("b"), Seat("c")
    seat.write(1)
    pending = seat.ask(scale("web", 2))
    seat.write(2)
    other.now_s += 1000
    theirs = other.ask(scale("api", 2))
    seat.replica.take(other.write(3, "another"))
    assert seat.replica.wants_write()
    third.replica.take(seat.write(4, "another"))
    for one in (pending, theirs):
        assert 0 <= third.left_s(one) - W < 0.0031


@pytest.mark.parametrize("what", ["made-anew", "renewed"])
def test_what_a_tenant_has_pending_is_counted_once(what: str, monkeypatch: pytest.MonkeyPatch):
    seat = Seat("a")
    seat.write(1)
    first = seat.ask(scale("web", 2))
    assert not seat.replica.is_full(first)
    size = len(decode(seat.write(2).payload).pending_writes[first])
    monkeypatch.setattr("extauthz.serve.ledger_store.replica.MAX_TENANT_BYTES", 2 * size + size // 2)
    if what == "made-anew":
        seat.replica.gone()
    else:
        found = seat.ledger.pending.get(first)
        assert found is not None
        seat.ledger.pending.renew(found[1], found[1].expires_s + 5)
    seat.write(3, "another" if what == "made-anew" else "u")
    assert not seat.replica.is_full(seat.ask(scale("api", 2)))
    third = seat.ask(scale("api", 3))
    assert seat.replica.is_full(third)
    seat.ledger.pending.forget(first)
    assert seat.replica.wants_write()
    assert not seat.replica.is_full(third), "there is room again"


def test_what_is_refused_for_want_of_room_takes_none(monkeypatch: pytest.MonkeyPatch):
    """One that is smaller may fit, before the object is written again."""
    seat = Seat("a")
    granted = seat.ask(scale("web", 2))
    seat.write(1)
    taken = dict(seat.replica._taken)
    monkeypatch.setattr("extauthz.serve.ledger_store.replica.MAX_TENANT_BYTES", 0)
    assert seat.replica.is_full(seat.ask(scale("api", 2)))
    assert seat.replica._taken == taken
    assert not seat.replica.is_full(granted), "the object has it"


@pytest.mark.parametrize(("as_much_as", "is_full"), [("acme", False), ("gold", True)])
def test_a_write_under_two_quotas_needs_room_of_both(as_much_as: str, is_full: bool, monkeypatch: pytest.MonkeyPatch):
    gold = quota("gold", {"pods": "9"}, namespaces={}, workloads={"tier": "gold"})
    seat = Seat("a", quotas=[*TEN, gold])
    seat.ask(scale("web", 2))
    seat.write(1)
    made = seat.ask(create(workload("new", 1, labels={"tier": "gold"})))
    assert not seat.replica.is_full(made)
    room = seat.replica._taken[as_much_as]
    monkeypatch.setattr("extauthz.serve.ledger_store.replica.MAX_TENANT_BYTES", room)
    assert seat.replica.is_full(made) == is_full


def test_the_clock_of_the_object_is_written_from_time_to_time_while_something_pends_and_not_else():
    seat = Seat("a", holds_new=False)
    seat.write(1)
    seat.now_s += W
    assert not seat.replica.wants_write()
    pending = seat.ask(scale("web", 2))
    seat.write(2)
    for after_s, wants in ((0.0, False), (W / AGES, False), (W / AGES + 0.001, True)):
        seat.now_s = 1000.0 + W + after_s
        assert seat.replica.wants_write() == wants
    assert decode(seat.write(3).payload).clock_ms in (101_250, 101_251)
    seat.ledger.pending.forget(pending)
    assert seat.replica.wants_write(), "it has ended"


def test_of_a_tenant_with_nothing_pending_nothing_is_kept():
    seat = Seat("a")
    pending = seat.ask(scale("web", 2))
    seat.write(1)
    assert set(seat.replica._taken) == {"acme"}
    seat.ledger.pending.forget(pending)
    seat.write(2)
    assert not seat.replica._taken


CPU = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}


@pytest.mark.parametrize(
    "member",
    [
        {"templates": ["no JSON"]},
        {"templates": ['"a text"']},
        {"templates": ["[" * 100_000]},
        {"templates": ["{}"]},
        {"templates": ['{"resize":{"a":"b"}}']},
        {"templates": ['{"resize":{"pods":1e999}}']},
        {"templates": ['{"devices":5}']},
        {"templates": ['{"devices":{"gpu":"x"}}']},
        {"templates": ['{"groups":[5]}']},
        {"templates": [json.dumps({"groups": [{"template": {"spec": CPU}, "count": "3"}]})]},
        {"templates": [json.dumps({"template": {"spec": CPU}, "ordinals": {"start": "3"}})]},
        {"templates": [json.dumps({"template": {"spec": CPU}, "volumeClaimTemplates": [{"metadata": 5}]})]},
        {"templates": [5]},
        {"labels": ["no pair"]},
        {"replicas": 10**4000},
        {"replicas": -1},
        {"renewed": "1"},
        {"state": "?"},
        {"workload": ["apps"]},
        {"until_ms": 10**4000},
    ],
    ids=lambda member: str(member)[:40],
)
def test_an_object_with_a_record_that_no_gate_wrote_is_told_and_replaced(member: dict[str, object]):
    """Whatever the record has: it ends no gate, and takes no room away."""
    first, second = Seat("a"), Seat("b")
    pending = first.ask(scale("web", 2))
    told = decode(first.write(1).payload)
    record = json.loads(told.pending_writes[pending]) | {
        key: [f"t{at}" for at in range(len(value))] if key in payload.KEPT_ONCE else value
        for key, value in member.items()
    }
    texts = {f"t{at}": text for key in payload.KEPT_ONCE for at, text in enumerate(member.get(key, ()))}
    bad = payload.encode(dataclasses.replace(told, texts=texts, pending_writes={pending: json.dumps(record)}))
    kept = second.ask(scale("api", 2))
    second.replica.take(Stored(bad, "2", "u"))
    assert [event for _, event in second.told] == ["ledger-unreadable"]
    assert second.ledger.pending.follows(kept)
    assert not second.ledger.pending.follows(pending)
    assert second.replica.wants_write()
    assert [*decode(second.write(3).payload).pending_writes] == [kept]


@pytest.mark.parametrize("uid", ["u", "another"], ids=["written-over", "made-anew"])
def test_an_older_object_that_is_put_back_is_taken_for_lost(uid: str):
    """Its clock went back. What it says is old, what gates remember is kept, and growth waits for all that is lost."""
    first, second = Seat("a"), Seat("b")
    first.write(1)
    first.replica.released = True
    first.now_s += W + 1
    old = first.write(2)
    second.replica.take(old)
    assert not second.replica.holds
    second.now_s += 10
    pending = second.ask(scale("web", 2))
    second.replica.take(second.write(3))
    second.replica.take(Stored(old.payload, "4", uid))
    assert (second.replica.holds, second.ledger.pending.follows(pending)) == (True, True)
    assert second.told == [PUT_BACK]
    assert second.replica.wants_write()
    made = second.write(5, uid)
    assert (second.replica.holds, second.replica.hold_is_over) == (True, False)
    second.now_s += W
    assert second.replica.hold_is_over
    first.now_s += 10
    first.replica.take(made)
    assert (first.replica.holds, first.ledger.pending.follows(pending)) == (True, True)


def test_one_that_a_gate_makes_that_has_seen_none_is_made_again_once_and_its_clock_goes_on():
    """Else each gate that has seen the one before takes it for old whenever its hold ends, until the clocks meet."""
    first, second, third = Seat("a"), Seat("b"), Seat("c")
    first.write(1)
    first.now_s += 300
    third.replica.take(first.write(2))
    pending = first.ask(scale("web", 2))
    theirs = second.write(3, "another")
    for seen in (first, third):
        seen.now_s += 1
        seen.replica.take(theirs)
    made = first.write(4, "another")
    for one in (second, third):
        one.replica.take(made)
    for one in (first, second, third):
        assert (one.replica.holds, one.ledger.pending.follows(pending)) == (True, True)
        one.now_s += W
        assert one.replica.hold_is_over
    third.replica.released = True
    ended = third.write(5, "another")
    for one in (first, second):
        one.replica.take(ended)
        assert not one.replica.holds
    assert [one.told for one in (first, second, third)] == [[PUT_BACK], [], [PUT_BACK]]


def test_an_older_object_that_holds_is_lost_too():
    """Its hold is nearly over, and what was allowed since may still land."""
    seat = Seat("a")
    seat.write(1)
    seat.now_s += W - 1
    old = seat.write(2)
    seat.now_s += 1
    seat.replica.released = True
    seat.write(3)
    seat.now_s += 10
    pending = seat.ask(scale("web", 2))
    seat.write(4)
    seat.replica.take(old._replace(version="5"))
    assert (seat.told, seat.replica.holds, seat.ledger.pending.follows(pending)) == ([PUT_BACK], True, True)
    seat.write(6)
    seat.now_s += W - 1
    assert not seat.replica.hold_is_over


def test_what_could_end_one_hold_does_not_end_another_of_the_same_object():
    seat, other = Seat("a"), Seat("b")
    seat.write(1)
    seat.now_s += W
    seat.replica.released = True
    other.now_s += 500
    other.replica.take(Stored("", "2", "u"))
    seat.replica.take(other.write(3))
    seat.write(4)
    assert (seat.replica.holds, seat.replica.hold_is_over) == (True, False)
