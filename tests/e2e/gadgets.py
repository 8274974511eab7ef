"""Custom resources with a scale subresource, as their authors define them."""

from __future__ import annotations

from typing import Any

from tests.controlplane.workspace import workload

Tree = Any


def _definition(group: str, kind: str, replicas: str) -> Tree:
    plural = f"{kind.lower()}s"
    scale = {
        "specReplicasPath": replicas,
        "statusReplicasPath": ".status.size",
        "labelSelectorPath": ".status.selector",
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        "subresources": {"status": {}, "scale": scale},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [version],
        },
    }


GADGETS = _definition("e2e.extauthz.dev", "Gadget", ".spec.size")
"""The count is where nobody but its author knows it."""

ROLLOUTS = _definition("argoproj.io", "Rollout", ".spec.replicas")
"""As Argo Rollouts defines it, but for the name of its version."""


def may_see(definition: Tree) -> Tree:
    """As docs/envoy.md says: whoever owns a kind lets the gate see it."""
    spec = definition["spec"]
    plural = spec["names"]["plural"]
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"{plural}-for-extauthz", "labels": {"extauthz.dev/aggregate-to-gate": "true"}},
        "rules": [{"apiGroups": [spec["group"]], "resources": [plural], "verbs": ["list", "watch"]}],
    }


def gadget(name: str, size: int, cpu: str = "1") -> Tree:
    """One, each of whose pods asks for so much."""
    template = workload(name, 1, {"cpu": cpu})["spec"]["template"]
    return {
        "apiVersion": "e2e.extauthz.dev/v1",
        "kind": "Gadget",
        "metadata": {"name": name},
        "spec": {"size": size, "template": template},
    }


def rollout(name: str, replicas: int, cpu: str = "1") -> Tree:
    """One of Argo Rollouts."""
    spec = workload(name, replicas, {"cpu": cpu})["spec"] | {"strategy": {"canary": {}}}
    return {"apiVersion": "argoproj.io/v1", "kind": "Rollout", "metadata": {"name": name}, "spec": spec}
