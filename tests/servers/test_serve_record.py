"""``extauthz serve --record``: what the process leaves, and that it replays."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from extauthz.tell.record.reading import Record
from extauthz.tools.replay.run import Replay

from .running import Running


def test_a_gate_records_what_it_decides_and_the_record_replays(tmp_path: Path) -> None:
    folder = tmp_path / "record"
    with Running(tmp_path, "--record", str(folder)) as gate:
        verdicts = [gate.check(replicas).denied_response is None for replicas in (4, 9, 9, 2)]
        assert "extauthz_record_dropped_total 0.0" in gate.get("/metrics")[1]
        assert gate.child.terminate() == 0
    assert verdicts == [True, False, False, True]
    (path,) = folder.iterdir()
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    asks = {line["id"]: (line["to"], line.get("n", 1)) for line in lines if line["k"] == "ask"}
    assert list(asks.values()) == [(4, 1), (9, 2), (2, 1)]
    found = Replay(Record(folder), None).run()
    assert (found.asks, found.same) == (4, 4)


def test_a_size_that_is_none_is_told_with_its_cure(tmp_path: Path) -> None:
    from extauthz.cli import main

    words = ["serve", "--quotas", str(tmp_path), "--state", str(tmp_path), "--record", str(tmp_path)]
    for size in ("500 MB", "12"):
        assert main([*words, "--record-max-bytes", size]) == 64
