"""Objects and requests of the simulated world, spelled as their senders spell them. Each workload's name says of which
kind it is: ``web-sts-2``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from extauthz.core.model import Request, Tree
from tests.worlds.judge import Key, Promise

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


class Sent(NamedTuple):
    """A write on its way: what the gate is asked, and what the API server is sent."""

    request: Request
    body: Tree
    promise: Promise
    number: int = 0
    """Each write has one of its own."""
    dry: bool = False
    counts: bool = False
    """It is a count, as autoscalers write it."""


def namespace(name: str) -> Tree:
    """A namespace of workspace ``acme``, unless it is the zoo's."""
    labels = {"workspace": "zoo" if name == "zoo" else "acme"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def quota(name: str, hard: Mapping[str, str], how: Mapping[str, Any]) -> Tree:
    """A WorkspaceQuota."""
    spec: dict[str, Any] = {"hard": dict(hard), "namespaceSelector": {"matchLabels": dict(how["namespaces"])}}
    if "workloads" in how:
        spec["workloadSelector"] = {"matchLabels": dict(how["workloads"])}
    if "mode" in how:
        spec["mode"] = how["mode"]
    spec |= {field: how[field] for field in ("parent", "guaranteed", "sharing") if field in how}
    return {
        "apiVersion": "extauthz.dev/v1alpha1",
        "kind": "WorkspaceQuota",
        "metadata": {"name": name, "generation": 1},
        "spec": spec,
    }


def definition(api: str, plural: str, kind: str, **more: str) -> Tree:
    """Of a custom resource with a scale; ``more``: other paths of the scale."""
    group, version = api.split("/")
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", **more}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [{"name": version, "served": True, "storage": True, "subresources": {"scale": scale}}],
        },
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    }


def workload(key: Key, replicas: int, cpu: str, label: str = "") -> Tree:
    """A workload as the API server prints it. ``label``: its tier, if not the one of its name."""
    kind = kind_of(key)
    labels = {"app": key[1], "tier": label or tier(key[1])}
    spec: dict[str, Any] = {"replicas": replicas, "selector": {"matchLabels": {"app": key[1]}}}
    if kind.kind == "Deployment":
        spec["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    if kind.kind == "StatefulSet":
        size = {"resources": {"requests": {"storage": f"{CLAIM_GI}Gi"}}, "accessModes": ["ReadWriteOnce"]}
        spec |= {"serviceName": key[1], "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": size}]}
    return {
        "apiVersion": kind.api,
        "kind": kind.kind,
        "metadata": {"namespace": key[0], "name": key[1], "labels": labels},
        "spec": {**spec, "template": {"metadata": {"labels": labels}, "spec": {"containers": [container(cpu)]}}},
    }


def replica_set(deployment: Tree, replicas: int, cpu: str) -> Tree:
    """One that a Deployment's controller makes for a template."""
    metadata = deployment["metadata"]
    tree = workload((metadata["namespace"], metadata["name"]), replicas, cpu)
    del tree["spec"]["strategy"]
    own = {"name": f"{metadata['name']}-{cpu}", "ownerReferences": [reference(deployment)]}
    return {**tree, "kind": REPLICA_SET.kind, "metadata": {**tree["metadata"], **own}}


def reference(owner: Tree) -> Tree:
    """An entry of ``ownerReferences``: of the controller."""
    metadata = owner["metadata"]
    own = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    return own | {"controller": True}


def claim(key: Key, ordinal: int) -> Tree:
    """The volume claim of one replica of a StatefulSet."""
    metadata = {
        "namespace": key[0],
        "name": f"data-{key[1]}-{ordinal}",
        "labels": {"app": key[1], "tier": tier(key[1])},
    }
    spec = {"resources": {"requests": {"storage": f"{CLAIM_GI}Gi"}}, "accessModes": ["ReadWriteOnce"]}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def sidecar(cpu: str) -> Tree:
    """A patch that adds a second container, or changes it."""
    return {"spec": {"template": {"spec": {"containers": [container(cpu, "side")]}}}}


def container(cpu: str, name: str = "main") -> dict[str, Any]:
    """One that requests CPU."""
    return {"name": name, "image": "x", "resources": {"requests": {"cpu": cpu}}}


def scale(key: Key, replicas: int, spelling: str, version: str) -> Sent:
    """A new count, as one of the ``drawing.SPELLINGS``."""
    path = kind_of(key).path(*key)
    promise = Promise(key, replicas, None)
    if spelling in ("hpa", "hpa-blind"):
        metadata = {"name": key[1], "namespace": key[0]}
        if spelling == "hpa":
            metadata["resourceVersion"] = version
            promise = promise._replace(only_on=version)
        body: Tree = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata}
        return _counting("PUT", f"{path}/scale", "", body | {"spec": {"replicas": replicas}}, promise)
    if spelling == "kubectl":
        return _counting("PATCH", f"{path}/scale", MERGE_PATCH, {"spec": {"replicas": replicas}}, promise)
    operations = [{"op": "add", "path": "/spec/replicas", "value": replicas}]
    sub = "/scale" if spelling == "kpa" or not kind_of(key).gated_whole else ""
    return _counting("PATCH", path + sub, JSON_PATCH, operations, promise)


