"""Kubernetes objects as a person writes them, for tests and benchmarks with real parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Tree = Any


def namespace(name: str, **labels: str) -> Tree:
    """A Namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def quota(name: str, hard: Mapping[str, str], labels: Mapping[str, str] | None = None, **spec: object) -> Tree:
    """A WorkspaceQuota in mode Enforce over the namespaces with these labels: ``workspace=NAME`` unless told, and all
    where there are none. More of its ``spec`` by name."""
    selected = {"workspace": name} if labels is None else dict(labels)
    selector = {"matchLabels": selected} if selected else {}
    return {
        "apiVersion": "extauthz.dev/v1alpha1",
        "kind": "WorkspaceQuota",
        "metadata": {"name": name},
        "spec": {"namespaceSelector": selector, "hard": dict(hard), "mode": "Enforce"} | spec,
    }
