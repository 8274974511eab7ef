"""Records of simulated worlds replay to the same answers, with exceptions that have a name."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from extauthz.core.quota.tree import QuotaTree
from extauthz.tell.record.reading import Record
from extauthz.tools.replay.run import Replay, Result
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


def test_a_limit_of_the_peak_refuses_nothing(tmp_path: Path):
    """Of whatever was asked without faults: what a run without limits comes to is enough."""
    first, asks, tight = random.SystemRandom().randrange(10**6, 10**9), 0, 0
    print(f"records from seed {first}")
    for seed in range(first, first + 30):
        folder = tmp_path / str(seed)
        run(draw(seed, 30, frozenset(), "memory", 1), folder)
        found = Replay(Record(folder), None).run()
        tree = _at_the_peak(found)
        at_peak = Replay(Record(folder), tree).run()
        assert [row for row, refused in at_peak.refused.items() if refused.asks] == [], seed
        below = [replace(node.quota, hard={key: most - 1 for key, most in node.hard.items()}) for node in tree.nodes]
        tight += bool(Replay(Record(folder), QuotaTree.build(below)).run().refused)
        asks += at_peak.asks
    assert asks > 300
    assert tight > 20, "less is too little, where growth was asked for"


def _at_the_peak(found: Result) -> QuotaTree:
    def peak(quota: str, key: str) -> int:
        return found.wanted[quota, key].peak if (quota, key) in found.wanted else 0

    quotas = [node.quota for node in found.tree.nodes]
    return QuotaTree.build(replace(one, hard={key: peak(one.name, key) for key in one.hard}) for one in quotas)