def replace(key: Key, replicas: int, cpu: str) -> Sent:
    """A PUT of the whole object, whatever it is like now."""
    promise = Promise(key, replicas, milli(cpu), tier(key[1]), side_m=0)
    return sending("PUT", kind_of(key).path(*key), JSON, workload(key, replicas, cpu), promise)


def patch(key: Key, cpu: str, spelling: str) -> Sent:
    """Other requests of the first container; the count stays as it is. One of the ``drawing.PATCHES``."""
    path, promise = kind_of(key).path(*key), Promise(key, None, milli(cpu))
    if spelling == "json":
        where = "/spec/template/spec/containers/0/resources/requests/cpu"
        return sending("PATCH", path, JSON_PATCH, [{"op": "replace", "path": where, "value": cpu}], promise)
    spec = {"template": {"spec": {"containers": [container(cpu)]}}}
    if spelling == "strategic":
        return sending("PATCH", path, STRATEGIC_PATCH, {"spec": spec}, promise)
    return sending("PATCH", path, MERGE_PATCH, {"spec": spec}, promise._replace(side_m=0))  # it replaces the whole list


def create(key: Key, replicas: int, cpu: str, label: str = "") -> Sent:
    """A POST of the object."""
    claim_gi = CLAIM_GI if kind_of(key).kind == "StatefulSet" else 0
    promise = Promise(key, replicas, milli(cpu), label or tier(key[1]), creates=True, side_m=0, claim_gi=claim_gi)
    return sending("POST", kind_of(key).path(key[0]), JSON, workload(key, replicas, cpu, label), promise)


def dry(sent: Sent) -> Sent:
    """The same as a dry run."""
    return sent._replace(
        request=sent.request._replace(
            target=f"{sent.request.target}{'&' if '?' in sent.request.target else '?'}dryRun=All"
        ),
        dry=True,
    )


def sending(method: str, path: str, content_type: str, body: Tree, promise: Promise) -> Sent:
    """A write, with its bytes."""
    headers = {"content-type": content_type} if content_type else {}
    return Sent(Request(method, path, headers, json.dumps(body).encode()), body, promise)


def _counting(method: str, path: str, content_type: str, body: Tree, promise: Promise) -> Sent:
    return sending(method, path, content_type, body, promise)._replace(counts=True)


class Kind(NamedTuple):
    """A kind of object, as the API server knows it."""

    api: str
    kind: str
    plural: str
    gated_whole: bool = True
    """Gates weigh a write of the whole object too, not only one of its scale."""

    @property
    def collection(self) -> str:
        """The path of all of them."""
        return f"/{'api' if '/' not in self.api else 'apis'}/{self.api}/{self.plural}"

    def path(self, namespace: str, name: str = "") -> str:
        """Of one object; without a name, of where it is made."""
        root = self.collection.rpartition("/")[0]
        return f"{root}/namespaces/{namespace}/{self.plural}" + (f"/{name}" if name else "")


_DEPLOYMENT = Kind("apps/v1", "Deployment", "deployments")
REPLICA_SET = Kind("apps/v1", "ReplicaSet", "replicasets")

KINDS: Mapping[str, Kind] = {
    "deploy": _DEPLOYMENT,
    "roll": _DEPLOYMENT,
    "rs": REPLICA_SET,
    "sts": Kind("apps/v1", "StatefulSet", "statefulsets"),
    "tin": Kind("ops.example.com/v1", "Tin", "tins", gated_whole=False),
}
"""By the word in a name. A ``roll`` is a Deployment whose controller is at work: it has ReplicaSets."""

COLLECTIONS = tuple(dict.fromkeys(kind.collection for kind in KINDS.values()))

CPUS = ("250m", "500m", "1", "2")
"""What a container may request."""

CLAIM_GI = 2
"""What the claim of each replica of a StatefulSet asks for."""


def word_of(name: str) -> str:
    """The word of ``KINDS`` in a workload's name."""
    return name.split("-")[1]


def kind_of(key: Key) -> Kind:
    """Of a workload."""
    return KINDS[word_of(key[1])]


def tier(name: str) -> str:
    """The label that workloads are made with, by their names."""
    return name.split("-", 1)[0]


def milli(cpu: str) -> int:
    """Thousandths of a CPU."""
    return int(cpu[:-1]) if cpu.endswith("m") else int(cpu) * 1000


def workload_of(key: Key) -> Key:
    """Whose an object is, by its name: a ReplicaSet's or a claim's owner, or the workload itself."""
    found = _NAME.search(key[1])
    return (key[0], found[0]) if found is not None else key


_NAME = re.compile(rf"[a-z]+-({'|'.join(KINDS)})-[0-9]+")
