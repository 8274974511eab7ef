"""Small builders of Kubernetes objects, quotas, requests and gates, for our own tests and our users'."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from extauthz.core.decision.cluster_state import Snapshot
from extauthz.core.decision.gate import Gate
from extauthz.core.decision.policy import Policy
from extauthz.core.intake import admission as intake
from extauthz.core.intake import counts
from extauthz.core.intake.counts import read
from extauthz.core.kinds import BY_KEY
from extauthz.core.model import (
    Decision,
    NotACount,
    Observed,
    Reading,
    Request,
    Requester,
    Unreadable,
    WorkloadRef,
)
from extauthz.core.objects.fields import labels_dict
from extauthz.core.objects.workloads import observe
from extauthz.core.quota.spec import WorkspaceQuota, parse
from extauthz.core.quota.tree import QuotaTree
from extauthz.demo import patches

Tree = Any

PATCH_TYPES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


def quota(
    name: str,
    hard: Mapping[str, str],
    *,
    parent: str | None = None,
    namespaces: Mapping[str, str] | None = None,
    workloads: Mapping[str, str] | None = None,
    mode: str = "Enforce",
    on_unknown: Mapping[str, str] | None = None,
    requesters: Mapping[str, Any] | None = None,
    guaranteed: Mapping[str, str] | None = None,
    turn_s: int | None = None,
    weight: int | None = None,
) -> WorkspaceQuota:
    """A WorkspaceQuota, by default over the namespaces labelled ``workspace=<name>``.

    A quota with a ``parent`` and none of its own label is written with ``namespaces={}``: it then covers all.
    """
    spec: dict[str, Any] = {"hard": dict(hard), "mode": mode}
    spec["namespaceSelector"] = {"matchLabels": {"workspace": name} if namespaces is None else dict(namespaces)}
    if guaranteed is not None:
        spec["guaranteed"] = dict(guaranteed)
    if turn_s is not None:
        spec["sharing"] = {"turns": "Share", "turnSeconds": turn_s}
    if weight is not None:
        spec["sharing"] = {"weight": weight}
    if on_unknown is not None:
        spec["onUnknown"] = dict(on_unknown)
    if requesters is not None:
        spec["requesters"] = dict(requesters)
    if workloads is not None:
        spec["workloadSelector"] = {"matchLabels": dict(workloads)}
    if parent is not None:
        spec["parent"] = parent
    tree = {"apiVersion": "extauthz.dev/v1alpha1", "kind": "WorkspaceQuota", "metadata": {"name": name}, "spec": spec}
    return parse(tree)


def pod(requests: Mapping[str, str], limits: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A pod template of one container."""
    resources = {"requests": dict(requests), **({"limits": dict(limits)} if limits else {})}
    return {"metadata": {}, "spec": {"containers": [{"name": "main", "image": "x", "resources": resources}]}}


def workload(
    name: str = "web",
    replicas: int | None = 1,
    requests: Mapping[str, str] | None = None,
    *,
    kind: str = "Deployment",
    namespace: str = "team-a",
    labels: Mapping[str, str] | None = None,
    version: str = "1",
    **metadata: Any,  # noqa: ANN401 (any field of metadata)
) -> dict[str, Any]:
    """A Deployment, StatefulSet or ReplicaSet as the API server prints it; one CPU a pod unless told."""
    labels = {"app": name} if labels is None else dict(labels)
    spec: dict[str, Any] = {
        "selector": {"matchLabels": {"app": name}},
        "template": pod({"cpu": "1"} if requests is None else requests),
    }
    if replicas is not None:
        spec["replicas"] = replicas
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": version, "labels": labels}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta | metadata, "spec": spec}


def owned_by(name: str, uid: str | None = None, kind: str = "Deployment") -> list[dict[str, Any]]:
    """``metadata.ownerReferences`` of a controller."""
    return [{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid or f"uid-{name}", "controller": True}]


def snapshot(*objects: Mapping[str, Any], namespaces: Mapping[str, Mapping[str, str]] | None = None) -> Snapshot:
    """The cluster that holds ``objects``; by default one namespace ``team-a`` of workspace ``acme``."""
    known = {"team-a": {"workspace": "acme"}} if namespaces is None else namespaces
    return Snapshot({name: dict(labels) for name, labels in known.items()}, [observe(one) for one in objects])


def gate(
    quotas: Sequence[WorkspaceQuota],
    *objects: Mapping[str, Any],
    namespaces: Mapping[str, Mapping[str, str]] | None = None,
    policy: Policy | None = None,
) -> Gate:
    """A synced gate over ``quotas`` and ``objects``; the landing window is 90 s unless ``policy`` says otherwise."""
    made = Gate(policy or Policy(window_s=90.0))
    made.load_quotas(QuotaTree.build(quotas), 0.0)
    made.load_state(snapshot(*objects, namespaces=namespaces), 0.0)
    return made


def path(name: str = "web", *, namespace: str = "team-a", resource: str = "deployments", sub: str = "") -> str:
    """The target of a workload of ``apps/v1``; ``name=""`` is its collection."""
    tail = f"/{name}" if name else ""
    return f"/apis/apps/v1/namespaces/{namespace}/{resource}{tail}{f'/{sub}' if sub else ''}"


def patch(target: str, body: Any, kind: str = "merge") -> Request:  # noqa: ANN401 (any JSON)
    """A PATCH of ``kind`` json, merge, strategic or apply."""
    return Request("PATCH", target, {"content-type": PATCH_TYPES[kind]}, json.dumps(body).encode())


