"""Claims of devices (DRA): how many of each class a claim may take, as ResourceQuota counts them.

Source: ``pkg/quota/v1/evaluator/core/resource_claims.go`` and ``k8s.io/api/resource/v1/types.go`` (KEP-4381).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from extauthz.core.errors import ObjectError
from extauthz.core.model import Template, Tree
from extauthz.core.objects.fields import boolean, items, mapping, text
from extauthz.core.objects.workloads import intern

ALL: Final = 32
"""The most devices that a claim can have (``AllocationResultsMaxSize``): what ``allocationMode: All`` may take."""

POD_CLAIM: Final = "resource.kubernetes.io/pod-claim-name"
"""Annotation of a claim that was made for a pod: which of the pod's claims it is (``PodResourceClaimAnnotation``)."""

_INT32: Final = 2**31


def claim_template(root: Mapping[str, Tree]) -> Template:
    """What each claim of a ResourceClaimTemplate may take. Raises ObjectError."""
    spec = mapping(root.get("spec"), "spec")
    return intern(_taken(mapping(spec.get("spec"), "spec.spec"), "spec.spec"))


def claim(root: Mapping[str, Tree]) -> Template:
    """What a ResourceClaim may take, and which claim of its pod it is. Raises ObjectError."""
    metadata = mapping(root.get("metadata"), "metadata")
    annotations = mapping(metadata.get("annotations"), "metadata.annotations")
    name = text(annotations.get(POD_CLAIM), f"metadata.annotations[{POD_CLAIM}]")
    return intern(_taken(mapping(root.get("spec"), "spec"), "spec") | {"of": name})


def extended_name(root: Mapping[str, Tree]) -> str:
    """The extended resource that a DeviceClass stands for; empty: none. Raises ObjectError."""
    return text(mapping(root.get("spec"), "spec").get("extendedResourceName"), "spec.extendedResourceName")


def _taken(spec: Mapping[str, Tree], path: str) -> dict[str, Tree]:
    """``{"devices": {class: count}, "admin": {class: count}}``: without, and with administrators' access.

    ``unknown``: some request is of a form that nobody knows yet.
    """
    path = f"{path}.devices"
    found: dict[str, Counter[str]] = {"devices": Counter(), "admin": Counter()}
    unknown = False
    for request, at in items(mapping(spec.get("devices"), path).get("requests"), f"{path}.requests"):
        exactly = mapping(request.get("exactly"), f"{at}.exactly")
        either = (
            [(exactly, f"{at}.exactly")]
            if exactly
            else list(items(request.get("firstAvailable"), f"{at}.firstAvailable"))
        )
        unknown = unknown or not either
        dearest: Counter[str] = Counter()
        for one, where in either:  # of each class the most, whichever is taken
            count = _count(one, where)
            unknown = unknown or count is None
            dearest |= Counter({text(one.get("deviceClassName"), f"{where}.deviceClassName"): count or 0})
        kind = "admin" if boolean(exactly.get("adminAccess"), f"{at}.exactly.adminAccess") else "devices"
        found[kind].update(dearest)
    kept: dict[str, Tree] = {kind: dict(counts) for kind, counts in found.items() if counts}
    return {"devices": {}} | kept | ({"unknown": True} if unknown else {})


def _count(request: Mapping[str, Tree], path: str) -> int | None:
    """How many devices it may take; ``None``: nobody knows. Raises ObjectError."""
    mode = text(request.get("allocationMode"), f"{path}.allocationMode") or "ExactCount"
    if mode != "ExactCount":
        return ALL if mode == "All" else None
    count = request.get("count")
    if count is None:
        return 1
    if type(count) is not int or not 0 <= count < _INT32:
        raise ObjectError(f"{path}.count", "must be a whole number of devices")
    return count
