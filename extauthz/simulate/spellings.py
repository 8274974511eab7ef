"""Patches that say what they leave in a roundabout way: by copies within the object, by directives,
or by leaving things out of an apply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from extauthz.core.model import Tree

from .judge import Key, Promise
from .kinds import kind_of, milli
from .objects import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Sent, container, sending, workload
from .server import APPLY

CONTAINERS = "/spec/template/spec/containers"


def copying(key: Key, spelling: str, replicas: int, cpu: str) -> Sent:
    """A JSON Patch that copies or moves a value: one of the ``drawing.COPIES``."""
    first_cpu = f"{CONTAINERS}/0/resources/requests/cpu"
    operations: list[Tree]
    if spelling == "container":
        promise = Promise(key, None, None)
        operations = [
            {"op": "copy", "from": f"{CONTAINERS}/0", "path": f"{CONTAINERS}/1"},
            {"op": "replace", "path": f"{CONTAINERS}/1/name", "value": "side"},
        ]
    elif spelling == "count":
        promise = Promise(key, None, None)
        operations = [{"op": "copy", "from": "/spec/replicas", "path": first_cpu}]
    elif spelling == "count-stays":
        promise = Promise(key, None, milli(cpu))
        operations = [
            {"op": "copy", "from": "/spec/replicas", "path": "/spec/was"},
            {"op": "replace", "path": first_cpu, "value": cpu},
            {"op": "move", "from": "/spec/was", "path": "/spec/replicas"},
        ]
    else:
        promise = Promise(key, replicas, None)
        operations = [
            {"op": "add", "path": "/spec/detour", "value": replicas},
            {"op": "move", "from": "/spec/detour", "path": "/spec/replicas"},
        ]
    return sending("PATCH", kind_of(key).path(*key), JSON_PATCH, operations, promise)


def adopting(key: Key, owner: Tree, spelling: str) -> Sent:
    """A ReplicaSet is given to an owner, whose selector it meets from now on; one of the ``drawing.PATCHES``."""
    metadata = owner["metadata"]
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"]}
    references = [reference | {"uid": metadata["uid"], "controller": True}]
    promise = Promise(key, None, None, joins=(metadata["namespace"], metadata["name"]))
    if spelling == "json":
        operations = [
            {"op": "add", "path": "/metadata/ownerReferences", "value": references},
            {"op": "replace", "path": "/metadata/labels/app", "value": metadata["name"]},
        ]
        return sending("PATCH", kind_of(key).path(*key), JSON_PATCH, operations, promise)
    content_type = MERGE_PATCH if spelling == "merge" else STRATEGIC_PATCH
    body = {"metadata": {"ownerReferences": references, "labels": {"app": metadata["name"]}}}
    return sending("PATCH", kind_of(key).path(*key), content_type, body, promise)


def leaving(key: Key, owner: Key, spelling: str) -> Sent:
    """It is taken from its owner."""
    promise = Promise(key, None, None, joins=owner)
    if spelling == "json":
        operations = [{"op": "remove", "path": "/metadata/ownerReferences"}]
        return sending("PATCH", kind_of(key).path(*key), JSON_PATCH, operations, promise)
    content_type = MERGE_PATCH if spelling == "merge" else STRATEGIC_PATCH
    return sending("PATCH", kind_of(key).path(*key), content_type, {"metadata": {"ownerReferences": None}}, promise)


def applying(key: Key, how: Mapping[str, Any]) -> Sent:
    """A server-side apply by force, of all but what it leaves out. It may have a sidecar."""
    tree = workload(key, how["to"], how["cpu"], how["tier"])
    if "count" in how["without"]:
        del tree["spec"]["replicas"]
    if "tier" in how["without"]:
        tree["metadata"]["labels"] = {"app": key[1]}
    if how["side"]:
        tree["spec"]["template"]["spec"]["containers"].append(container(how["side"], "side"))
    promise = Promise(key, tree["spec"].get("replicas"), milli(how["cpu"]))
    return sending("PATCH", f"{kind_of(key).path(*key)}?fieldManager=kubectl&force=true", APPLY, tree, promise)


def directing(key: Key, spelling: str, replicas: int, cpu: str) -> Sent:
    """A strategic merge patch with directives: one of the ``drawing.DIRECTIVES``."""
    whole = workload(key, replicas, cpu)["spec"]
    main = container(cpu)
    promise = Promise(key, None, milli(cpu))
    pod: dict[str, Tree] = {"containers": [main]}
    around: dict[str, Tree] = {}
    if spelling == "retain":
        around = {"$retainKeys": sorted(whole)}
    elif spelling == "retain-less":
        around = {"$retainKeys": sorted(whole.keys() - {"replicas"})}
        promise = promise._replace(replicas=1)  # the default
    elif spelling == "replace-spec":
        around = {"$patch": "replace"} | whole
        promise = promise._replace(replicas=replicas, side_m=0)
    elif spelling == "replace-list":
        pod = {"containers": [{"$patch": "replace"}, main]}
        promise = promise._replace(side_m=0)
    elif spelling == "replace-map":
        pod = {"containers": [main | {"resources": {"$patch": "replace"} | main["resources"]}]}
    elif spelling == "delete":
        pod = {"containers": [main, {"$patch": "delete", "name": "side"}]}
        promise = promise._replace(side_m=0)
    else:
        pod |= {"$setElementOrder/containers": [{"name": "main"}]}
    spec = around if "template" in around else around | {"template": {"spec": pod}}
    return sending("PATCH", kind_of(key).path(*key), STRATEGIC_PATCH, {"spec": spec}, promise)
