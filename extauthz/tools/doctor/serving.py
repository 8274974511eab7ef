"""Pods that an HPA adds and takes away while a Service leads to them: do they get requests before they can answer, or
after they ended?

Sources: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#container-probes (a container without a
readiness probe is ready when it starts) and #pod-termination.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from extauthz.tell.observe.observers import named

from .appliers import Scaled
from .dump import Tree
from .table import Row, ok, warn

NAME = "serving pods"
CURE = (
    "give a container that answers a readinessProbe, and the pods a terminationGracePeriodSeconds above zero: else they"
    " get requests that they cannot answer whenever the HPA acts"
)


def row(scaled: Sequence[Scaled], services: Sequence[Tree]) -> Row:
    """A warning for workloads of an HPA whose pods a Service leads to, and that lack something."""
    selectors: dict[str, list[Mapping[str, str]]] = {}
    for service in services:
        if selector := (service.get("spec") or {}).get("selector"):
            selectors.setdefault(service["metadata"]["namespace"], []).append(selector)
    told = []
    for workload, _ in scaled:
        metadata, template = workload["metadata"], workload["spec"]["template"]
        labels = (template.get("metadata") or {}).get("labels") or {}
        serves = any(selector.items() <= labels.items() for selector in selectors.get(metadata["namespace"], ()))
        if serves and (lacks := _lacks(template["spec"])):
            told.append(f"{metadata['namespace']}/{metadata['name']} ({', '.join(lacks)})")
    if not told:
        return ok(NAME, f"what an HPA scales behind a Service has what it needs; workloads: {len(scaled)}")
    return warn(NAME, f"a Service leads to pods of {named(tuple(told))}", CURE)


def _lacks(pod: Tree) -> list[str]:
    found = [] if any(one.get("readinessProbe") for one in pod["containers"]) else ["no readiness probe"]
    return found + (["no time to end"] if pod.get("terminationGracePeriodSeconds") == 0 else [])
