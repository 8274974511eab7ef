"""Waits between attempts, on a virtual clock."""

from __future__ import annotations

import pytest

from extauthz.kube.reflector import CALM_S, Backoff


@pytest.mark.parametrize(("chance", "waits"), [(0.0, [0.8, 1.6, 3.2, 6.4, 12.8, 15, 15]), (1.0, [1.6, 3.2, 6.4, 12.8])])
def test_waits_double_up_to_a_bound_and_chance_adds_as_much_again(chance: float, waits: list[float]):
    backoff = Backoff(lambda: 0.0, lambda: chance)
    assert [backoff.failed() for _ in waits] == pytest.approx(waits)


@pytest.mark.parametrize(("passed_s", "wait_s"), [(CALM_S - 1, 3.2), (CALM_S + 1, 0.8)], ids=["busy", "calm"])
def test_after_a_calm_the_first_wait_is_short_again(passed_s: float, wait_s: float):
    now = [1000.0]
    backoff = Backoff(lambda: now[0], lambda: 0.0)
    for _ in range(2):
        now[0] += backoff.failed()
    now[0] += passed_s
    assert backoff.failed() == pytest.approx(wait_s)
