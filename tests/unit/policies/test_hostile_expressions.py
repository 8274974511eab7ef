"""Expressions that their author made to cost much, or to tell what others may not know (docs/policies.md).

Whoever may write one quota must delay nobody. So what is tested is what an expression may cost before it is evaluated,
and the processor time of the dearest that are left, in multiples of what ``json.loads`` takes for an ordinary object.
"""

from __future__ import annotations

import resource
from datetime import UTC, datetime
from typing import Any

import pytest

from extauthz.core.quota.policies import MAX_COST, MAX_ITEMS, MAX_TEXT, MAX_TEXTS, ExpressionError
from extauthz.core.quota.spec import QuotaSpecError
from extauthz.policies.cel import TYPES, compiled
from extauthz.testing.builders import quota
from tests.fuzz.measure import LOOP, fastest, floor_s

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
