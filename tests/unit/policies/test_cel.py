"""Expressions in CEL: what they may use, what is wrong of them, and that they are bounded (docs/policies.md)."""

from __future__ import annotations

import re
import resource
from datetime import UTC, datetime
from typing import Any

import pytest

from extauthz.core.decision.expressions import VARIABLES
from extauthz.core.quota.policies import MAX_COST, MAX_ITEMS, MAX_TEXT, MAX_TEXTS, ExpressionError
from extauthz.core.quota.spec import QuotaSpecError
from extauthz.inputs.policies import cel
from extauthz.inputs.policies.cel import TYPES, compiled
from extauthz.testing import quota
from tests.fuzz.measure import LOOP, fastest, floor_s


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


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("now.getHours('/proc/self/fd/1') < 25", "no time zone '/proc/self/fd/1' is known here"),
        ("now.getHours('../../../dev/stdin') < 25", "no time zone '../../../dev/stdin' is known here"),
        ("now.getDayOfWeek(workload.annotations['policy.extauthz.dev/tz']) < 25", "a time zone is written out"),
        ("now.getMinutes('U' + 'TC') < 25", "a time zone is written out"),
        ("now.getMinutes('') < 25", "a time zone is written out"),
        ("workload.name.matches('a*') || true", "matches is not allowed; use startsWith"),
    ],
)
def test_what_nobody_has_looked_at_is_refused_where_it_is_read(expression: str, said: str) -> None:
    """Nothing of it is evaluated: a zone would be opened as a file."""
    with pytest.raises(ExpressionError, match=re.escape(said)):
        compiled(expression)


@pytest.mark.parametrize("zone", ["", "'UTC'", "'Europe/Berlin'", "'+02:00'"])
def test_a_zone_that_is_known_may_be_named(zone: str) -> None:
    noon = datetime(2026, 7, 1, 12, tzinfo=UTC)
    assert run(f"now.getHours({zone}) in [12, 14]", now=noon) is True


