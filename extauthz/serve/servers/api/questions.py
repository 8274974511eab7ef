"""What the bodies of questions ask: workloads by name, writes, and objects that do not exist yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from extauthz.core.fitting import scaled
from extauthz.core.intake.admission import manifest as read_manifest
from extauthz.core.kinds import ADMITTED, BY_NAME, BY_PATH, GATED
from extauthz.core.model import Kind, Observed, Reading, Unreadable, WorkloadRef, Write
from extauthz.core.objects.custom import NO_CUSTOMS, Customs
from extauthz.core.objects.fields import MAX_REPLICAS, at
from extauthz.serve.servers.api.rights import Problem
from extauthz.serve.servers.api.shown import Json

REPLICAS = ("spec", "replicas")
"""Where the kinds that every cluster has have their count."""

MOST_IN_BATCH = 100
"""Workloads of one question about headroom."""


class Manifest(NamedTuple):
    """An object that somebody thinks of creating."""

    ref: WorkloadRef
    """``name`` may be empty."""
    made: Write | Unreadable
    """What makes it."""
    has_count: bool
    """It says how many replicas."""

    def whole(self, there: Observed | None) -> Reading:
        """The write that makes it as it stands. A count that it leaves out stays as it is ``there``."""
        return self.made if there is None or self.has_count else self.reading(there.replicas)

    def reading(self, replicas: int) -> Reading:
        """The write that makes it with so many replicas. Where it exists, that is weighed as the change to it."""
        if isinstance(self.made, Unreadable) or self.made.object is None:
            return self.made
        return self.made._replace(replicas=replicas, object=replace(self.made.object, replicas=replicas))


def reference(asked: Mapping[str, Any]) -> WorkloadRef:
    """A workload by ``namespace``, ``resource`` and ``name``.

    Raises:
        Problem: one of them is missing, or the resource has no replicas.
    """
    for field in ("namespace", "resource", "name"):
        if not isinstance(asked.get(field), str) or not asked[field] or "/" in asked[field]:
            raise Problem(400, f"{field}: must be a text, such as namespace shop, resource deployments.apps, name web")
    plural, _, group = asked["resource"].partition(".")
    key = BY_PATH.get((group, plural), (group, plural))
    return WorkloadRef(key[0], key[1], asked["namespace"], asked["name"])


def batch(asked: Json) -> list[WorkloadRef | Problem] | None:
    """The workloads that a question names, or what is wrong with each; ``None``: it is about a new object."""
    if "object" in asked or "template" in asked:
        return None
    given = asked.get("workloads")
    if not isinstance(given, list) or len(given) > MOST_IN_BATCH:
        raise Problem(
            400, f"workloads: must be a list of at most {MOST_IN_BATCH} workloads; or give an object or a template"
        )
    return [_reference_or_problem(one) for one in given]


def _reference_or_problem(one: object) -> WorkloadRef | Problem:
    try:
        return reference(one if isinstance(one, dict) else {})
    except Problem as problem:
        return problem


def manifest(asked: Json, customs: Customs = NO_CUSTOMS) -> Manifest:
    """The object that a question brings, or a Deployment of the pod template that it brings.

    Args:
        customs: custom resources that it may be of, beside the kinds that every cluster has.

    Raises:
        Problem: it is none, or no workload.
    """
    document = mapping(asked, "object") if "object" in asked else _deployment(mapping(asked, "template"))
    metadata = document["metadata"] = dict(mapping(document, "metadata"))
    if "namespace" in asked and metadata.setdefault("namespace", asked["namespace"]) != asked["namespace"]:
        raise Problem(400, f"namespace: the object is in {metadata['namespace']}; leave one of the two out")
    group, _, _ = str(document.get("apiVersion", "")).rpartition("/")
    key = _kind(group, str(document.get("kind")), customs)
    name, namespace = metadata.get("name", ""), metadata.get("namespace", "")
    if not _is_name(namespace) or not (_is_name(name) or metadata.get("generateName")):
        raise Problem(400, "object.metadata: must have a namespace and a name")
    ref = WorkloadRef(*key, namespace, name)
    mapping(document, "spec")
    shapes = customs.shapes.get(key, {}).values()
    has_count = any(at(document, *path) is not None for path in ({one.replicas for one in shapes} or {REPLICAS}))
    has_count = has_count or key in {kind.key for kind in ADMITTED}
    return Manifest(ref, read_manifest(ref, document, customs.shapes), has_count)


def _kind(group: str, name: str, customs: Customs) -> Kind:
    """API group and plural. Raises Problem: it has no replicas, as far as is known."""
    kind, plural = BY_NAME.get((group, name)), customs.resources.get((group, name))
    if kind is not None and (kind.is_gated or kind.is_admitted):
        return kind.key
    if plural is None:
        known = ", ".join(kind.name for kind in (*GATED, *ADMITTED))
        raise Problem(
            400, f"object.kind: must be one of {known}, or of a known definition with a scale, not {name[:63]!r}"
        )
    return group, plural


def _is_name(text: object) -> bool:
    return isinstance(text, str) and text != "" and "/" not in text


def _deployment(template: Json) -> Json:
    labels = mapping(template, "metadata").get("labels") if "metadata" in template else None
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"generateName": "new-", "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def write(asked: Json, customs: Customs = NO_CUSTOMS) -> Write | Manifest:
    """The write that is to be decided: of a workload to a count, or an object as the webhook would be shown it.

    Raises:
        Problem: a field is wrong.
    """
    if "object" in asked:
        return manifest(asked, customs)
    ref, replicas = reference(asked), asked.get("replicas")
    if type(replicas) is not int or not 0 <= replicas <= MAX_REPLICAS:
        raise Problem(400, f"replicas: must be a whole number from 0 to {MAX_REPLICAS}")
    return scaled(ref, replicas)


def mapping(asked: Json, field: str) -> Json:
    """A field that must be an object. Raises Problem."""
    found = asked.get(field)
    if not isinstance(found, dict):
        raise Problem(400, f"{field}: must be an object")
    return found
