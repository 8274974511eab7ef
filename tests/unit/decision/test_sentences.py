"""How times are said to owners."""

from __future__ import annotations

import pytest

from extauthz.core.decision import sentences
from extauthz.core.decision.policy import Policy
from extauthz.core.model import Verdict
from extauthz.testing.builders import Asker, gate, quota, scale, workload


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        pytest.param(0.2, "about 1 s", id="nearly-over"),
        pytest.param(59.1, "about 60 s", id="seconds-are-rounded-up"),
        pytest.param(90, "about 90 s", id="the-longest-in-seconds"),
        pytest.param(135, "about 2 minutes", id="the-default-landing-window"),
    ],
)
def test_a_time_is_said_in_seconds_or_minutes(seconds: float, said: str) -> None:
    assert sentences.about(seconds) == said


def test_who_has_too_many_pending_writes_is_told_when_there_is_room_again() -> None:
    """In a time, and not by the name that the setting has in code."""
    policy = Policy(max_intents_per_source=1)
    ask = Asker(gate([quota("acme", {"pods": "9"})], workload("web", 1), policy=policy))
    ask(scale("web", 2)._replace(source="10.0.0.9"))
    refused = ask(scale("web", 3)._replace(source="10.0.0.9"))
    assert refused.verdict is Verdict.UNAVAILABLE
    assert refused.sentence.endswith("that may still land; try again in about 2 minutes at the latest")