def test_every_function_is_one_that_was_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that a later release of the package adds is none."""
    assert compiled("duration('1h') < duration('2h')")
    monkeypatch.setattr(cel, "ALLOWED", cel.ALLOWED - {"duration"})
    compiled.cache_clear()
    with pytest.raises(ExpressionError, match="duration is not allowed"):
        compiled("duration('1h') < duration('2h')")


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


MANY = [f"{number:04}" + "a" * (MAX_TEXTS // MAX_ITEMS - 4) for number in range(MAX_ITEMS)]

VALUES: dict[str, Any] = {
    "int": 7,
    "bool": True,
    "string": "a" * MAX_TEXT,
    "map(string, string)": {text[:32]: text[32:] for text in MANY},
    "map(string, double)": dict.fromkeys(MANY, 1.0),
    "list(string)": MANY,
    "timestamp": datetime(2026, 7, 1, tzinfo=UTC),
}
"""The largest that an expression is shown, by type."""

GROUPS, USER, LABELS = "requester.groups", "requester.user", "workload.labels"


def written(expression: str, *, times: int = 1) -> None:
    policies = [{"name": f"p{number}", "expression": expression} for number in range(times)]
    quota("acme", {"pods": "1"}, policies=policies, compiler=compiled)


REFUSED = {
    "a macro in a macro": (f"{GROUPS}.all(a, {GROUPS}.all(b, a != b))", "a macro is within another macro"),
    "a macro over a macro": (f"{GROUPS}.map(a, a).all(b, b != '')", "a macro is within|over one of the names"),
    "a macro over what is worked out": (f"({GROUPS} + {GROUPS}).all(a, a != '')", "a macro goes over one of the names"),
    "a costly regular expression": (f"!{USER}.matches('((a{{1,30}}){{1,30}})z')", "matches is not allowed"),
    "a macro with a regular expression": (f"{GROUPS}.all(a, a.matches('((a{{1,30}}){{1,30}})z'))", "matches is not"),
    "lists that double": (
        "[[1]].all(a, [a + a].all(b, [b + b].all(c, [c + c].all(d, [d + d].all(e, size(e) > 0)))))",
        "a macro is within another macro",
    ),
    "a list that is copied for each": (f"{GROUPS}.map(a, {GROUPS}).size() > 1", "may cost"),
    "texts that are joined for each": (f"{GROUPS}.all(a, a + a + a + a + a + a != '')", "may cost"),
    "a long text that is looked for in each": (f"{GROUPS}.all(a, !a.contains('{'a' * 300}b'))", "may cost"),
    "a text of a value that is looked for": (f"{GROUPS}.all(a, !a.contains({USER}))", "may cost"),
    "lists that are compared for each": (f"{GROUPS}.all(a, {GROUPS} == {GROUPS})", "may cost"),
    "maps that are compared for each": (f"{GROUPS}.all(a, {LABELS} == {LABELS})", "may cost"),
    "lists of lists": (f"[{', '.join([GROUPS] * 40)}] == [{', '.join([GROUPS] * 40)}]", "may cost"),
    "something that may be a list": (f"{GROUPS}.all(a, dyn({GROUPS}) == dyn({GROUPS}))", "may cost"),
    "a message": ("google.protobuf.Duration{seconds: 3} == duration('3s')", "is not allowed"),
}


@pytest.mark.parametrize(("expression", "said"), REFUSED.values(), ids=REFUSED)
def test_what_may_cost_too_much_is_refused_when_the_quota_is_read(expression: str, said: str) -> None:
    with pytest.raises(QuotaSpecError, match=said):
        written(expression)


DEAREST = [
    f"{GROUPS}.all(a, !a.contains('zzzz'))",
    f"{GROUPS}.all(a, !a.contains('aaaab'))",
    f"{GROUPS}.all(a, timestamp('2030-01-01T00:00:00Z') > now || now.getHours('Europe/Berlin') > 3)",
    f"{GROUPS}.all(a, a == {USER} || a.endsWith({USER}) || {USER}.startsWith(a))",
    f"{LABELS}.all(a, {LABELS}[a] != 'b' && {LABELS}[a] != 'c')",
    "quota.used.all(k, quota.used[k] * 0.8 + 1.0 > quota.hard[k] * 0.7)",
    " && ".join([f"{LABELS} == {LABELS}"] * 20),
    f"[{' + '.join([USER] * 7)}].all(a, !(a + a).contains('aab'))",
    " && ".join([f"!{USER}.contains('{'a' * 100}b')"] * 12),
    f"!({USER} + {USER}).contains('{'a' * 700}b')",
    f"[{', '.join(['1'] * 600)}].all(a, a + a + a > a)",
]


@pytest.mark.parametrize("expression", DEAREST)
def test_the_dearest_that_are_taken_hold_the_loop_no_longer_than_a_body_may(expression: str) -> None:
    program = compiled(expression)
    times = MAX_COST // program.cost
    assert times >= 1, program.cost
    values = {name: VALUES[TYPES[name]] for name in program.needs}
    assert times * fastest(lambda: program.run(values), 5) < LOOP * floor_s()


def test_what_is_dear_leaves_no_memory_behind() -> None:
    program = compiled(f"size({' + '.join([USER] * 12)}) > 0")
    values = {USER: VALUES["string"]}
    program.run(values)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(2_000):
        program.run(values)
    grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown_mib < 32


def test_the_policies_of_a_quota_are_bounded_together_in_cost_and_in_length() -> None:
    dear = f"{GROUPS}.exists(g, g.startsWith('team-'))"
    written(dear, times=MAX_COST // compiled(dear).cost)
    with pytest.raises(QuotaSpecError, match=r"may cost \d+ units of work, that of p0 \d+; a quota may have 20000"):
        written(dear, times=MAX_COST // compiled(dear).cost + 1)
    with pytest.raises(QuotaSpecError, match=r"their expressions have 4112 characters; write at most 4096 in a quota"):
        written("true || " * 32 + "t", times=16)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("{}[requester.user] == 1", "Key not found in map"),
        ("workload.labels[requester.user] == 'x'", "Key not found in map"),
        ("[1][write.to] == 1", "Index error"),
        ("{requester.user: 1, requester.user + '': 2} == {}", "duplicate key in map"),
    ],
)
def test_an_error_shows_no_value(expression: str, said: str) -> None:
    with pytest.raises(ExpressionError) as failed:
        compiled(expression).run({"requester.user": "jane 4711", "workload.labels": {}, "write.to": 4711})
    assert str(failed.value).startswith(said)
    assert not any(value in str(failed.value) for value in ("jane", "4711"))
