"""The handover file: what a clean stop leaves is taken over once; anything else is known to be unclean."""

from __future__ import annotations

from pathlib import Path

import pytest

from extauthz.service import handover

INTENTS = [{"id": "a", "left_s": 3.5}, {"id": "b", "left_s": 0.0}]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "handover.json"


def test_what_a_clean_stop_leaves_the_next_start_takes(path: Path) -> None:
    handover.take(path)
    handover.leave(path, INTENTS)
    assert handover.take(path) == (INTENTS, None)


def test_a_first_start_cannot_know_what_was_before(path: Path) -> None:
    assert handover.take(path) == ((), "there is no handover yet")


def test_a_start_after_a_crash_finds_the_marker(path: Path) -> None:
    handover.leave(path, INTENTS)
    handover.take(path)
    assert handover.take(path) == ((), "the last run did not stop cleanly")


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
    taken = handover.take(path)
    assert taken.pending_writes == ()
    assert taken.unclean is not None
    assert why in taken.unclean


def test_a_file_that_cannot_be_written_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        handover.take(tmp_path / "absent" / "handover.json")


def test_nothing_else_is_left_beside_it(path: Path) -> None:
    handover.take(path)
    handover.leave(path, INTENTS)
    assert [one.name for one in path.parent.iterdir()] == [path.name]
