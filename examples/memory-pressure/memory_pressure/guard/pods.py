"""What the guard knows of a pod: whether it may be lowered, to what, and what was changed of it. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from extauthz.core import quantities
from extauthz.core.model import Tree
from extauthz.core.quantities import QuantityError

ANNOTATION: Final = "extauthz.dev/guard"
"""On a pod: what is lowered, as JSON: ``{"app": {"limit": "500m", "lowered": "10m"}}``."""

LABEL: Final = ("extauthz.dev/guard", "pause")
"""Only pods that have it may be lowered."""

CRITICAL: Final = 2_000_000_000
"""From here on the kubelet takes a priority for critical (``k8s.io/kubernetes/pkg/apis/scheduling``)."""

NOTHING_LEFT: Final = "no container has a CPU limit that can be lowered"

MILLI: Final = quantities.NANO // 1000

FLOOR: Final = 10 * MILLI
"""The kubelet gives no container less of a limit."""


class Change(NamedTuple):
    """The CPU limit of one container."""

    container: str
    limit: str
    """Before."""
    lowered: str


class Pod(NamedTuple):
    """One pod in a namespace of the guard."""

    namespace: str
    name: str
    uid: str
    version: str
    node: str
    limits: Mapping[str, str]
    """Container → its CPU limit now."""
    why_not: str
    """Why it is not lowered; empty: it may be."""
    possible: tuple[Change, ...]
    """What lowering would change."""
    lowered: tuple[Change, ...] | None
    """What the annotation says was changed; ``None``: there is none."""
    is_unreadable: bool
    """There is an annotation that the guard has not written so."""

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def read(tree: Tree) -> Pod | None:
    """A pod as the API server serves it; ``None`` if it runs nowhere, or no longer."""
    metadata, spec = tree["metadata"], tree["spec"]
    node = spec.get("nodeName")
    if not node or tree.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return None
    note = metadata.get("annotations", {}).get(ANNOTATION)
    lowered = None if note is None else decoded(note)
    possible = tuple(filter(None, map(_possible, spec["containers"])))
    return Pod(
        metadata["namespace"],
        metadata["name"],
        metadata["uid"],
        metadata["resourceVersion"],
        node,
        {one["name"]: _cpu(one, "limits") for one in spec["containers"]},
        why_not(tree) or ("" if possible else NOTHING_LEFT),
        possible,
        lowered,
        note is not None and lowered is None,
    )


def why_not(tree: Tree) -> str:
    """Why a pod must not be lowered, whatever its limits are; empty if it may be."""
    metadata, spec, status = tree["metadata"], tree["spec"], tree.get("status", {})
    label, value = LABEL
    if metadata.get("labels", {}).get(label) != value:
        return f"it has no label {label}={value}"
    if "deletionTimestamp" in metadata:
        return "it is being deleted"
    if status.get("phase") != "Running":
        return "it does not run"
    if status.get("qosClass") != "Burstable":  # a Guaranteed one cannot keep its class, a BestEffort one has no limits
        return f"it is {status.get('qosClass')}, not Burstable"
    if "kubernetes.io/config.mirror" in metadata.get("annotations", {}):
        return "it is a static pod"
    if spec.get("priority", 0) >= CRITICAL:
        return "it is critical"
    return ""


def _possible(container: Tree) -> Change | None:
    """``None`` if it has no limit (a resize cannot take one away again), none above its request, or would restart.

    The limit stays above the request: a resize may not make a pod Guaranteed.
    """
    policies = container.get("resizePolicy", [])
    if any(one["resourceName"] == "cpu" and one["restartPolicy"] != "NotRequired" for one in policies):
        return None
    limit, request = _cpu(container, "limits"), _cpu(container, "requests")
    if not limit:
        return None
    lowest = max(FLOOR, quantities.parse(request or "0") + MILLI)
    lowest = -(-lowest // MILLI) * MILLI
    if quantities.parse(limit) <= lowest:
        return None
    return Change(container["name"], limit, f"{lowest // MILLI}m")


def _cpu(container: Tree, of: str) -> str:
    return str(container.get("resources", {}).get(of, {}).get("cpu", ""))


def encoded(changes: tuple[Change, ...]) -> str:
    """The annotation."""
    return json.dumps({one.container: {"limit": one.limit, "lowered": one.lowered} for one in changes})


def decoded(note: str) -> tuple[Change, ...] | None:
    """What the annotation says; ``None`` if somebody else has written it."""
    try:
        changes = tuple(Change(name, one["limit"], one["lowered"]) for name, one in json.loads(note).items())
        for one in changes:
            quantities.parse(one.limit)
            quantities.parse(one.lowered)
    except (ValueError, TypeError, KeyError, AttributeError, QuantityError):
        return None
    return changes


def to_restore(pod: Pod) -> tuple[Change, ...]:
    """What is still as the guard has lowered it. What somebody else has set since is theirs."""
    return tuple(
        one
        for one in pod.lowered or ()
        if pod.limits.get(one.container)
        and quantities.parse(pod.limits[one.container]) == quantities.parse(one.lowered)
    )
