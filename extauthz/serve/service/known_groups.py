"""Custom resources whose pods are known without a setting: groups, counts and templates, as ``pod-groups`` takes them.

Kinds that have one pod template at ``.spec.template`` (Rollout, CloneSet, …) and kinds priced by the pods that their
scale selects (Prometheus, …) need no line. Nor do kinds of which others make what is counted: a RayJob counts as its
RayCluster, an InferenceService as its Deployment or Knative Service. Sources: the definitions of KubeRay 1.4
(``ray.io/v1``), JobSet 0.8, LeaderWorkerSet 0.6, and of Kubeflow's training operator 1.9 and MPI operator 0.6.
"""

from __future__ import annotations

from typing import Any, Final

HAS_SCALE: Final = frozenset({"leaderworkersets.leaderworkerset.x-k8s.io"})
"""Those that are followed wherever their definition is. The others are, where a setting or ``--custom`` names them."""


def _replicas(field: str, *roles: str) -> list[dict[str, Any]]:
    """Of a job of Kubeflow: a template and a count for each role (``ReplicaSpec`` in ``common_types.go``)."""
    over = [".spec.runPolicy.suspend", ".status.completionTime"]
    return [
        {"template": f".spec.{field}.{role}.template", "count": f".spec.{field}.{role}.replicas", "unless": over}
        for role in roles
    ]


_RAY_WORKER: Final = ".spec.workerGroupSpecs[*]"
_REPLICATED: Final = ".spec.replicatedJobs[*]"
_LWS: Final = ".spec.leaderWorkerTemplate"

KNOWN: Final[dict[str, list[dict[str, Any]]]] = {
    "rayclusters.ray.io": [
        {"template": ".spec.headGroupSpec.template", "unless": ".spec.suspend"},
        {
            "template": f"{_RAY_WORKER}.template",
            "count": [f"{_RAY_WORKER}.replicas", f"{_RAY_WORKER}.numOfHosts"],
            "least": f"{_RAY_WORKER}.minReplicas",
            "most": f"{_RAY_WORKER}.maxReplicas",
            "unless": [".spec.suspend", f"{_RAY_WORKER}.suspend"],
        },
    ],
    "jobsets.jobset.x-k8s.io": [
        {
            "template": f"{_REPLICATED}.template.spec.template",
            "count": [f"{_REPLICATED}.template.spec.parallelism", f"{_REPLICATED}.replicas"],
            "most": f"{_REPLICATED}.template.spec.completions",
            "unless": [".spec.suspend", ".status.terminalState"],
        }
    ],
    "leaderworkersets.leaderworkerset.x-k8s.io": [
        {"template": f"{_LWS}.leaderTemplate", "instead": f"{_LWS}.workerTemplate"},
        {"template": f"{_LWS}.workerTemplate", "count": f"{_LWS}.size", "minus": 1, "through": "pods"},
    ],
    "pytorchjobs.kubeflow.org": _replicas("pytorchReplicaSpecs", "Master", "Worker"),
    "mpijobs.kubeflow.org": _replicas("mpiReplicaSpecs", "Launcher", "Worker"),
    "tfjobs.kubeflow.org": _replicas("tfReplicaSpecs", "Chief", "Master", "PS", "Worker", "Evaluator"),
    "xgboostjobs.kubeflow.org": _replicas("xgbReplicaSpecs", "Master", "Worker"),
    "paddlejobs.kubeflow.org": _replicas("paddleReplicaSpecs", "Master", "Worker"),
    "jaxjobs.kubeflow.org": _replicas("jaxReplicaSpecs", "Worker"),
}
