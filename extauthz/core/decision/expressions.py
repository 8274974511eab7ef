"""Policies that are expressions of a quota: what they may use, and what they say (docs/policies.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final, TypeAlias

from extauthz.core import texts
from extauthz.core.errors import ObjectError
from extauthz.core.kinds import BY_KEY
from extauthz.core.ledger.ledger import Ledger
from extauthz.core.model import Growth, PolicyAnswer
from extauthz.core.objects.fields import annotations_dict, labels_dict
from extauthz.core.policies import FILTER, LIMIT
from extauthz.core.quantities import NANO
from extauthz.core.quota.policies import MAX_ITEMS, MAX_MESSAGE, MAX_TEXT, MAX_TEXTS, Program, QuotaPolicy, Rules
from extauthz.core.quota.tree import QuotaNode

NOT_INSTALLED: Final = "expressions cannot be evaluated here: install extauthz[cel], with Python 3.14 or earlier"


Values: TypeAlias = dict[QuotaNode, object]
"""What the expressions of a quota may use, by the quota: made once a decision."""


def answers(
    ledger: Ledger, growth: Growth, node: QuotaNode, rules: Rules, step: str, values: Values
) -> list[PolicyAnswer]:
    """What the expressions of one quota have against it at a step."""
    if step == FILTER and _all_hold(ledger, growth, node, rules, values):
        return []
    unread = rules.unread if step == FILTER else ()
    found = [_answer(node, policy, step, NOT_INSTALLED, unknown=True) for policy in unread]
    for policy, program in rules.limits if step == LIMIT else rules.filters:
        try:
            said = program.run(_bound(ledger, growth, node, rules, program, values))
        except Exception as error:  # noqa: BLE001 (what an expression may raise, only its language knows)
            found.append(_answer(node, policy, step, f"it failed: {error}", unknown=True))
            continue
        row = _judged(growth, node, policy, said, step)
        if row is not None:
            found.append(row)
    return found


def _all_hold(ledger: Ledger, growth: Growth, node: QuotaNode, rules: Rules, values: Values) -> bool:
    """Whether all say that it may grow, as far as one question tells."""
    if rules.whole is None or rules.unread:
        return False
    try:
        return rules.whole.run(_bound(ledger, growth, node, rules, rules.whole, values)) is True
    except Exception:  # noqa: BLE001 (each is asked by itself then)
        return False


def _judged(growth: Growth, node: QuotaNode, policy: QuotaPolicy, said: object, step: str) -> PolicyAnswer | None:
    if step == LIMIT and type(said) is int:
        return None if said >= growth.to else _answer(node, policy, step, policy.says, replicas=said)
    if step == FILTER and type(said) is bool:
        return None if said else _answer(node, policy, step, policy.says)
    return _answer(node, policy, step, f"it gave {type(said).__name__}", unknown=True)


def _bound(ledger: Ledger, growth: Growth, node: QuotaNode, rules: Rules, program: Program, values: Values) -> object:
    bound = values.get(node)
    if bound is None:
        found = ((name, VARIABLES[name](ledger, growth, node)) for name in rules.needs)
        bound = values[node] = program.bound(
            {name: value for name, value in found if value is not None and _is_small(value)}
        )
    return bound


def _is_small(value: object) -> bool:
    """Whether expressions may be shown it. What they cost rests on that (``Program.cost``)."""
    if isinstance(value, Mapping | list):
        within = [*value, *value.values()] if isinstance(value, Mapping) else value
        together = sum(len(one) for one in within if isinstance(one, str))
        return len(value) <= MAX_ITEMS and together <= MAX_TEXTS and all(map(_is_small, within))
    return not isinstance(value, str) or len(value) <= MAX_TEXT


def _answer(
    node: QuotaNode, policy: QuotaPolicy, step: str, message: str, *, unknown: bool = False, replicas: int | None = None
) -> PolicyAnswer:
    said = texts.cut(message, MAX_MESSAGE)
    name, quota = policy.name, node.quota.name
    return PolicyAnswer(name, quota, step, "unknown" if unknown else "refused", said, policy.audits, replicas)


# What an expression may use. None: it has no value, and an expression that needs it is an unknown.

_Value: TypeAlias = Callable[[Ledger, Growth, QuotaNode], object]


def _kind(ledger: Ledger, growth: Growth, node: QuotaNode) -> str:
    """As ``kind`` of an object has it; of a custom resource its plural and group."""
    known = BY_KEY.get((growth.ref.group, growth.ref.resource))
    return known.name if known is not None else growth.ref.group_resource


def _labels(ledger: Ledger, growth: Growth, node: QuotaNode) -> Mapping[str, str]:
    return labels_dict(growth.observed.labels) if growth.observed is not None else {}


def _annotations(ledger: Ledger, growth: Growth, node: QuotaNode) -> Mapping[str, str]:
    return annotations_dict(growth.observed.annotations) if growth.observed is not None else {}


def _unspecified(ledger: Ledger, growth: Growth, node: QuotaNode) -> list[str] | None:
    templates = growth.templates
    if not templates and growth.observed is not None and growth.observed.template is not None:
        templates = (growth.observed.template,)
    costs, namespace = ledger.pod_costs, growth.ref.namespace
    try:
        silent = {key: None for template in templates for key in costs.unspecified(namespace, template)}
    except ObjectError:
        return None
    return list(silent) if templates else None


def _used(ledger: Ledger, growth: Growth, node: QuotaNode) -> Mapping[str, float]:
    rows = ledger.usage.accounts.rows_of(node)
    return {row.resource: (row.used + row.reserved) / NANO for row in rows}


def _hard(ledger: Ledger, growth: Growth, node: QuotaNode) -> Mapping[str, float]:
    return {key: hard / NANO for key, hard in node.hard.items()}


VARIABLES: Final[Mapping[str, _Value]] = {
    "write.from": lambda ledger, growth, node: growth.before,
    "write.to": lambda ledger, growth, node: growth.to,
    "write.operation": lambda ledger, growth, node: growth.operation,
    "workload.kind": _kind,
    "workload.namespace": lambda ledger, growth, node: growth.ref.namespace,
    "workload.name": lambda ledger, growth, node: growth.ref.name,
    "workload.labels": _labels,
    "workload.annotations": _annotations,
    "workload.replicas": lambda ledger, growth, node: growth.before,
    "workload.unspecified": _unspecified,
    "quota.name": lambda ledger, growth, node: node.quota.name,
    "quota.used": _used,
    "quota.hard": _hard,
    "requester.known": lambda ledger, growth, node: growth.requester is not None,
    "requester.user": lambda ledger, growth, node: growth.requester and growth.requester.user,
    "requester.groups": lambda ledger, growth, node: growth.requester and list(growth.requester.groups),
    "now": lambda ledger, growth, node: datetime.fromtimestamp(growth.wall_s, UTC),
}
"""Name to value, as they are when the write is decided."""
