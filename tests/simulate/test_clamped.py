"""Simulated worlds whose API server asks the mutating webhook before the validating one."""

from __future__ import annotations

import re

from extauthz.simulate.plan import FAULTS, draw
from extauthz.simulate.search import run

LOWERED = re.compile(r"webhook, write \d+(?:, dry)?, \S+ to (\d+) on \d+: lowered to (\d+)$")


def test_quotas_clamp_in_some_worlds_that_only_the_webhook_guards():
    plans = [draw(seed, 1, frozenset(FAULTS)) for seed in range(300)]
    assert {plan.entrances for plan in plans if plan.clamps} == {"webhook"}
    assert {plan.clamps for plan in plans if plan.entrances == "webhook"} == {True, False}
    assert all({"Clamp"} == {one.get("mode") for one in plan.quotas} for plan in plans if plan.clamps)


def test_counts_are_lowered_and_land():
    lowered = landed = 0
    for seed in range(12):
        plan = draw(seed, 25, frozenset(), entrances="webhook")
        result = run(plan)
        assert result.violation is None, result.violation
        found = [match for match in map(LOWERED.search, result.trace) if match]
        assert plan.clamps or not found
        assert all(int(match[2]) < int(match[1]) for match in found)
        lowered += len(found)
        landed += sum(f" to {match[2]} on " in line and ": allow " in line for match in found for line in result.trace)
    assert lowered > 5
    assert landed > 5
