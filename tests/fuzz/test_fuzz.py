"""A short run of the fuzzer with a seed of its own each time; ``make fuzz`` has the long one."""

from __future__ import annotations

import random

import pytest

from .__main__ import search
from .measure import Case, cost, floor_s, peak_bytes
from .shapes import KINDS

SECONDS = 5

SLACK = 3
"""Times the budget: the caches of the processor are shared with what runs beside."""


def test_no_body_that_is_drawn_costs_more_than_the_budget():
    seed = random.SystemRandom().randrange(10**9)
    worst, floor, _ = search(SECONDS, seed, tries=3 * len(KINDS))
    assert worst
    beyond = [found for found in worst.values() if found.ratio(floor) > SLACK]
    assert not beyond, f"FUZZ_SEED={seed}"


@pytest.mark.parametrize("kind", KINDS)
def test_each_shape_makes_a_body_that_is_read_or_refused(kind):
    for shape in KINDS[kind][2]:
        for scale in (False, True):
            found = cost(Case(kind, shape, 3, 1, scale))
            assert found.bytes > 0
            assert found.result


def test_a_floor_and_a_peak_are_measured():
    assert floor_s() > 0
    assert peak_bytes(Case("json", "text", 10_000)) > 100_000
