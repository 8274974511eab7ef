"""The objects that every spelling starts from, and what is looked at in them afterwards."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from tests.controlplane.wire import Wire
from tests.support.custom import definition

Tree = Any

COLLECTIONS = {
    "deployments.apps": "/apis/apps/v1/{}deployments",
    "statefulsets.apps": "/apis/apps/v1/{}statefulsets",
    "replicasets.apps": "/apis/apps/v1/{}replicasets",
    "replicationcontrollers": "/api/v1/{}replicationcontrollers",
    "gadgets.example.dev": "/apis/example.dev/v1/{}gadgets",
    "widgets.example.dev": "/apis/example.dev/v1/{}widgets",
}
"""Group-resource to the path of its collection; the braces take ``namespaces/N/`` or nothing."""

REPLICAS_PATHS = {"gadgets.example.dev": ("spec", "size", "count")}

SPEC: Tree = {
    "containers": [
        {
            "name": "app",
            "image": "app:1",
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
        },
        {"name": "log", "image": "log:1", "resources": {"requests": {"cpu": "50m"}}},
    ],
    "initContainers": [
        {"name": "seed", "image": "seed:1", "resources": {"requests": {"cpu": "120m"}}},
        {"name": "proxy", "image": "proxy:1", "restartPolicy": "Always", "resources": {"requests": {"cpu": "10m"}}},
    ],
}
CLAIM: Tree = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def template(name: str, spec: Tree = SPEC) -> Tree:
    """A pod template whose labels match the selectors of this module."""
    return {"metadata": {"labels": {"app": name}}, "spec": copy.deepcopy(spec)}


def deployment(name: str, replicas: int | None = 2, spec: Tree = SPEC) -> Tree:
    """A Deployment as a person would write it."""
    tree: Tree = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": {"app": name, "team": "a"}},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template(name, spec)},
    }
    if replicas is not None:
        tree["spec"]["replicas"] = replicas
    return tree


def of_kind(kind: str, name: str, replicas: int | None = 2) -> Tree:
    """The same for the other kinds."""
    tree = deployment(name, replicas)
    tree["kind"] = kind
    if kind == "StatefulSet":
        tree["spec"] |= {"serviceName": name, "volumeClaimTemplates": [copy.deepcopy(CLAIM)]}
    if kind == "ReplicationController":
        tree["apiVersion"] = "v1"
        tree["spec"]["selector"] = {"app": name}
    return tree


def custom(kind: str, name: str, replicas: int) -> Tree:
    """A custom resource with a scale subresource; a Gadget counts in an odd place."""
    spec = {"size": {"count": replicas}} if kind == "Gadget" else {"replicas": replicas}
    return {"apiVersion": "example.dev/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


DEFINITIONS = [
    definition("example.dev", "v1", plural, kind, {"specReplicasPath": path, "statusReplicasPath": ".status.replicas"})
    for plural, kind, path in (("gadgets", "Gadget", ".spec.size.count"), ("widgets", "Widget", ".spec.replicas"))
]

LIMITS_ONLY: Tree = {"containers": [{"name": "app", "image": "a:1", "resources": {"limits": {"cpu": "1"}}}]}
NAKED: Tree = {"containers": [{"name": "app", "image": "a:1"}]}

FIXTURES: dict[str, Tree] = {
    "deployments.apps default/web": deployment("web"),
    "deployments.apps default/scale": deployment("scale"),
    "deployments.apps default/limits-only": deployment("limits-only", spec=LIMITS_ONLY),
    "deployments.apps default/naked": deployment("naked", spec=NAKED),
    "deployments.apps scale/web": deployment("web"),
    "statefulsets.apps default/db": of_kind("StatefulSet", "db"),
    "replicasets.apps default/crew": of_kind("ReplicaSet", "crew"),
    "replicationcontrollers default/old": of_kind("ReplicationController", "old"),
    "gadgets.example.dev default/gizmo": custom("Gadget", "gizmo", 2),
    "widgets.example.dev default/knob": custom("Widget", "knob", 2),
}
"""Created by POST."""

APPLIED: dict[str, tuple[int, tuple[str, ...]]] = {
    "deployments.apps default/applied": (2, ("tool",)),
    "deployments.apps default/idle": (0, ("tool",)),
    "deployments.apps default/shared": (2, ("tool", "other")),
}
"""Created by server-side apply with so many replicas, by each of these managers in turn."""


def collection(ref: str) -> str:
    """Path of the collection that the object *ref* (``group-resource namespace/name``) lives in."""
    resource, _, place = ref.partition(" ")
    return COLLECTIONS[resource].format(f"namespaces/{place.split('/')[0]}/")


def path_of(ref: str) -> str:
    """Path of the object *ref*."""
    return f"{collection(ref)}/{ref.rpartition('/')[2]}"


def create(wire: Wire, ref: str) -> None:
    """Create the fixture *ref*; whatever bears its name must be gone."""
    name = ref.rpartition("/")[2]
    replies = []
    replicas, managers = APPLIED.get(ref, (0, ()))
    for manager in managers:
        target = f"{path_of(ref)}?fieldManager={manager}"
        replies.append(wire.json("PATCH", target, deployment(name, replicas), "application/apply-patch+yaml"))
    if ref in FIXTURES:
        replies.append(wire.json("POST", f"{collection(ref)}?fieldManager=maker", FIXTURES[ref]))
    for reply in replies:
        assert reply.status in (200, 201), (ref, reply)


def remove(wire: Wire, ref: str) -> None:
    """Delete *ref* at once, finalizers or not."""
    wire.json("PATCH", path_of(ref), {"metadata": {"finalizers": None}}, "application/merge-patch+json")
    wire.json("DELETE", f"{path_of(ref)}?gracePeriodSeconds=0&propagationPolicy=Background")


def everything(wire: Wire) -> Iterator[tuple[str, Tree]]:
    """All objects of the collections, in all namespaces."""
    for resource, pattern in COLLECTIONS.items():
        reply = wire.json("GET", pattern.format(""))
        assert reply.status == 200, reply
        listed = reply.tree()
        for item in listed["items"]:
            item |= {"apiVersion": listed["apiVersion"], "kind": listed["kind"].removesuffix("List")}
            yield f"{resource} {item['metadata']['namespace']}/{item['metadata']['name']}", item


def digest(ref: str, tree: Tree) -> Tree:
    """What a quota cares about in an object: replicas, labels, owner, and the resources of the template."""
    value: Tree = tree
    for step in REPLICAS_PATHS.get(ref.split(" ")[0], ("spec", "replicas")):
        value = value.get(step) if isinstance(value, dict) else None
    out: Tree = {"replicas": value, "labels": tree["metadata"].get("labels", {})}
    spec = tree.get("spec") or {}
    if "template" in spec:
        out["template"] = {"template": {"spec": _pod(spec["template"]["spec"])}}
        if "volumeClaimTemplates" in spec:
            out["template"]["volumeClaimTemplates"] = [_claim(claim) for claim in spec["volumeClaimTemplates"]]
    return out


def _pick(tree: Tree, *keys: str) -> Tree:
    return {key: tree[key] for key in keys if tree.get(key)}


def _pod(spec: Tree) -> Tree:
    pod = _pick(spec, "resources", "overhead", "runtimeClassName")
    for key in ("containers", "initContainers"):
        if spec.get(key):
            pod[key] = [_pick(each, "name", "restartPolicy", "resources") for each in spec[key]]
    return pod


def _claim(claim: Tree) -> Tree:
    return {"metadata": _pick(claim["metadata"], "name"), "spec": _pick(claim["spec"], "resources", "storageClassName")}
