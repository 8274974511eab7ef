"""How long a refusal says that it lasts."""

from __future__ import annotations

import pytest

from extauthz.core.model import Verdict
from extauthz.testing.builders import Asker, gate, patch, path, pod, quota, scale, workload

TEN = [quota("acme", {"requests.cpu": "10"})]


def test_a_change_waits_for_the_last_of_those_under_way():
    ask = Asker(gate(TEN, workload("web", 1)))
    for now_s in (0.0, 50.0):
        ask.now_s = now_s
        assert ask(patch(path("web"), {"spec": {"template": pod({"cpu": "1"})}})).reason == "no-growth"
    ask.now_s = 60.0
    refused = ask(patch(path("web"), {"spec": {"template": pod({"cpu": "2"})}}))
    assert refused.reason == "change-under-way"
    assert refused.sentence.endswith("try again in about 80 s at the latest")


@pytest.mark.parametrize(("now_s", "left"), [(9.5, "about 1 s"), (10.0, "a little longer"), (11.0, "a little longer")])
def test_a_hold_says_how_long_it_still_lasts_and_does_not_end_by_the_clock(now_s: float, left: str):
    ask = Asker(gate(TEN, workload("web", 1)))
    ask.gate.hold(10.0)
    ask.now_s = now_s
    refused = ask(scale("web", 2))
    assert (refused.verdict, refused.reason) == (Verdict.UNAVAILABLE, "hold")
    assert f"grants no growth for {left}:" in refused.sentence
