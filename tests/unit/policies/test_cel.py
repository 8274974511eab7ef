"""Expressions in CEL: what they may use, what is wrong of them, and that they are bounded (docs/policies.md)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from extauthz.core.decision.expressions import VARIABLES
from extauthz.core.quota.policies import ExpressionError
from extauthz.policies import cel
from extauthz.policies.cel import TYPES, compiled


def run(expression: str, **values: object) -> object:
    program = compiled(expression)
    return program.run(program.bound({name.replace("__", "."): value for name, value in values.items()}))


def test_each_name_that_has_a_type_has_a_value_and_the_reverse() -> None:
    assert set(TYPES) == set(VARIABLES)


def test_true_and_false_and_whole_numbers_are_told_apart() -> None:
    assert (compiled("write.to < 9").limits, compiled("write.from * 2").limits) == (False, True)
    assert run("write.to < 9", write__to=8) is True
    assert run("write.from * 2", write__from=3) == 6


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("write.form < 3", "line 1, column 6: undeclared reference to 'write.form' (in container '')"),
        ("write.to < '3'", "line 1, column 10: found no matching overload for '_<_' applied to '(int, string)'"),
        ("write.to <\n  nobody", "line 2, column 3: undeclared reference to 'nobody' (in container '')"),
        ("write.to +", "line 1, column 11: Syntax error: mismatched input '<EOF>' expecting"),
        ("'yes'", "it gives string; an expression gives true or false (may it grow), or a whole number (how far)"),
        ("quota.used['pods']", "it gives double;"),
        ("dyn(true)", "it gives dyn;"),
        ("workload.labels", "it gives map"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(expression: str, said: str) -> None:
    with pytest.raises(ExpressionError) as failed:
        compiled(expression)
    assert str(failed.value).startswith(said)


def test_a_nest_is_refused_and_breaks_nothing() -> None:
    with pytest.raises(ExpressionError):
        compiled("(" * 1000 + "true" + ")" * 1000)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("write.to / (write.to - write.to) > 1", "divide by zero"),
        ("workload.labels['tier'] == 'gold'", "Key not found in map 'tier'"),
        ("requester.user == 'jane'", "No value with name 'requester.user'"),
    ],
)
def test_what_has_no_value_fails_by_name(expression: str, said: str) -> None:
    with pytest.raises(ExpressionError) as failed:
        run(expression, write__to=1, workload__labels={})
    assert str(failed.value) == said


def test_a_value_of_another_type_than_was_checked_fails() -> None:
    with pytest.raises(ExpressionError, match=r"Unexpected value type for 'write.to'"):
        run("write.to < 3", write__to="2")


def test_only_what_it_may_use_is_asked_for() -> None:
    assert compiled("write.to < 3").needs == {"write.to"}
    assert compiled("write . to < 3 && // workload\n now < timestamp('2030-01-01T00:00:00Z')").needs == {
        "write.to",
        "now",
    }


def test_time_is_of_a_place() -> None:
    at = datetime(2026, 7, 1, 7, 30, tzinfo=UTC)
    assert run("now.getHours('Europe/Berlin')", now=at) == 9
    assert run("now.getHours()", now=at) == 7


def test_equal_expressions_are_read_once() -> None:
    assert compiled("write.to < 77") is compiled("write.to < 77")


def test_without_the_package_there_is_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cel.compiler() is cel.compiled
    monkeypatch.setattr(cel, "PACKAGE", "no_such_package")
    assert cel.compiler() is None
