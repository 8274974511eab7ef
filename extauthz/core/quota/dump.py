"""A WorkspaceQuota as the object that a person would write: what limits whom, and nothing about persons."""

from __future__ import annotations

from extauthz.core import quantities
from extauthz.core.model import Amounts, Tree
from extauthz.core.quota.overrides import Override
from extauthz.core.quota.selectors import LabelSelector, Requirement
from extauthz.core.quota.spec import API_VERSION, KIND, WorkspaceQuota
from extauthz.core.times import stamp


def written(name: str, spec: Tree) -> Tree:
    """The object of that name and spec."""
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}


def dumped(quota: WorkspaceQuota) -> Tree:
    """Its ``spec``: parent, selectors, limits, guarantees, overrides and mode. Fields that say nothing are left out.

    Whom it binds, its policies, receivers of notices and reasons of overrides are left out too.
    """
    fields = {
        "parent": quota.parent,
        "namespaceSelector": _selector(quota.namespace_selector),
        "workloadSelector": _selector(quota.workload_selector),
        "hard": amounts(quota.hard),
        "guaranteed": amounts(quota.guaranteed) or None,
        "overrides": [_override(one) for one in quota.overrides] or None,
        "mode": quota.mode.value,
    }
    return {name: value for name, value in fields.items() if value is not None}


def amounts(given: Amounts) -> dict[str, str]:
    """Amounts as Kubernetes writes them."""
    return {key: quantities.format(amount, key) for key, amount in given.items()}


def _selector(selector: LabelSelector | None) -> Tree:
    if selector is None:
        return None
    found: dict[str, Tree] = {}
    if selector.match_labels:
        found["matchLabels"] = dict(selector.match_labels)
    if selector.requirements:
        found["matchExpressions"] = [_requirement(one) for one in selector.requirements]
    return found


def _requirement(one: Requirement) -> Tree:
    values = {"values": sorted(one.values)} if one.values else {}
    return {"key": one.key, "operator": one.operator, **values}


def _override(one: Override) -> Tree:
    found = {"name": one.name, "from": stamp(one.from_s), "until": stamp(one.until_s)}
    given = {"hard": amounts(one.hard), "guaranteed": amounts(one.guaranteed)}
    return found | {name: value for name, value in given.items() if value}
