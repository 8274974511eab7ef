"""What a gate gets to read of a request: a count at Envoy, or the AdmissionReview of the object that comes of it."""

from __future__ import annotations

import json
from typing import Any

from extauthz.core.intake import admission, counts
from extauthz.core.intake.counts import read
from extauthz.core.kinds import BY_KEY
from extauthz.core.model import NotACount, Observed, Reading, Request, Unreadable, WorkloadRef
from extauthz.core.objects.fields import labels_dict
from extauthz.simulate import patches

_APPLY = "application/apply-patch+yaml"


def reading(request: Request, observed: Observed | None) -> Reading:
    """``observed`` is what the request finds. As an API server does it, the webhook is shown whole objects."""
    found = read(request)
    if not isinstance(found, NotACount):
        return found
    old = document(found.ref, observed) if observed is not None else None
    body, content_type = json.loads(request.body), request.headers.get("content-type", "")
    if request.method == "PATCH" and old is None and content_type != _APPLY:
        return Unreadable("not-found", "an API server patches no object that is not there", found.ref)
    new = body if request.method != "PATCH" or old is None else patches.apply(old, content_type, body)
    if request.method == "POST":
        old = None
    named = {"name": found.ref.name} if found.ref.name else {}
    new = new | {"metadata": {"namespace": found.ref.namespace} | named | new.get("metadata", {})}
    asked = admission.read(json.dumps(review(found.ref, new, old, request.target)).encode())
    return asked.question.reading if isinstance(asked, admission.Review) else asked


def review(ref: WorkloadRef, new: Any, old: Any, target: str) -> dict[str, Any]:  # noqa: ANN401 (any object)
    """The AdmissionReview of an object that an API server is about to store in place of ``old``."""
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "resource": {"group": ref.group, "version": "v1", "resource": ref.resource},
        "name": ref.name,
        "namespace": ref.namespace,
        "operation": "CREATE" if old is None else "UPDATE",
        "userInfo": {},
        "object": new,
        "oldObject": old,
        "dryRun": counts.dry_run(target.partition("?")[2]),
    }
    return {"apiVersion": admission.API_VERSION, "kind": admission.KIND, "request": request}


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
    api = f"{ref.group}/v1" if ref.group else "v1"
    return {"apiVersion": api, "kind": BY_KEY[ref[:2]].name, "metadata": metadata, "spec": spec}
