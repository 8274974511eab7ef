"""Records of simulated worlds replay to the same answers, with exceptions that have a name."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from extauthz.record.reading import Record
from extauthz.replay.run import Replay
from extauthz.simulate.plan import FAULTS, draw
from extauthz.simulate.running import run

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
    for seed in range(3000, 3050):
        folder = tmp_path / str(seed)
        run(draw(seed, 30, ALL, ledger, gates), folder)
        if not folder.exists():
            continue  # no gate has served
        found = Replay(Record(folder), None).run()
        assert found.asks == found.same + found.refused_now + found.granted_now
        assert found.exceptions.total() == found.asks - found.same
        asks, differ = asks + found.asks, differ + found.exceptions.total()
        names.update(found.exceptions)
    assert asks > 500
    assert differ <= exceptions * asks, names
    assert names.keys() <= set(named)
