"""Quotas that cover no namespace: allowed, and most often a label that is spelled wrong."""

from __future__ import annotations

from pathlib import Path

from extauthz.core.ledger.scope import Scope
from extauthz.files.problems import FileProblem

MOST = 20
"""So many are reported one by one."""


def warnings(scope: Scope, quotas: Path) -> list[FileProblem]:
    """A warning for each quota whose ``namespaceSelector`` selects no namespace of the state.

    Before a state is known there is none.
    """
    if not scope.namespaces:
        return []
    selecting = {node for node in scope.tree.nodes if node.quota.namespace_selector is not None}
    for namespace in scope.namespaces.values():
        selecting.difference_update(scope.tree.namespace_candidates(namespace.labels))
    names = sorted(node.quota.name for node in selecting)
    told = [_warning(quotas, f"WorkspaceQuota {name}", "its namespaceSelector selects") for name in names[:MOST]]
    if len(names) > MOST:
        told.append(_warning(quotas, f"{len(names) - MOST} WorkspaceQuotas more", "their namespaceSelectors select"))
    return told


def _warning(quotas: Path, who: str, what: str) -> FileProblem:
    cure = "compare it with the labels of the namespaces in the state"
    return FileProblem(str(quotas), None, who, f"{what} no namespace", cure)
