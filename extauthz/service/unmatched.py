"""Quotas that cover no namespace: allowed, and most often a label that is spelled wrong."""

from __future__ import annotations

from pathlib import Path

from extauthz.core.ledger.coverage import Coverage
from extauthz.files.problems import FileProblem

MOST = 20
"""So many are reported one by one."""


def warnings(coverage: Coverage, quotas: Path) -> list[FileProblem]:
    """A warning for each quota whose ``namespaceSelector`` selects none of the namespaces that the state shows.

    Before a state is known there is none.
    """
    if not coverage.namespaces:
        return []
    selecting = [node for node in coverage.tree.nodes if node.quota.namespace_selector is not None]
    names = sorted(node.quota.name for node in selecting if not coverage.selection.of(node))
    told = [_warning(quotas, f"WorkspaceQuota {name}", "its namespaceSelector selects") for name in names[:MOST]]
    if len(names) > MOST:
        told.append(_warning(quotas, f"{len(names) - MOST} WorkspaceQuotas more", "their namespaceSelectors select"))
    return told


def _warning(quotas: Path, who: str, what: str) -> FileProblem:
    cure = "compare it with the labels of the namespaces in the state"
    return FileProblem(str(quotas), None, who, f"{what} no namespace", cure)
