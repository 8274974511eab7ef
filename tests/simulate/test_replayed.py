"""Records of simulated worlds replay to the same answers, with exceptions that have a name."""

from __future__ import annotations

import os
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from extauthz.tell.record.reading import Record
from extauthz.tools.replay.peaks import checked
from extauthz.tools.replay.run import Replay
from tests.worlds.plan import FAULTS, draw
from tests.worlds.running import run

ALL = frozenset(FAULTS)


@pytest.mark.parametrize(
    ("ledger", "gates", "exceptions", "named"),
    [
        pytest.param("memory", 1, 0.003, {"object", "family"}, id="one gate"),
        pytest.param("kubernetes", 3, 0.05, {"several gates"}, id="three gates"),
    ],
)
def test_records_replay_to_the_same_answers(
    tmp_path: Path, ledger: str, gates: int, exceptions: float, named: set[str]
):
    asks, differ, names = 0, 0, Counter[str]()
    for seed in range(3000, 3025):
        folder = tmp_path / str(seed)
        run(draw(seed, 30, ALL, ledger, gates), folder)
        if not folder.exists():
            continue  # no gate has served
        found = Replay(Record(folder), None).run()
        assert found.asks == found.same + found.refused_now + found.granted_now
        assert found.exceptions.total() == found.asks - found.same
        asks, differ = asks + found.asks, differ + found.exceptions.total()
        names.update(found.exceptions)
    assert asks > 250
    assert differ <= exceptions * asks, names
    assert names.keys() <= set(named)


def test_a_limit_of_the_peak_refuses_nothing_and_one_pod_less_does(tmp_path: Path):
    """With faults, guarantees, in mode Clamp and Audit too. Others each day; ``RECORDS=1000`` draws more of them."""
    first, count = int(f"{datetime.now(UTC):%Y%m%d}") * 1000, int(os.environ.get("RECORDS", "24"))
    print(f"records from seed {first}")
    shown, drawn = Counter[str](), set[str]()
    for seed in (20261127636, 20261128709, 31, 51, *range(first, first + count)):
        folder = tmp_path / str(seed)
        plan = draw(seed, 30, ALL if seed % 2 else frozenset(), "memory", 1)
        drawn.update(str(one.get("mode")) for one in plan.quotas)
        drawn.update(field for one in plan.quotas for field in one)
        run(plan, folder)
        if not folder.exists():
            continue  # no gate has served
        record = Record(folder)
        peaks = checked(record, Replay(record, None).run())
        assert peaks is not None
        assert peaks.refused == 0, seed
        shown.update(peaks.less.values())
        assert "refuses nothing" not in peaks.less.values(), (seed, peaks.less)
    assert shown["refuses"] > count, shown
    assert drawn >= {"Clamp", "guaranteed"}
