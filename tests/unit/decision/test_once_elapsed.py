"""What asking, loading and time do to what was allowed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from extauthz.core.decision.gate import MAX_IDENTICAL, Gate
from extauthz.core.intake.counts import read
from extauthz.core.quota.tree import QuotaTree
from extauthz.testing.builders import Asker, gate, quota, scale, snapshot, workload

TEN = [quota("acme", {"requests.cpu": "10"})]
WEB = workload("web", 1)


def test_a_write_that_is_allowed_is_recorded_unless_it_is_told_otherwise():
    asked = gate(TEN, WEB)
    assert asked.decide(read(scale("web", 2)), "d1", 0.0).pending_write == "d1"
    assert len(asked.ledger.pending) == 1


@pytest.mark.parametrize(
    "pass_time",
    [
        pytest.param(lambda made, now_s: made.tick(now_s), id="tick"),
        pytest.param(lambda made, now_s: made.load_quotas(QuotaTree.build(TEN), now_s), id="quotas"),
        pytest.param(lambda made, now_s: made.load_state(snapshot(WEB), now_s), id="state"),
    ],
)
def test_writes_whose_window_has_elapsed_stand_for_no_new_one(pass_time: Callable[[Gate, float], None]):
    ask = Asker(gate(TEN, WEB))
    for _ in range(MAX_IDENTICAL):
        ask(scale("web", 2))
    assert ask(scale("web", 2)).pending_write == f"d{MAX_IDENTICAL}", "the newest stands for it"
    ask.now_s = 200.0
    pass_time(ask.gate, ask.now_s)
    assert ask(scale("web", 2)).pending_write == f"d{MAX_IDENTICAL + 2}"


def test_what_a_gate_knows_is_outdated_only_while_it_is_told_so():
    made = gate(TEN, WEB)
    seen = [made.is_stale]
    for why in ("no watch", None):
        made.stale(why)
        seen.append(made.is_stale)
    assert seen == [False, True, False]
