"""What the reader makes of a request, set beside what a real API server made of it."""

from __future__ import annotations

import base64
import copy
import json
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from extauthz import testing as builders
from extauthz.core import footprint
from extauthz.core.intake import admission
from extauthz.core.model import Observed, Reading, Request, Template, WorkloadRef
from extauthz.core.objects.fields import labels_text
from extauthz.core.objects.workloads import observe
from tests.controlplane.fixtures import REPLICAS_PATHS

Tree = Any


class State(NamedTuple):
    """What a quota sees of an object: its count, the cost of a pod, its labels."""

    replicas: int
    cost: Mapping[str, int]
    labels: str


def ref_of(text: str) -> WorkloadRef:
    """``deployments.apps default/web`` as the gate names it."""
    group_resource, _, place = text.partition(" ")
    resource, _, group = group_resource.partition(".")
    return WorkloadRef(group, resource, *place.split("/"))


def base_of(ref: str, tree: Tree) -> Observed | None:
    """The object as an informer would have it; None where there is none."""
    if tree is None:
        return None
    if not is_custom(ref):
        return observe(tree)[1]
    count = tree
    for step in REPLICAS_PATHS.get(ref.partition(" ")[0], ("spec", "replicas")):
        count = count[step]
    return Observed(count, None, uid=tree["metadata"]["uid"], resource_version=tree["metadata"]["resourceVersion"])


def is_custom(ref: str) -> bool:
    """Whether it is one of the fixtures' custom resources."""
    return ref.partition(" ")[0].endswith(".example.dev")


def cost(template: Template | None) -> Mapping[str, int]:
    """The footprint of a template; nothing of what has none."""
    return footprint.per_pod(json.loads(template.text)) if template is not None else {}


def state_of(observed: Observed | None) -> State:
    """What is there."""
    if observed is None:
        return State(0, {}, "")
    return State(observed.replicas, cost(observed.template), observed.labels)


def after(before: State, change: Tree) -> State:
    """What the server made of ``before``, from a row's record of the difference."""
    return State(
        change.get("replicas", before.replicas) or 0,
        footprint.per_pod(change["template"]) if "template" in change else before.cost,
        labels_text(change["labels"]) if "labels" in change else before.labels,
    )


def grew(before: State, now: State) -> bool:
    """Whether the whole of it costs more of anything."""
    return now.replicas > before.replicas or any(
        now.replicas * amount > before.replicas * before.cost.get(key, 0) for key, amount in now.cost.items()
    )


def stored(ref: str, tree: Tree, change: Tree) -> Tree:
    """The object that the server stored in place of ``tree``, as far as a quota sees it."""
    made = copy.deepcopy(tree) if tree is not None else {"metadata": {}, "spec": {}}
    made["metadata"] |= {"namespace": ref_of(ref).namespace, "name": ref_of(ref).name}
    made["metadata"] |= {"labels": change["labels"]} if "labels" in change else {}
    made["spec"] |= {"replicas": change["replicas"]} if "replicas" in change else {}
    if "template" in change:
        made["spec"].pop("volumeClaimTemplates", None)
        made["spec"] |= change["template"]
    return made


def shown(ref: str, tree: Tree, change: Tree, *, scale: bool) -> Reading:
    """What a webhook that is shown the stored object, or its scale, in place of ``tree`` reads."""
    group, resource, namespace, name = ref_of(ref)
    new = stored(ref, tree, change)
    if scale:
        new = builders.scale_object(name, change["replicas"], namespace=namespace)
    resources = {"group": group, "version": "v1", "resource": resource}
    asked = builders.admission(new, tree, subresource="scale" if scale else "", resource=resources)
    review = admission.read(json.dumps(asked).encode())
    assert isinstance(review, admission.Review), review
    return review.question.reading


def same_object(written: WorkloadRef, ref: WorkloadRef) -> bool:
    """The path of a create says no name."""
    return written in (ref, ref._replace(name=""))


def packed_body(request: Tree) -> bytes:
    """The body of a row's request: ``body`` is text, ``body_b64`` bytes, ``body_zlib_b64`` a long one."""
    if "body" in request:
        return str(request["body"]).encode()
    packed = request.get("body_zlib_b64")
    return zlib.decompress(base64.b64decode(packed)) if packed else base64.b64decode(request["body_b64"])


def as_a_door_hands_it_over(method: str, target: str, headers: list[list[str]], body: bytes) -> Request:
    """Header names lowered, and doubled headers joined by a comma, as Envoy does it."""
    joined: dict[str, str] = {}
    for name, value in headers:
        joined[name.lower()] = f"{joined[name.lower()]},{value}" if name.lower() in joined else value
    return Request(method, target, joined, body)
