"""How long a refusal says that it lasts."""

from __future__ import annotations

import pytest

from extauthz.core.model import Verdict
from extauthz.testing.builders import Asker, gate, quota, scale, workload

TEN = [quota("acme", {"requests.cpu": "10"})]


@pytest.mark.parametrize(("now_s", "left"), [(9.5, "about 1 s"), (10.0, "a little longer"), (11.0, "a little longer")])
def test_a_hold_says_how_long_it_still_lasts_and_does_not_end_by_the_clock(now_s: float, left: str):
    ask = Asker(gate(TEN, workload("web", 1)))
    ask.gate.hold(10.0)
    ask.now_s = now_s
    refused = ask(scale("web", 2))
    assert (refused.verdict, refused.reason) == (Verdict.UNAVAILABLE, "hold")
    assert f"grants no growth for {left}:" in refused.sentence
