"""The document that a patch is applied to: a workload or its scale, as far as the gate knows it.

The count, the version and the uid are hidden in it. Others change them while a patch is under way, so that nothing may
be copied from them. A patch that leaves the count where it is leaves any count as it is.
"""

from __future__ import annotations

import json

from extauthz.core.model import Observed, Template, Tree, WorkloadRef
from extauthz.core.objects.metadata import labels_dict
from extauthz.core.objects.partial import Hidden, Partial


def document(ref: WorkloadRef, observed: Observed | None) -> Partial:
    """The workload's own document. What is hidden, or was not observed, is ``Hidden.BASE``.

    ``resources`` are always there, as the API server prints them even when they are empty, and so are labels, so
    that a patch that adds the first one can be read.
    """
    metadata = _metadata(ref) | {"labels": Hidden.BASE if observed is None else labels_dict(observed.labels)}
    spec: dict[str, Tree] = {"replicas": Hidden.BASE} | _template(None if observed is None else observed.template)
    return Partial("object", {"metadata": Partial("metadata", metadata), "spec": Partial("spec", spec)})


def scale_document(ref: WorkloadRef) -> Partial:
    """The workload's ``Scale`` (autoscaling/v1), whose spec has nothing but the replicas."""
    spec: dict[str, Tree] = {"replicas": Hidden.BASE}
    return Partial("object", {"metadata": Partial("metadata", _metadata(ref)), "spec": spec})


def _metadata(ref: WorkloadRef) -> dict[str, Tree]:
    named = {"name": ref.name, "namespace": ref.namespace}
    return named | {"uid": Hidden.BASE, "resourceVersion": Hidden.BASE}


def _template(template: Template | None) -> dict[str, Tree]:
    if template is None:
        return {"template": Hidden.BASE, "volumeClaimTemplates": Hidden.BASE}
    tree = json.loads(template.text)
    spec: dict[str, Tree] = {"template": Partial("template", {"spec": _pod(tree["template"]["spec"])})}
    if "volumeClaimTemplates" in tree:
        spec["volumeClaimTemplates"] = [_claim(claim) for claim in tree["volumeClaimTemplates"]]
    if "ordinals" in tree:
        spec["ordinals"] = tree["ordinals"]
    return spec


def _pod(pod: dict[str, Tree]) -> Partial:
    lists: dict[str, list[Tree]] = {
        key: [Partial("container", {"resources": {}} | item) for item in pod[key]]
        for key in ("containers", "initContainers")
        if key in pod
    }
    if "volumes" in pod:
        lists["volumes"] = [_volume(volume) for volume in pod["volumes"]]
    return Partial("pod", pod | lists)


def _volume(volume: dict[str, Tree]) -> Partial:
    if "ephemeral" in volume:
        claim = _claim(volume["ephemeral"]["volumeClaimTemplate"])
        volume = volume | {"ephemeral": {"volumeClaimTemplate": claim}}
    return Partial("volume", volume)


def _claim(claim: dict[str, Tree]) -> Partial:
    spec = Partial("claim-spec", {"resources": {}} | claim["spec"])
    metadata = Partial("claim-metadata", claim.get("metadata", {}))
    return Partial("claim", {"metadata": metadata, "spec": spec})
