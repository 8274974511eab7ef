"""Custom resources with a scale subresource, as their authors define them."""

from __future__ import annotations

from typing import Any

from tests.controlplane.workspace import workload
from tests.support.custom import definition

Tree = Any


STATUS = {"statusReplicasPath": ".status.size", "labelSelectorPath": ".status.selector"}

GADGETS = definition("e2e.extauthz.dev", "v1", "gadgets", "Gadget", {"specReplicasPath": ".spec.size"} | STATUS)
"""The count is where nobody but its author knows it."""

ROLLOUTS = definition("argoproj.io", "v1", "rollouts", "Rollout", {"specReplicasPath": ".spec.replicas"} | STATUS)
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
