"""Custom resources with pod templates of their own, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from extauthz.testing import pod

Tree = Any

# Objects with several pod templates, as RayCluster and JobSet have them, and where: for tests of ``pod-groups``.

RAY: Final = (
    "{rayclusters.ray.io: [{template: .spec.headGroupSpec.template, unless: .spec.suspend}, "
    "{template: '.spec.workerGroupSpecs[*].template', "
    "count: ['.spec.workerGroupSpecs[*].replicas', '.spec.workerGroupSpecs[*].numOfHosts'], "
    "least: '.spec.workerGroupSpecs[*].minReplicas', most: '.spec.workerGroupSpecs[*].maxReplicas', "
    "unless: [.spec.suspend, '.spec.workerGroupSpecs[*].suspend']}]}"
)
"""The setting, as docs/counting.md has it."""

JOB_SETS: Final = (
    "{jobsets.jobset.x-k8s.io: [{template: '.spec.replicatedJobs[*].template.spec.template', "
    "count: ['.spec.replicatedJobs[*].template.spec.parallelism', '.spec.replicatedJobs[*].replicas'], "
    "most: '.spec.replicatedJobs[*].template.spec.completions', "
    "unless: [.spec.suspend, .status.terminalState]}]}"
)

LEADER_WORKER_SETS: Final = (
    "{leaderworkersets.leaderworkerset.x-k8s.io: [{template: .spec.leaderWorkerTemplate.leaderTemplate, "
    "instead: .spec.leaderWorkerTemplate.workerTemplate}, {template: .spec.leaderWorkerTemplate.workerTemplate, "
    "count: .spec.leaderWorkerTemplate.size, minus: 1, through: pods}]}"
)


def worker(name: str, replicas: int | None, requests: Mapping[str, str], **more: Any) -> Tree:
    """A worker group of a RayCluster."""
    count = {} if replicas is None else {"replicas": replicas}
    return {"groupName": name, "template": pod(requests)} | count | more


def raycluster(*workers: Tree, name: str = "ray", version: str = "7", **spec: Any) -> Tree:
    """A RayCluster whose head needs one CPU."""
    metadata = {"name": name, "namespace": "team-a", "uid": f"uid-{name}", "resourceVersion": version}
    spec = {"headGroupSpec": {"template": pod({"cpu": "1"})}, "workerGroupSpecs": list(workers)} | spec
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata, "spec": spec}


def jobset(replicas: int, parallelism: int, name: str = "train", version: str = "7", **spec: Any) -> Tree:
    """A JobSet of equal Jobs, whose pods need one CPU each."""
    metadata = {"name": name, "namespace": "team-a", "uid": f"uid-{name}", "resourceVersion": version}
    job = {"spec": {"parallelism": parallelism, "template": pod({"cpu": "1"})}}
    jobs = [{"name": "workers", "replicas": replicas, "template": job}]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {"replicatedJobs": jobs} | spec,
    }


def leader_worker_set(replicas: int, size: int | None, leader: str | None = None, version: str = "7") -> Tree:
    """A LeaderWorkerSet. Workers need one CPU each, and leaders ``leader``, or the same."""
    metadata = {"name": "lws", "namespace": "team-a", "uid": "uid-lws", "resourceVersion": version}
    pods = {"size": size, "workerTemplate": pod({"cpu": "1"})}
    pods |= {"leaderTemplate": pod({"cpu": leader})} if leader is not None else {}
    spec = {"replicas": replicas, "leaderWorkerTemplate": pods}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": metadata,
        "spec": spec,
    }


def definition(group: str, version: str, plural: str, kind: str, scale: Mapping[str, str] | None = None) -> Tree:
    """A CustomResourceDefinition; with a scale subresource where it is told what its paths are."""
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    subresources: Tree = {"status": {}} | ({"scale": dict(scale)} if scale else {})
    served = {"name": version, "served": True, "storage": True, "schema": schema, "subresources": subresources}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [served]},
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    }


RAY_CLUSTERS: Final = definition("ray.io", "v1", "rayclusters", "RayCluster")
