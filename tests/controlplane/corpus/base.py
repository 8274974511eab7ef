"""What a spelling is, and short ways to write many of them."""

from __future__ import annotations

import copy
import json
from typing import Any, NamedTuple

from tests.controlplane.fixtures import path_of

Tree = Any
Headers = tuple[tuple[str, str], ...]

WEB = "deployments.apps default/web"
DB = "statefulsets.apps default/db"
CREW = "replicasets.apps default/crew"
OLD = "replicationcontrollers default/old"
GIZMO = "gadgets.example.dev default/gizmo"
KNOB = "widgets.example.dev default/knob"
APPLIED = "deployments.apps default/applied"
IDLE = "deployments.apps default/idle"
SHARED = "deployments.apps default/shared"
LIMITS_ONLY = "deployments.apps default/limits-only"
NAKED = "deployments.apps default/naked"

JSON = "application/json"
YAML = "application/yaml"
CBOR = "application/cbor"
PROTOBUF = "application/vnd.kubernetes.protobuf"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
APPLY_CBOR = "application/apply-patch+cbor"

GROWN = 5
"""The fixtures have two replicas, ``idle`` none; most spellings ask for this many."""

SCALE = path_of(WEB) + "/scale"
PLAIN = path_of(WEB)


class Spelling(NamedTuple):
    """One request, and why it is in the corpus. ``@rv@`` and ``@uid@`` in the body stand for the object's own."""

    id: str
    why: str
    before: str
    method: str
    target: str
    headers: Headers
    body: bytes
    ordinary: bool = False
    """What an honest tool would send: must never be unreadable."""
    version: str = "1.1"
    chunked: bool = False
    server: str = "default"
    """``cbor``: an API server with the feature gate CBORServingAndStorage."""
    echo: tuple[str, bytes, bytes] | None = None
    """(media type, old, new): the body is what the server itself prints at the path, with the first old made new."""


def dump(tree: Tree) -> bytes:
    """Compact JSON; bytes and text pass through."""
    if isinstance(tree, bytes):
        return tree
    return tree.encode() if isinstance(tree, str) else json.dumps(tree, separators=(",", ":")).encode()


def patch(
    id: str,
    why: str,
    body: Tree,
    content_type: str = MERGE,
    target: str = SCALE,
    before: str = WEB,
    **more: Any,
) -> Spelling:
    """A PATCH; *body* is a tree, text or bytes."""
    return Spelling(id, why, before, "PATCH", target, (("content-type", content_type),), dump(body), **more)


def put(
    id: str,
    why: str,
    body: Tree,
    content_type: str = JSON,
    target: str = SCALE,
    before: str = WEB,
    **more: Any,
) -> Spelling:
    """A PUT."""
    return Spelling(id, why, before, "PUT", target, (("content-type", content_type),), dump(body), **more)


def post(id: str, why: str, body: Tree, content_type: str = JSON, before: str = WEB, **more: Any) -> Spelling:
    """A POST to the collection of *before*, or to ``target``."""
    target = more.pop("target", path_of(before).rpartition("/")[0])
    return Spelling(id, why, before, "POST", target, (("content-type", content_type),), dump(body), **more)


def scale(replicas: Tree = GROWN, name: str = "web", **metadata: Tree) -> Tree:
    """A Scale as the HPA writes it."""
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {"replicas": replicas},
    }


def to(replicas: Tree = GROWN) -> Tree:
    """The merge patch that sets replicas."""
    return {"spec": {"replicas": replicas}}


def pods(**spec: Tree) -> Tree:
    """A patch of the pod template's spec."""
    return {"spec": {"template": {"spec": spec}}}


def changed(tree: Tree, **spec: Tree) -> Tree:
    """A copy of an object with fields of its spec set, or left out where the value is ``...``."""
    out = copy.deepcopy(tree)
    for key, value in spec.items():
        if value is ...:
            out["spec"].pop(key, None)
        else:
            out["spec"][key] = value
    return out


def with_meta(tree: Tree, **metadata: Tree) -> Tree:
    """A copy of an object with fields of its metadata set."""
    out = copy.deepcopy(tree)
    out["metadata"].update(metadata)
    return out
