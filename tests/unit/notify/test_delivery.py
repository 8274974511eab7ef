"""Queues, attempts and pauses, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from random import Random
from typing import Any

import pytest

from extauthz.tell.notify.receivers import Notice, NoticeKind, Receiver
from extauthz.tell.notify.sending import (
    GIVE_UP_S,
    LEAVE_S,
    LONGEST_PAUSE_S,
    LONGEST_WISH_S,
    MOST_WAITING,
    TELL_EVERY_S,
    Attempt,
    Delivery,
    pause_s,
)
from tests.worlds.loop import VirtualLoop

WELL = Attempt(True)
DOWN = Attempt(False, again=True, why="it answered 503")
GONE = Attempt(False, again=False, why="it answered 410")
OPS, TEAM = Receiver("ops", "https://a.example/"), Receiver("team", "https://b.example/")


def notice(number: int = 1) -> Notice:
    return Notice(f"id-{number}", NoticeKind.REFUSED, "s", 0.0, {})


class Scripted:
    """Answers attempts in order, and with the last answer for ever; ``None`` hangs, an error is raised."""

    def __init__(self, **answers: Iterable[Attempt | Exception | None]) -> None:
        self._answers = {name: list(each) for name, each in answers.items()}
        self.sent: list[tuple[str, str, float]] = []

    async def send(self, receiver: Receiver, notice: Notice) -> Attempt:
        self.sent.append((receiver.name, notice.id, round(asyncio.get_running_loop().time(), 1)))
        left = self._answers.get(receiver.name, [WELL])
        answer = left.pop(0) if len(left) > 1 else left[0]
        if answer is None:
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        assert answer is not None
        return answer


class Desk:
    """A delivery on virtual time."""

    def __init__(self, **answers: Iterable[Attempt | Exception | None]) -> None:
        self.loop = VirtualLoop(Random(1))
        self.sender = Scripted(**answers)
        self.lines: list[dict[str, Any]] = []
        self.delivery = Delivery((OPS, TEAM), self.sender, self._tell, clock=self.loop.time, chance=lambda: 1.0)

    def _tell(self, level: str, event: str, **fields: Any) -> None:
        self.lines.append({"level": level, "event": event, **fields})

    def run(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def both() -> None:
            running = asyncio.create_task(self.delivery.run())
            await main()
            running.cancel()

        self.loop.run(both())

    def after(self, seconds: float, *notices: Notice, names: tuple[str, ...] = ("ops",)) -> None:
        async def main() -> None:
            for one in notices or (notice(),):
                self.delivery.put(one, names)
            await asyncio.sleep(seconds)

        self.run(main)

    def said(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == event]

    @property
    def times(self) -> list[float]:
        return [at for _, _, at in self.sender.sent]


def test_a_notice_is_sent_once_to_each_that_is_named():
    desk = Desk()
    desk.after(60, notice(1), notice(2), names=("ops", "team"))
    assert sorted(desk.sender.sent) == [
        ("ops", "id-1", 0.0), ("ops", "id-2", 0.0), ("team", "id-1", 0.0), ("team", "id-2", 0.0),
    ]  # fmt: skip
    assert desk.delivery.results == {("ops", "delivered"): 2, ("team", "delivered"): 2}
    assert desk.lines == []


def test_a_receiver_that_is_down_is_asked_ever_more_seldom_and_gets_it_once():
    desk = Desk(ops=[DOWN] * 4 + [WELL])
    desk.after(3600)
    assert desk.times == [0.0, 1.0, 3.0, 7.0, 15.0]
    assert desk.delivery.results == {("ops", "retried"): 4, ("ops", "delivered"): 1}
    assert [(one["receiver"], one["why"], one["id"]) for one in desk.said("notice-retried")] == [
        ("ops", "it answered 503", "id-1")
    ], "the first failure of a notice is logged"


def test_pauses_double_up_to_a_bound_and_are_spread():
    assert [pause_s(attempts, None, 1.0) for attempts in (1, 2, 3, 9, 10, 500)] == [
        1.0, 2.0, 4.0, 256.0, LONGEST_PAUSE_S, LONGEST_PAUSE_S,
    ]  # fmt: skip
    assert [pause_s(4, None, chance) for chance in (0.0, 0.5, 1.0)] == [4.0, 6.0, 8.0]


def test_what_the_receiver_wishes_is_heeded_within_a_bound():
    assert pause_s(1, 30.0, 0.5) == 30.0
    assert pause_s(1, 0.0, 1.0) == 1.0, "no sooner than otherwise"
    assert pause_s(1, 1e9, 1.0) == LONGEST_WISH_S
    desk = Desk(ops=[DOWN._replace(after_s=120.0), WELL])
    desk.after(600)
    assert desk.times == [0.0, 120.0]


def test_what_is_refused_is_dropped_at_once_and_said():
    desk = Desk(ops=[GONE, WELL])
    desk.after(60, notice(1), notice(2))
    assert desk.sender.sent == [("ops", "id-1", 0.0), ("ops", "id-2", 0.0)]
    assert desk.delivery.results == {("ops", "refused"): 1, ("ops", "delivered"): 1}
    assert desk.said("notice-dropped") == [
        {
            "level": "error", "event": "notice-dropped", "receiver": "ops", "result": "refused",
            "why": "it answered 410", "notices": 1, "id": "id-1",
        }
    ]  # fmt: skip


def test_an_old_notice_is_given_up_and_said_and_the_next_one_has_its_own_time():
    desk = Desk(ops=[DOWN])

    async def main() -> None:
        desk.delivery.put(notice(1), ["ops"])
        await asyncio.sleep(GIVE_UP_S / 2)
        desk.delivery.put(notice(2), ["ops"])
        await asyncio.sleep(GIVE_UP_S / 2 + 2 * LONGEST_PAUSE_S)
        assert desk.delivery.results["ops", "expired"] == 1
        await asyncio.sleep(GIVE_UP_S / 2 + LONGEST_PAUSE_S)

    desk.run(main)
    assert desk.delivery.results["ops", "expired"] == 2
    assert [one["id"] for one in desk.said("notice-dropped")] == ["id-1", "id-2"]
    last = max(at for _, which, at in desk.sender.sent if which == "id-1")
    assert GIVE_UP_S <= last <= GIVE_UP_S + LONGEST_PAUSE_S + 1


def test_a_receiver_that_hangs_delays_no_other():
    desk = Desk(ops=[None])
    desk.after(60, notice(1), notice(2), names=("ops", "team"))
    assert [one for one in desk.sender.sent if one[0] == "team"] == [("team", "id-1", 0.0), ("team", "id-2", 0.0)]
    assert [one for one in desk.sender.sent if one[0] == "ops"] == [("ops", "id-1", 0.0)]


def test_a_full_queue_drops_loudly_and_says_how_many_seldom():
    desk = Desk(ops=[None])
    beyond = 7

    async def main() -> None:
        desk.delivery.put(notice(0), ["ops"])
        await asyncio.sleep(1)
        for number in range(MOST_WAITING + beyond):
            desk.delivery.put(notice(number), ["ops"])
        await asyncio.sleep(TELL_EVERY_S)
        desk.delivery.put(notice(1), ["ops"])

    desk.run(main)
    assert desk.delivery.results["ops", "overflow"] == beyond + 1
    told = desk.said("notice-dropped")
    assert [(one["result"], one["notices"]) for one in told] == [("overflow", 1), ("overflow", beyond)]


def test_a_fault_of_ours_ends_one_notice_and_nothing_else():
    desk = Desk(ops=[ZeroDivisionError(), WELL])
    desk.after(60, notice(1), notice(2))
    assert desk.delivery.results == {("ops", "failed"): 1, ("ops", "delivered"): 1}
    (line,) = desk.said("notice-failed")
    assert "ZeroDivisionError" in line["traceback"]


def leaving(desk: Desk, *notices: Notice) -> float:
    """How long it took to leave, after a while in which these were queued."""
    took = []

    async def main() -> None:
        for one in notices:
            desk.delivery.put(one, ["ops"])
        await asyncio.sleep(0.5)
        began_s = desk.loop.time()
        await desk.delivery.leave()
        took.append(desk.loop.time() - began_s)

    desk.run(main)
    return took[0]


def test_a_stop_tries_once_more_what_waits_and_counts_the_rest():
    desk = Desk(ops=[DOWN._replace(after_s=600.0)])
    assert leaving(desk, notice(1), notice(2)) < 0.1
    assert desk.times == [0.0, 0.5, 0.5]
    assert desk.delivery.results == {("ops", "retried"): 1, ("ops", "unsent"): 2}
    assert [(one["result"], one["notices"]) for one in desk.said("notice-dropped")] == [("unsent", 1)] * 2


def test_a_stop_delivers_what_it_can():
    desk = Desk(ops=[DOWN._replace(after_s=600.0), WELL])
    leaving(desk, notice(1), notice(2))
    assert desk.delivery.results == {("ops", "retried"): 1, ("ops", "delivered"): 2}


def test_a_stop_waits_for_nobody_longer_than_it_says():
    desk = Desk(ops=[None])
    assert leaving(desk, notice(1), notice(2), notice(3)) == pytest.approx(LEAVE_S, abs=0.01)
    assert desk.delivery.results == {("ops", "unsent"): 3}
    (line,) = desk.said("notice-dropped")
    assert (line["notices"], line["why"]) == (3, "the gate stops")


def test_who_leaves_with_nothing_to_send_leaves_at_once():
    assert leaving(Desk()) < 0.01
