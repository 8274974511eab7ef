"""The rights of the guard, as RBAC objects. It may write only in the namespaces that have opted in. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any as Tree
from typing import Final

RBAC: Final = "rbac.authorization.k8s.io"
NAME: Final = "extauthz-guard"


def objects(namespaces: Sequence[str], home: str) -> list[dict[str, Tree]]:
    """A service account in ``home``, what it may read of nodes, and a Role in each namespace."""
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": home}
    nodes = [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]},
        {"apiGroups": ["metrics.k8s.io"], "resources": ["nodes"], "verbs": ["list"]},
    ]
    pods = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "patch"]},
        {"apiGroups": [""], "resources": ["pods/resize"], "verbs": ["patch"]},
        {"apiGroups": ["metrics.k8s.io"], "resources": ["pods"], "verbs": ["list"]},
    ]
    made: list[dict[str, Tree]] = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME, "namespace": home}},
        {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": NAME}, "rules": nodes},
        _binding("ClusterRole", account, {"name": NAME}),
    ]
    for namespace in namespaces:
        metadata = {"name": NAME, "namespace": namespace}
        made.append({"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": pods})
        made.append(_binding("Role", account, metadata))
    return made


def _binding(role: str, account: dict[str, str], metadata: dict[str, str]) -> dict[str, Tree]:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{role}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": role, "name": NAME},
        "subjects": [account],
    }
