"""Objects and requests of the simulated world, spelled as their senders spell them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from extauthz.core.model import Request, Tree

from .judge import Promise
from .reference import DEPLOYMENTS, tier
from .server import Key

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"


class Sent(NamedTuple):
    """A write on its way: what the gate is asked, and what the API server is sent."""

    request: Request
    body: Tree
    promise: Promise


def namespace(name: str) -> Tree:
    """A namespace of workspace ``acme``, unless it is the zoo's."""
    labels = {"workspace": "zoo" if name == "zoo" else "acme"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def quota(name: str, hard: Mapping[str, str], how: Mapping[str, Any]) -> Tree:
    """A WorkspaceQuota."""
    spec: dict[str, Any] = {"hard": dict(hard), "namespaceSelector": {"matchLabels": dict(how["namespaces"])}}
    if "workloads" in how:
        spec["workloadSelector"] = {"matchLabels": dict(how["workloads"])}
    if "parent" in how:
        spec["parent"] = how["parent"]
    return {
        "apiVersion": "extauthz.dev/v1alpha1",
        "kind": "WorkspaceQuota",
        "metadata": {"name": name, "generation": 1},
        "spec": spec,
    }


def deployment(key: Key, replicas: int, cpu: str) -> Tree:
    """A Deployment as the API server prints it."""
    labels = {"app": key[1], "tier": tier(key[1])}
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"namespace": key[0], "name": key[1], "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": key[1]}},
            "strategy": {"type": "Recreate"},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def scale(key: Key, replicas: int, spelling: str, version: str) -> Sent:
    """A new count, as one of the ``plan.SPELLINGS``."""
    path = f"/apis/apps/v1/namespaces/{key[0]}/deployments/{key[1]}"
    promise = Promise(key, replicas, None)
    if spelling in ("hpa", "hpa-blind"):
        metadata = {"name": key[1], "namespace": key[0]}
        if spelling == "hpa":
            metadata["resourceVersion"] = version
            promise = promise._replace(only_on=version)
        body: Tree = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata}
        return _sent("PUT", f"{path}/scale", "", body | {"spec": {"replicas": replicas}}, promise)
    if spelling == "kubectl":
        return _sent("PATCH", f"{path}/scale", MERGE_PATCH, {"spec": {"replicas": replicas}}, promise)
    operations = [{"op": "add", "path": "/spec/replicas", "value": replicas}]
    sub = "/scale" if spelling == "kpa" else ""
    return _sent("PATCH", path + sub, JSON_PATCH, operations, promise)


def replace(key: Key, replicas: int, cpu: str) -> Sent:
    """A PUT of the whole object, whatever it is like now."""
    path = f"/apis/apps/v1/namespaces/{key[0]}/deployments/{key[1]}"
    return _sent("PUT", path, JSON, deployment(key, replicas, cpu), Promise(key, replicas, _milli(cpu), tier(key[1])))


def create(key: Key, replicas: int, cpu: str) -> Sent:
    """A POST of the object."""
    path = f"/apis/apps/v1/namespaces/{key[0]}/deployments"
    promise = Promise(key, replicas, _milli(cpu), tier(key[1]), creates=True)
    return _sent("POST", path, JSON, deployment(key, replicas, cpu), promise)


def path_of(key: Key) -> str:
    """Of a Deployment."""
    return DEPLOYMENTS.replace("/deployments", f"/namespaces/{key[0]}/deployments/{key[1]}")


def _sent(method: str, path: str, content_type: str, body: Tree, promise: Promise) -> Sent:
    headers = {"content-type": content_type} if content_type else {}
    return Sent(Request(method, path, headers, json.dumps(body).encode()), body, promise)


def _milli(cpu: str) -> int:
    return int(cpu[:-1]) if cpu.endswith("m") else int(cpu) * 1000
