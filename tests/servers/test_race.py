"""Never over, on the way that serves: gates behind real servers, one store, and clients that all ask at once.

Each round draws a seed and prints it. ``EXTAUTHZ_ROUNDS`` runs more rounds of each test, ``EXTAUTHZ_SEED`` lets the
clients ask as they did in one round; who is first is up to the machine.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.servers.racing import Habits, race

ROUNDS = int(os.environ.get("EXTAUTHZ_ROUNDS", "3"))
SEED = os.environ.get("EXTAUTHZ_SEED")
CLIENTS, ASKS, HARD = 48, 2, 40


async def rounds(gates: int, habits: Habits) -> None:
    """Race so many times, and require that nothing is broken and that there was something to race for."""
    broken = []
    for _ in range(ROUNDS):
        seed = int(SEED) if SEED else random.SystemRandom().getrandbits(32)
        result = await race(seed, gates, CLIENTS, ASKS, HARD, habits)
        print(result)
        if result.broken:
            broken.append(str(result))
        assert result.answers["exceeded-quota"], f"there was room for all: {result}"
        assert result.highest > HARD // 2, f"hardly anything was allowed: {result}"
    assert not broken, "\n".join(broken)


async def test_of_clients_that_all_ask_at_once_no_more_are_allowed_than_fit():
    await rounds(2, Habits(leaves=0.0))


@pytest.mark.parametrize("gates", [2, 3])
async def test_nor_where_callers_leave_before_their_answer_and_no_grant_of_theirs_stays_in_memory_alone(gates: int):
    await rounds(gates, Habits(leaves=0.2))


@pytest.mark.parametrize("workloads", [48, 8], ids=["many-workloads", "many-asks-for-the-same"])
async def test_nor_where_room_comes_free_all_the_time(workloads: int):
    await rounds(3, Habits(leaves=0.1, refused=0.5, workloads=workloads))


@pytest.mark.parametrize("delays_s", [(0.003,), (0.0, 0.02)], ids=["slow", "one-slower-than-the-other"])
async def test_nor_where_the_store_is_slow_conflicts_and_loses_answers(delays_s: tuple[float, ...]):
    await rounds(2, Habits(leaves=0.1, refused=0.3, delays_s=delays_s, faults=0.1))
