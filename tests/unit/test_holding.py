"""From one run to the next: what was allowed and may still land is known, or growth is held."""

from __future__ import annotations

import io
from pathlib import Path

from extauthz.core.decision.gate import Gate
from extauthz.core.model import Verdict
from extauthz.observe.log import Log
from extauthz.service.handover import HandoverFile
from extauthz.service.holding import Holding
from extauthz.service.settings import Settings
from extauthz.testing.builders import Asker, gate, quota, scale, workload


class Run:
    """One run of a gate, from its start on."""

    def __init__(self, path: Path, now_s: float) -> None:
        settings = Settings(window_s=90.0, quotas="kubernetes", state="kubernetes", handover=path)
        self.gate: Gate = gate([quota("acme", {"requests.cpu": "12"})], workload("web", 1), workload("other", 1))
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
