"""What quotas use, worked out anew from what ``kubectl get`` prints: pods, claims and counts, and none of our code.

Right where nothing is under way: every controller has made the pods that it wants, and none is going.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from tests.controlplane.kubectl import Kubectl

Tree = Any

KINDS = "namespaces,deployments,statefulsets,replicasets,replicationcontrollers,jobs,pods,persistentvolumeclaims"
SUFFIXES = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1), "k": Fraction(10**3),
    "M": Fraction(10**6), "G": Fraction(10**9), "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30),
}  # fmt: skip
COUNTED = {"Deployment": "count/deployments.apps", "StatefulSet": "count/statefulsets.apps"}


def parsed(text: str) -> Fraction:
    """A Kubernetes quantity."""
    digits = text.rstrip("numkMGKi")
    return Fraction(digits) * SUFFIXES[text[len(digits) :]]


def sums(*many: Mapping[str, Fraction]) -> dict[str, Fraction]:
    keys = {key for one in many for key in one}
    return {key: sum((one.get(key, Fraction(0)) for one in many), Fraction(0)) for key in keys}


def most(*many: Mapping[str, Fraction]) -> dict[str, Fraction]:
    keys = {key for one in many for key in one}
    return {key: max(one.get(key, Fraction(0)) for one in many) for key in keys}


def of_pod(spec: Tree) -> dict[str, Fraction]:
    """What a scheduler sets aside for a pod, as ResourceQuota's keys (KEP-753)."""

    def amounts(container: Tree) -> dict[str, Fraction]:
        resources = container.get("resources", {})
        return {
            f"{kind}.{name}": parsed(amount)
            for kind in ("requests", "limits")
            for name, amount in resources.get(kind, {}).items()
        }

    sidecars: dict[str, Fraction] = {}
    starting: dict[str, Fraction] = {}
    for container in spec.get("initContainers", []):
        if container.get("restartPolicy") == "Always":
            sidecars = sums(sidecars, amounts(container))
            starting = most(starting, sidecars)
        else:
            starting = most(starting, sums(sidecars, amounts(container)))
    running = sums(sidecars, *map(amounts, spec["containers"]))
    return most(running, starting) | {"pods": Fraction(1)}


class Snapshot:
    """All objects of some namespaces at one time."""

    def __init__(self, kubectl: Kubectl) -> None:
        listed = json.loads(kubectl("get", KINDS, "--all-namespaces", "--output=json"))["items"]
        self._objects = {
            (one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]): one for one in listed
        }

    def used(self, namespace_labels: Mapping[str, str], workload_labels: Mapping[str, str]) -> dict[str, Fraction]:
        """What a quota with these selectors uses."""
        namespaces = {
            name
            for (kind, _, name), tree in self._objects.items()
            if kind == "Namespace" and _matches(tree, namespace_labels)
        }
        inside = [tree for (_, namespace, _), tree in self._objects.items() if namespace in namespaces]
        chosen = [tree for tree in inside if _matches(self._top(tree), workload_labels)]
        return sums(*map(_used, chosen))

    def unsettled(self, namespaces: set[str]) -> Iterator[str]:
        """What is still under way."""
        for (kind, namespace, name), tree in self._objects.items():
            if namespace in namespaces and (why := _unsettled(kind, tree)):
                yield f"{kind} {namespace}/{name} {why}"

    def _top(self, tree: Tree) -> Tree:
        """The workload that an object belongs to: itself, or the owner that is nobody's."""
        if tree["kind"] == "PersistentVolumeClaim":
            return self._set_of(tree) or tree
        while True:
            owners = [one for one in tree["metadata"].get("ownerReferences", []) if one.get("controller")]
            if not owners:
                return tree
            tree = self._objects[owners[0]["kind"], tree["metadata"]["namespace"], owners[0]["name"]]

    def _set_of(self, claim: Tree) -> Tree | None:
        """The StatefulSet whose pod a claim is or was for: by its name, as the controller goes by it."""
        for tree in self._objects.values():
            if tree["kind"] == "StatefulSet" and _namespace(tree) == _namespace(claim):
                templates = [one["metadata"]["name"] for one in tree["spec"].get("volumeClaimTemplates", [])]
                stem, _, ordinal = claim["metadata"]["name"].rpartition("-")
                if ordinal.isdigit() and stem in {f"{one}-{tree['metadata']['name']}" for one in templates}:
                    return tree
        return None


def _namespace(tree: Tree) -> str:
    return tree["metadata"].get("namespace", "")


def _matches(tree: Tree, labels: Mapping[str, str]) -> bool:
    return labels.items() <= tree["metadata"].get("labels", {}).items()


def _used(tree: Tree) -> dict[str, Fraction]:
    match tree["kind"]:
        case "Pod":
            return {} if tree["status"].get("phase") in ("Succeeded", "Failed") else of_pod(tree["spec"])
        case "PersistentVolumeClaim":
            size = parsed(tree["spec"]["resources"]["requests"]["storage"])
            return {"requests.storage": size, "persistentvolumeclaims": Fraction(1)}
        case kind if kind in COUNTED:
            return {COUNTED[kind]: Fraction(1)}
    return {}


def _unsettled(kind: str, tree: Tree) -> str:
    metadata, spec, status = tree["metadata"], tree.get("spec", {}), tree.get("status", {})
    if "deletionTimestamp" in metadata:
        return "is going"
    if kind in ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController"):
        if status.get("observedGeneration", 0) < metadata["generation"]:
            return "was changed"
        counts = {status.get(key, 0) for key in ("replicas", "readyReplicas", "availableReplicas")}
        if kind in ("Deployment", "StatefulSet"):
            counts.add(status.get("updatedReplicas", 0))
        return "" if counts == {spec["replicas"]} else f"has {counts} of {spec['replicas']}"
    if kind == "Job":
        left = 0 if spec.get("suspend") else min(spec["parallelism"], spec["completions"] - status.get("succeeded", 0))
        return "" if status.get("active", 0) == left else f"has {status.get('active', 0)} of {left}"
    return ""
