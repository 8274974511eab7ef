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


def scalable(
    name: str,
    namespace: str,
    replicas: int = 1,
    requests: Mapping[str, str] | None = None,
    *,
    kind: str = "Deployment",
    owner: Tree = None,
) -> Tree:
    """A Deployment or ReplicaSet as somebody creates it. The label ``app`` is that of its owner, or its name."""
    labels = owner["metadata"]["labels"] if owner else {"app": name}
    metadata = {"name": name, "namespace": namespace, "labels": labels, "ownerReferences": owned_by(owner)}
    container = {"name": "main", "image": "registry.test/app:1", "resources": {"requests": dict(requests or {})}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


def owned_by(owner: Tree) -> list[Tree]:
    """The references of what a controller has made for ``owner``; ``None``: somebody else has made it."""
    if owner is None:
        return []
    known = {name: owner["metadata"][name] for name in ("name", "uid")}
    return [{"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True, **known}]


def pod_of(owner: Tree, name: str = "") -> Tree:
    """A pod that a ReplicaSet's controller makes; without a name, one after which the API server names it."""
    metadata = {key: owner["metadata"][key] for key in ("namespace", "labels")}
    named = {"name": name} if name else {"generateName": f"{owner['metadata']['name']}-"}
    metadata |= named | {"ownerReferences": owned_by(owner)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": owner["spec"]["template"]["spec"]}
