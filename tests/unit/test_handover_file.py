"""The handover file: what a clean stop leaves is taken over once; anything else is known to be unclean.

It is nobody else's, and what is put in its way is not written through.
"""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from extauthz.core.decision.gate import Gate
from extauthz.core.model import Verdict, WorkloadRef
from extauthz.serve.service import handover
from extauthz.serve.service.handover import HandoverFile, Holding
from extauthz.serve.service.settings import Settings
from extauthz.tell.observe.log import Log
from extauthz.testing import Asker, gate, quota, scale, workload

INTENTS = [{"id": "a", "left_s": 3.5}, {"id": "b", "left_s": 0.0}]


RUN = "r1"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "handover.json"


def test_what_a_clean_stop_leaves_the_next_start_takes(path: Path) -> None:
    handover.take(path, RUN)
    handover.leave(path, INTENTS, RUN)
    assert handover.take(path, RUN) == (INTENTS, None, None)


def test_who_stands_in_line_is_left_too(path: Path) -> None:
    handover.take(path, RUN)
    handover.leave(path, INTENTS, RUN, {"at_ms": 1, "places": {}})
    assert handover.take(path, RUN) == (INTENTS, None, {"at_ms": 1, "places": {}})


def test_a_first_start_cannot_know_what_was_before(path: Path) -> None:
    assert handover.take(path, RUN) == ((), "there is no handover yet", None)


def test_a_start_after_a_crash_finds_the_marker(path: Path) -> None:
    handover.take(path, RUN)
    assert handover.take(path, RUN) == ((), "the last run did not stop cleanly", None)


def test_what_an_earlier_run_has_left_is_not_taken(path: Path) -> None:
    """As from a backup: the run after it has allowed writes that are not in there."""
    runs = [handover.HandoverFile(path) for _ in range(4)]
    runs[0].take()
    runs[0].leave(INTENTS)
    backup = path.read_bytes()
    assert runs[1].take() == (INTENTS, None, None)
    path.write_bytes(backup)
    assert runs[2].take() == ((), "the handover is of an earlier run, and not of the last one", None)
    runs[2].leave([])
    assert runs[3].take() == ([], None, None)


def test_what_a_release_without_ids_of_runs_has_left_is_taken_once(path: Path) -> None:
    content = b'{"version": 1, "clean": true, "intents": []}'
    path.write_bytes(content)
    assert handover.take(path, RUN) == ([], None, None)
    path.write_bytes(content)
    assert handover.take(path, RUN).unclean is not None


def test_without_the_id_of_the_last_run_nothing_is_taken(path: Path) -> None:
    handover.take(path, RUN)
    handover.leave(path, INTENTS, RUN)
    path.with_name("handover.json.run").write_bytes(b"\xff")
    assert "the id of the last run cannot be read" in str(handover.take(path, RUN).unclean)
    handover.leave(path, INTENTS, RUN)
    path.with_name("handover.json.run").unlink()
    assert handover.take(path, RUN).unclean is not None


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "cannot be read"),
        (b"{", "cannot be read"),
        (b"\xff", "cannot be read"),
        (b"[]", "not as a gate writes it"),
        (b'{"version": 2, "clean": true, "intents": []}', "is of version 2, and this release reads 1"),
        (b'{"version": 1, "clean": true, "intents": 3}', "not as a gate writes it"),
    ],
)
def test_a_spoilt_file_is_unclean_and_no_error(content: bytes, why: str, path: Path) -> None:
    path.write_bytes(content)
    taken = handover.take(path, RUN)
    assert taken.pending_writes == ()
    assert taken.unclean is not None
    assert why in taken.unclean


def test_a_file_that_cannot_be_written_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        handover.take(tmp_path / "absent" / "handover.json", RUN)


def test_nothing_else_is_left_beside_it_than_the_id_of_the_run(path: Path) -> None:
    handover.take(path, RUN)
    handover.leave(path, INTENTS, RUN)
    assert sorted(one.name for one in path.parent.iterdir()) == [path.name, f"{path.name}.run"]


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "handover.json"
    path.write_text("{}")
    path.chmod(0o644)
    handover.HandoverFile(path).take()
    assert {one.name: one.stat().st_mode & 0o777 for one in tmp_path.iterdir()} == {
        "handover.json": 0o600,
        "handover.json.run": 0o600,
    }


def test_a_link_in_the_way_is_not_followed(tmp_path: Path) -> None:
    other, path = tmp_path / "other", tmp_path / "handover.json"
    other.write_text("theirs")
    for name in (".handover.json.new", ".handover.json.run.new"):
        (tmp_path / name).symlink_to(other)
    ours = handover.HandoverFile(path)
    ours.take()
    ours.leave([])
    assert other.read_text() == "theirs"
    assert not path.is_symlink()
    assert '"clean": true' in path.read_text()


# From one run to the next: what was allowed and may still land is known, or growth is held.


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
