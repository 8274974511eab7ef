"""From one run to the next: what was allowed and may still land is known, or growth is held."""

from __future__ import annotations

import io
from pathlib import Path

from extauthz.core.decision.gate import Gate
from extauthz.core.model import Verdict, WorkloadRef
from extauthz.observe.log import Log
from extauthz.service.handover import HandoverFile, Holding
from extauthz.service.settings import Settings
from extauthz.testing.builders import Asker, gate, quota, scale, workload


class Run:
    """One run of a gate, from its start on."""

    def __init__(self, path: Path, now_s: float, turn_s: int | None = None) -> None:
        settings = Settings(window_s=90.0, quotas="kubernetes", state="kubernetes", handover=path)
        acme = quota("acme", {"requests.cpu": "12"}, turn_s=turn_s)
        self.gate: Gate = gate([acme], workload("web", 1), workload("other", 1))
        self.said = io.StringIO()
        self.holding = Holding(settings, self.gate, Log(self.said), lambda: now_s, HandoverFile(path))
        self.holding.take_over()
        self.ask = Asker(self.gate, f"{now_s:.0f}-")
        self.ask.now_s = now_s


def test_a_clean_stop_amid_a_hold_leaves_the_hold_to_the_next_start(tmp_path: Path):
    path = tmp_path / "handover"
    before = HandoverFile(path)
    before.take()
    before.leave([])
    assert Run(path, 0.0).ask(scale("web", 10)).verdict is Verdict.ALLOW  # and then it is killed
    second = Run(path, 1.0)
    assert second.ask(scale("other", 11)).reason == "hold"
    second.holding.hand_over()
    assert Run(path, 5.0).ask(scale("other", 11)).reason == "hold", "the scale of web may still land"


def test_who_stands_in_line_does_so_in_the_next_run(tmp_path: Path):
    path, here = tmp_path / "handover", WorkloadRef("apps", "deployments", "team-a", "web")
    before = HandoverFile(path)
    before.take()
    before.leave([])
    first = Run(path, 0.0, turn_s=300)
    first.gate.answered(first.ask(scale("web", 12)), 0.0)
    first.holding.hand_over()
    assert [one.ref for one in Run(path, 1.0, turn_s=300).gate.ledger.turns.waiting("acme", 1.0)] == [here]


def test_a_line_that_nobody_can_read_is_left(tmp_path: Path):
    before = HandoverFile(tmp_path / "handover")
    before.take()
    before.leave([], {"places": 1})
    run = Run(tmp_path / "handover", 0.0, turn_s=300)
    assert run.gate.ledger.turns.waiting("acme", 0.0) == []
    assert run.ask(scale("web", 2)).verdict is Verdict.ALLOW
