"""How far a clock is off is told by answers that come anyway, and never for more than it is."""

from __future__ import annotations

import math
import random
from email.utils import formatdate

import pytest

from extauthz.kube.lists import KEPT_S, ClockCheck


class Clocks:
    """Ours, which is off, and the server's, which is right."""

    def __init__(self, off_s: float) -> None:
        self.off_s = off_s
        self.now_s = 1_800_000_000.25
        self.check = ClockCheck(lambda: self.now_s + self.off_s, lambda: self.now_s - 1_799_999_000.0)

    def ask(self, there_s: float = 0.0, back_s: float = 0.0, after_s: float = 1.0) -> float:
        """How far it is off at least, after one answer more."""
        self.now_s += after_s
        began_s = self.check.begin()
        self.now_s += there_s
        date = formatdate(math.floor(self.now_s), usegmt=True)
        self.now_s += back_s
        self.check.answered(began_s, date)
        return self.check.off_s


@pytest.mark.parametrize("off_s", [-3600.0, -7.0, -2.5, 0.0, 0.9, 2.5, 5.5, 3600.0])
def test_what_is_said_is_a_bound_that_becomes_narrow(off_s: float):
    clocks, chance = Clocks(off_s), random.Random(1)
    for _ in range(60):
        least = clocks.ask(chance.random(), chance.random(), chance.uniform(0.0, 3.0))
        assert abs(least) <= abs(off_s)
        assert least * off_s >= 0
    assert abs(least - off_s) < 0.3 or off_s < 1.0


def test_before_an_answer_nothing_is_said():
    assert Clocks(60.0).check.off_s == 0.0


def test_the_way_there_and_back_is_no_difference():
    clocks = Clocks(0.0)
    assert clocks.ask(there_s=8.0) == 0.0
    assert clocks.ask(back_s=8.0) == 0.0
    assert Clocks(6.0).ask(back_s=8.0) == pytest.approx(5.25), "it may be 14.25 s, and it is 5.25 s at least"
    assert Clocks(-6.0).ask(there_s=8.0) == pytest.approx(-5.75)


def test_a_clock_that_was_set_is_told_by_the_next_answer():
    clocks = Clocks(60.0)
    clocks.ask()
    clocks.off_s = 0.0
    assert clocks.ask() == 0.0
    clocks.off_s = -60.0
    assert clocks.ask() < -59.0


def test_what_was_said_long_ago_is_forgotten_and_what_was_said_lately_is_not():
    clocks = Clocks(5.1)
    for _ in range(40):
        clocks.ask(after_s=1.03)
    fine = clocks.check.off_s
    assert fine > 5.0
    assert clocks.ask(there_s=0.9, after_s=KEPT_S) == fine
    assert clocks.ask(there_s=0.9, after_s=KEPT_S) < fine


@pytest.mark.parametrize("date", [None, "", "yesterday", "Thu, 99 Jan 2026 00:00:00 GMT"])
def test_an_answer_without_a_date_says_nothing(date: str | None):
    clocks = Clocks(0.0)
    clocks.check.answered(clocks.check.begin(), date)
    assert clocks.check.off_s == 0.0