def scale(name: str = "web", replicas: int = 1, *, namespace: str = "team-a", resource: str = "deployments") -> Request:
    """What Knative's autoscaler sends from 1.22 on: a JSON Patch of the scale."""
    operations = [{"op": "add", "path": "/spec/replicas", "value": replicas}]
    return patch(path(name, namespace=namespace, resource=resource, sub="scale"), operations, "json")


def put_scale(name: str = "web", replicas: int = 1, version: str = "", *, namespace: str = "team-a") -> Request:
    """What the HPA sends: a PUT of the scale, with its precondition and without a content-type."""
    metadata = {"name": name, "namespace": namespace, **({"resourceVersion": version} if version else {})}
    body = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": {"replicas": replicas}}
    return Request("PUT", path(name, namespace=namespace, sub="scale"), {}, json.dumps(body).encode())


def create(obj: Mapping[str, Any], *, query: str = "") -> Request:
    """A POST of ``obj`` to its collection."""
    resource = f"{obj['kind'].lower()}s"
    target = path("", namespace=obj["metadata"]["namespace"], resource=resource) + query
    return Request("POST", target, {"content-type": "application/json"}, json.dumps(obj).encode())


class Asker:
    """Asks a gate with ids of its own making (``prefix`` and a number) and a clock that the test moves.

    Counts come as Envoy brings them, objects as a webhook is shown them.
    """

    def __init__(self, asked: Gate, prefix: str = "d") -> None:
        self.gate = asked
        self._prefix = prefix
        self.now_s = 0.0
        self.count = 0

    def __call__(self, request: Request, *, charge: bool = True, by: Requester | None = None) -> Decision:
        self.count += 1
        found, name = shown(self.gate, request), f"{self._prefix}{self.count}"
        return self.gate.decide(found, name, self.now_s, source=request.source, charge=charge, requester=by)


def shown(asked: Gate, request: Request) -> Reading:
    """What a gate reads of a request: a count at Envoy; else what an API server that stores what the gate has observed
    shows to its webhook, which is whole objects."""
    found = read(request)
    if not isinstance(found, NotACount):
        return found
    entry = asked.ledger.get(found.ref)
    old = document(found.ref, entry.observed) if entry is not None and entry.observed is not None else None
    body, content_type = json.loads(request.body), request.headers.get("content-type", "")
    if request.method == "PATCH" and old is None and content_type != PATCH_TYPES["apply"]:
        return Unreadable("not-found", "an API server patches no object that is not there", found.ref)
    new = body if request.method != "PATCH" or old is None else patches.apply(old, content_type, body)
    if request.method == "POST":
        old = None
    named = {"name": found.ref.name} if found.ref.name else {}
    new = new | {"metadata": {"namespace": found.ref.namespace} | named | new.get("metadata", {})}
    told = intake.read(json.dumps(review(found.ref, new, old, request.target)).encode())
    return told.question.reading if isinstance(told, intake.Review) else told


def review(ref: WorkloadRef, new: Tree, old: Tree, target: str) -> dict[str, Any]:
    """The AdmissionReview of an object that an API server is about to store in place of ``old``."""
    named: Tree = {"resource": {"group": ref.group, "version": "v1", "resource": ref.resource}, "name": ref.name}
    named |= {"namespace": ref.namespace, "userInfo": {}, "dryRun": counts.dry_run(target.partition("?")[2])}
    return admission(new, old, **named)


def document(ref: WorkloadRef, observed: Observed) -> dict[str, Any]:
    """The object of which so much was kept."""
    metadata: dict[str, Any] = {"name": ref.name, "namespace": ref.namespace, "labels": labels_dict(observed.labels)}
    named = {"uid": observed.uid, "resourceVersion": observed.resource_version}
    metadata |= {key: value for key, value in named.items() if value}
    if observed.owner is not None:
        group, kind, name, uid = observed.owner
        api = f"{group}/v1" if group else "v1"
        metadata["ownerReferences"] = [{"apiVersion": api, "kind": kind, "name": name, "uid": uid, "controller": True}]
    spec: dict[str, Any] = {"replicas": observed.replicas}
    if observed.selector:
        spec["selector"] = {"matchLabels": labels_dict(observed.selector)}
    if observed.template is not None:
        spec |= json.loads(observed.template.text)
    if (surge := spec.pop("maxSurge", None)) is not None:
        spec["strategy"] = {"rollingUpdate": {"maxSurge": surge}}
    api = f"{ref.group}/v1" if ref.group else "v1"
    return {"apiVersion": api, "kind": BY_KEY[ref[:2]].name, "metadata": metadata, "spec": spec}


def admission(
    new: Mapping[str, Any] | None,
    old: Mapping[str, Any] | None = None,
    *,
    subresource: str = "",
    user: str = "system:serviceaccount:kube-system:horizontal-pod-autoscaler",
    uid: str = "705ab4f5-6393-11e8-b7cc-42010a800002",
    **request: Any,  # noqa: ANN401 (any field of the request)
) -> dict[str, Any]:
    """What an API server asks a webhook before it stores ``new`` in place of ``old`` (``None``: there is none).

    Of a Deployment unless ``request`` names another ``resource``.
    """
    metadata = (new or old or {}).get("metadata", {})
    given = {
        "uid": uid,
        "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
        "name": metadata.get("name", ""),
        "namespace": metadata.get("namespace", ""),
        "operation": "CREATE" if old is None else "UPDATE",
        "userInfo": {"username": user},
        "object": new,
        "oldObject": old,
        "dryRun": False,
        **({"subResource": subresource} if subresource else {}),
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": given | request}


def scale_object(name: str = "web", replicas: int = 1, version: str = "1", *, namespace: str = "team-a") -> Any:  # noqa: ANN401
    """A Scale as an API server shows it to a webhook."""
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": version}
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": {"replicas": replicas}}
