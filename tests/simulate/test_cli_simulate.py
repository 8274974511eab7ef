"""``extauthz simulate``, and how a world that breaks a rule is made shorter."""

from __future__ import annotations

import pytest

from extauthz.cli import exits, main
from extauthz.simulate.search import Wanted, search, shortest
from tests.simulate.planted.store import verdict_lost_on_conflict


def test_worlds_in_which_all_is_well_end_with_a_line_that_counts_them(capsys):
    assert main(["simulate", "--seeds", "4", "--steps", "8", "--jobs", "2"]) == 0
    assert capsys.readouterr().out.startswith("4 worlds, 32 steps, ")


def test_a_trace_tells_what_happened_and_how_it_ended(capsys):
    assert main(["simulate", "--seed", "3", "--steps", "8", "--faults", "none", "--only", "1,2", "--trace"]) == 0
    out = capsys.readouterr().out
    assert "step 1: " in out
    assert "step 3: " not in out
    assert out.endswith("no rule was broken\n")


@pytest.mark.parametrize(("flag", "value"), [("--faults", "lag,gremlins"), ("--only", "1;2")])
def test_wrong_usage_is_told_with_the_flag(flag, value, capsys):
    assert main(["simulate", flag, value]) == exits.USAGE
    assert flag in capsys.readouterr().err


def test_a_world_that_breaks_a_rule_is_made_shorter_and_still_breaks_it():
    wanted = Wanted(25, frozenset({"lag"}), "kubernetes", plant=verdict_lost_on_conflict)
    found = next(one for one in search(wanted, range(200), 2) if one.violation is not None)
    short = shortest(wanted, found.plan.seed)
    assert short.violation.rule == found.violation.rule == "never over"
    assert len(short.plan.steps) < len(found.plan.steps) / 2
    numbers = frozenset(step.number for step in short.plan.steps)
    assert next(search(wanted._replace(only=numbers), [found.plan.seed], 1)).violation == short.violation


def test_one_world_is_one_world(capsys):
    assert main(["simulate", "--seed", "1", "--steps", "3", "--jobs", "1"]) == 0
    assert capsys.readouterr().out.startswith("1 world, 3 steps, ")
