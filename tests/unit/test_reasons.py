"""The index of reasons has every code that a decision may have, and `extauthz explain` prints it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from extauthz.cli import main
from extauthz.tell.observe.reasons import BY_CODE, TABLE

DECISION = Path(__file__).parents[2] / "extauthz" / "core" / "decision"

NO_REASONS = {"team-a"}


def hyphenated() -> set[str]:
    """Words with a hyphen that the code of decisions has as texts."""
    found = set()
    for file in DECISION.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                word = node.value
                if "-" in word and word.replace("-", "").isalpha() and word.islower():
                    found.add(word)
    return found - NO_REASONS


def test_every_reason_of_a_decision_is_in_the_index():
    assert hyphenated() <= BY_CODE.keys()
    assert len(TABLE) == len(BY_CODE)


@pytest.mark.parametrize("one", TABLE, ids=lambda one: one.code)
def test_each_says_who_can_cure_it_and_how_unless_nothing_is_wrong(one):
    assert one.meaning.endswith(".")
    assert bool(one.who) == bool(one.cure)
    assert one.verdict == "allow" or one.cure


def test_explain_prints_one_or_lists_all(capsys):
    assert main(["explain", "must-specify"]) == 0
    out = capsys.readouterr().out
    assert "who can cure it: owner" in out
    assert "Set the request or limit" in out
    assert main(["explain"]) == 0
    listed = capsys.readouterr().out
    assert all(f"{one.code} " in listed for one in TABLE[:-1])
