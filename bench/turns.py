"""What a decision costs where 256 workloads wait in line, beside one in the same house without turns."""

from __future__ import annotations

import time
from collections.abc import Callable

from extauthz.core.decision.gate import Gate
from extauthz.core.ledger.entry import Event
from extauthz.core.ledger.line import MAX_IN_CHILD, MAX_IN_TREE
from extauthz.core.model import Decision, Operation, Verdict, WorkloadRef, Write
from extauthz.core.quota.tree import QuotaTree
from extauthz.testing import gate as made
from extauthz.testing import quota, workload

from .decision import FULL, QUICK, Size, in_us
from .figures import Figure
from .figures import turns as in_turn

__all__ = ["FULL", "QUICK", "measure"]

COST = 1.5
TEAMS = 2 * MAX_IN_TREE // MAX_IN_CHILD
"""Half of them wait."""

GPU = "requests.nvidia.com/gpu"
NEED = 4
"""GPUs that each of them waits for."""


def measure(size: Size, say: Callable[[str], None]) -> list[Figure]:
    """A grant that leaves enough for the first, and a refusal."""
    plain, turning = (_house(turns=turns) for turns in (False, True))
    assert turning.ledger.turns.number(turning.ledger.coverage.tree.nodes[0]) == MAX_IN_TREE
    figures = []
    for name, free in (("a grant", 10 * NEED), ("a refusal", 0)):
        costs: list[list[float]] = [[], []]
        for one in (plain, turning):
            _leave(one, free, turns=one is turning)
        for order in in_turn((1, 0), size.rounds):
            for at in order:
                costs[at].append(_batch_us((plain, turning)[at], Verdict.ALLOW if free else Verdict.DENY))
        say(f"turns, {name}: {size.rounds} rounds")
        what = f"decision, {name} with {MAX_IN_TREE} in line, over one without turns"
        figures.append(in_us(what, costs[1], costs[0], COST))
    return figures


def _ref(team: int, number: int) -> WorkloadRef:
    return WorkloadRef("apps", "deployments", f"team-{team}", f"model-{number}")


def _tree(hard: int, *, turns: bool) -> QuotaTree:
    root = quota("house", {GPU: str(hard)}, namespaces={"none": "such"}, turn_s=3600 if turns else None)
    teams = [
        quota(f"team-{team}", {GPU: "1000"}, parent="house", namespaces={"team": str(team)}) for team in range(TEAMS)
    ]
    return QuotaTree.build([root, *teams])


def _house(*, turns: bool) -> Gate:
    """All is in use, each team has something, and those of the first half wait for more."""
    objects = [
        workload(f"model-{number}", 1 if team < TEAMS // 2 else 2, {"nvidia.com/gpu": "1"}, namespace=f"team-{team}")
        for team in range(TEAMS)
        for number in range(MAX_IN_CHILD)
    ]
    namespaces = {f"team-{team}": {"team": str(team)} for team in range(TEAMS)}
    house = made([], *objects, namespaces=namespaces)
    _leave(house, 0, turns=turns)
    for team in range(TEAMS // 2):
        for number in range(MAX_IN_CHILD):
            house.answered(_ask(house, team, number, 1 + NEED, f"w{team}-{number}"), 0.0)
    return house


def _leave(house: Gate, free: int, *, turns: bool) -> None:
    """Have so much left."""
    house.load_quotas(_tree(3 * TEAMS // 2 * MAX_IN_CHILD + free, turns=turns), 0.0)


def _ask(house: Gate, team: int, number: int, replicas: int, decision_id: str) -> Decision:
    write = Write(_ref(team, number), Operation.PATCH, True, False, replicas)
    return house.decide(write, decision_id, 0.0)


def _batch_us(house: Gate, expected: Verdict) -> float:
    """Processor time a decision about a workload for which the line has no place; grants are settled at once."""
    asked = [(team, number) for team in range(TEAMS // 2, TEAMS) for number in range(MAX_IN_CHILD)]
    spent_s = 0.0
    for team, number in asked:
        start = time.process_time()
        found = _ask(house, team, number, 3, "x")
        if house.ledger.coverage.tree.has_turns:
            house.answered(found, 0.0)
        spent_s += time.process_time() - start
        assert found.verdict is expected, found.sentence
        if found.pending_write is not None:
            house.ledger.pending.settle(found.pending_write, Event.NOT_FORWARDED, 0.0)
    return spent_s / len(asked) * 1e6
