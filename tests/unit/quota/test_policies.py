"""``spec.policies`` of a WorkspaceQuota: what is read, and what is wrong of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from extauthz.core.quota.policies import ExpressionError, QuotaPolicy, unread
from extauthz.core.quota.spec import QuotaSpecError, WorkspaceQuota, salvage
from extauthz.core.quota.tree import QuotaTree
from extauthz.testing.builders import quota

GOOD = {"name": "hours", "expression": "true"}


class Program:
    needs = frozenset({"write.to"})
    limits = False
    cost = 1

    def bound(self, values: Mapping[str, object]) -> object:
        return values

    def joined(self, others: object) -> None:
        return None

    def run(self, bound: object) -> object:
        return True


def compiler(expression: str) -> Program:
    if "wrong" in expression:
        raise ExpressionError("line 1, column 3: wrong")
    return Program()


def read(*policies: Any) -> WorkspaceQuota:
    return quota("acme", {"pods": "1"}, policies=policies, compiler=compiler)


def problems(*policies: Any) -> list[str]:
    with pytest.raises(QuotaSpecError) as failed:
        read(*policies)
    return [str(one) for one in failed.value.problems]


def test_a_policy_has_a_name_an_expression_a_message_and_a_mode() -> None:
    found = read(GOOD | {"message": "later", "mode": "Audit"}, {"name": "b", "expression": "x", "mode": "Enforce"})
    assert found.policies == (
        QuotaPolicy("hours", "true", "later", audits=True),
        QuotaPolicy("b", "x", "", audits=False),
    )
    assert [policy.program is not None for policy in found.policies] == [True, True]
    assert [policy.says for policy in found.policies] == ["later", "x does not hold"]


def test_without_the_field_there_are_none() -> None:
    found = quota("acme", {"pods": "1"})
    assert found.policies == ()
    assert not QuotaTree.build([found]).has_policies
    assert QuotaTree.build([read(GOOD)]).has_policies


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ({"expression": "x"}, "spec.policies[0].name: null is not a string"),
        ({"name": "", "expression": "x"}, "spec.policies[0].name: it is empty"),
        ({"name": "n" * 64, "expression": "x"}, "spec.policies[0].name: it has 64 characters; write at most 63"),
        ({"name": "a"}, "spec.policies[0].expression: null is not a string"),
        ({"name": "a", "expression": "  "}, "spec.policies[0].expression: it is empty"),
        ({"name": "a", "expression": "x" * 2049}, "spec.policies[0].expression: it has 2049 characters"),
        ({"name": "a", "expression": True}, "spec.policies[0].expression: true is not a string"),
        (GOOD | {"message": "m" * 513}, "spec.policies[0].message: it has 513 characters"),
        (GOOD | {"message": ""}, "spec.policies[0].message: it is empty"),
        (GOOD | {"mode": "Clamp"}, "spec.policies[0].mode: 'Clamp' is not a mode; use one of Enforce, Audit"),
        (GOOD | {"mode": ["Audit"]}, "spec.policies[0].mode: ['Audit'] is not a mode"),
        (GOOD | {"massage": "m"}, 'spec.policies[0].massage: unknown field "massage"; did you mean message?'),
        (GOOD | {"expression": "wrong"}, "spec.policies[0].expression: line 1, column 3: wrong; docs/policies.md"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(policy: Any, said: str) -> None:
    assert problems(policy)[0].startswith(said)


def test_names_are_unique_and_policies_are_bounded() -> None:
    assert problems(GOOD, GOOD)[0].startswith('spec.policies[1].name: there is another policy "hours"')
    many = [{"name": f"p{at}", "expression": "true"} for at in range(17)]
    assert len(read(*many[:16]).policies) == 16
    assert problems(*many)[0].startswith("spec.policies: there are 17 policies; write at most 16")


def test_what_nobody_can_read_is_kept_and_told() -> None:
    found = quota("acme", {"pods": "1"}, policies=[GOOD, {"name": "b", "expression": "wrong"}])
    assert [policy.program for policy in found.policies] == [None, None]
    assert [str(one) for one in unread(found.policies)] == [
        "spec.policies: this gate cannot evaluate expressions: hours, b; install extauthz[cel] where it runs"
        ", with Python 3.14 or earlier"
    ]
    assert list(unread(read(GOOD).policies)) == []


def test_a_policy_is_the_same_whoever_has_read_it() -> None:
    assert read(GOOD) == quota("acme", {"pods": "1"}, policies=[GOOD])


def test_of_an_invalid_object_no_policy_is_left() -> None:
    spec = {"policies": [GOOD, {"name": "b"}], "namespaceSelector": {}}
    tree = {"apiVersion": "extauthz.dev/v1alpha1", "kind": "WorkspaceQuota", "metadata": {"name": "a"}, "spec": spec}
    assert salvage(tree).policies == ()
