"""Patches that say what they leave in a roundabout way: by copies within the object, or by directives."""

from __future__ import annotations

from extauthz.core.model import Tree

from .judge import Key, Promise
from .kinds import kind_of, milli
from .objects import JSON_PATCH, STRATEGIC_PATCH, Sent, container, sending, workload

CONTAINERS = "/spec/template/spec/containers"


def copying(key: Key, spelling: str, replicas: int, cpu: str) -> Sent:
    """A JSON Patch that copies or moves a value: one of the ``drawing.COPIES``."""
    first_cpu = f"{CONTAINERS}/0/resources/requests/cpu"
    operations: list[Tree]
    if spelling == "container":
        promise = Promise(key, None, None, copies="container")
        operations = [
            {"op": "copy", "from": f"{CONTAINERS}/0", "path": f"{CONTAINERS}/1"},
            {"op": "replace", "path": f"{CONTAINERS}/1/name", "value": "side"},
        ]
    elif spelling == "count":
        promise = Promise(key, None, None, copies="count")
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
