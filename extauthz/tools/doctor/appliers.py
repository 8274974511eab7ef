"""Who else writes the count of a workload that an HPA scales: what applies manifests puts it back at each sync.

Sources: server-side apply's ``managedFields`` (https://kubernetes.io/docs/reference/using-api/server-side-apply), and
the annotation in which a client-side apply keeps what it applied last.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from .dump import Tree
from .table import Row, ok, warn

NAME = "appliers"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
MOST = 5
CURE = "leave spec.replicas out of what is applied, as the HPA writes it (docs/gitops.md)"


class Scaled(NamedTuple):
    """A workload and the HPA that targets it."""

    workload: Tree
    hpa: str


def paired(hpas: Sequence[Tree], workloads: Sequence[Tree]) -> list[Scaled]:
    """``workloads`` have their ``kind``, which the items of a list have not."""
    by_name = {(each["kind"], each["metadata"]["namespace"], each["metadata"]["name"]): each for each in workloads}
    found = []
    for hpa in hpas:
        target = hpa["spec"]["scaleTargetRef"]
        workload = by_name.get((target["kind"], hpa["metadata"]["namespace"], target["name"]))
        if workload is not None:
            found.append(Scaled(workload, hpa["metadata"]["name"]))
    return found


def row(scaled: Sequence[Scaled]) -> Row:
    """A warning for workloads whose count an applier writes too."""
    told = []
    for workload, hpa in scaled:
        if who := appliers(workload):
            metadata = workload["metadata"]
            told.append(f"{', '.join(who)} and hpa/{hpa} both write {metadata['namespace']}/{metadata['name']}")
    if not told:
        return ok(NAME, f"no applier writes an HPA's count; workloads: {len(scaled)}")
    more = f" and {len(told) - MOST} more" if len(told) > MOST else ""
    return warn(NAME, f"spec.replicas: {'; '.join(told[:MOST])}{more}", CURE)


def appliers(workload: Tree) -> list[str]:
    """Field managers that apply its ``spec.replicas``."""
    metadata = workload["metadata"]
    owners = [
        each["manager"]
        for each in metadata.get("managedFields") or ()
        if each.get("operation") == "Apply" and "f:replicas" in (each.get("fieldsV1") or {}).get("f:spec", {})
    ]
    return owners + (["a client-side apply"] if _last_applied(metadata) else [])


def _last_applied(metadata: Tree) -> bool:
    try:
        said = json.loads((metadata.get("annotations") or {}).get(LAST_APPLIED, "null"))
    except ValueError:
        return False
    return isinstance(said, dict) and isinstance(said.get("spec"), dict) and "replicas" in said["spec"]
