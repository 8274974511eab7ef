"""The handover file is nobody else's, and what is put in its way is not written through."""

from __future__ import annotations

from pathlib import Path

from extauthz.service.handover import HandoverFile


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "handover.json"
    path.write_text("{}")
    path.chmod(0o644)
    HandoverFile(path).take()
    assert {one.name: one.stat().st_mode & 0o777 for one in tmp_path.iterdir()} == {
        "handover.json": 0o600,
        "handover.json.run": 0o600,
    }


def test_a_link_in_the_way_is_not_followed(tmp_path: Path) -> None:
    other, path = tmp_path / "other", tmp_path / "handover.json"
    other.write_text("theirs")
    for name in (".handover.json.new", ".handover.json.run.new"):
        (tmp_path / name).symlink_to(other)
    handover = HandoverFile(path)
    handover.take()
    handover.leave([])
    assert other.read_text() == "theirs"
    assert not path.is_symlink()
    assert '"clean": true' in path.read_text()
