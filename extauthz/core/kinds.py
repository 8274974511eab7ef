"""Every kind of object that counts: one row each. Custom resources are not here: the cluster lists those.

Sources: ``k8s.io/api`` (``apps/v1``, ``batch/v1``, ``core/v1``), and for who creates what
``k8s.io/kubernetes/pkg/controller``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from extauthz.core.model import Kind

DEPLOYMENTS: Final[Kind] = ("apps", "deployments")
STATEFUL_SETS: Final[Kind] = ("apps", "statefulsets")
REPLICA_SETS: Final[Kind] = ("apps", "replicasets")
REVISIONS: Final[Kind] = ("apps", "controllerrevisions")
REPLICATION_CONTROLLERS: Final[Kind] = ("", "replicationcontrollers")
JOBS: Final[Kind] = ("batch", "jobs")
DEVICE_CLAIMS: Final[Kind] = ("resource.k8s.io", "resourceclaims")
PODS: Final[Kind] = ("", "pods")
CLAIMS: Final[Kind] = ("", "persistentvolumeclaims")
RESIZES: Final[Kind] = ("", "pods/resize")
"""No objects: what a pod that is resized in place may come to hold, beyond what it is seen to hold."""


class WorkloadKind(NamedTuple):
    """One kind."""

    key: Kind
    name: str
    """``kind`` of its objects."""
    version: str
    """The API version in which it is watched."""
    template: tuple[str, ...]
    """Where its objects have a pod template; empty: they have none."""
    created_by: tuple[Kind, ...] = ()
    """Kinds whose controllers create it; ``MADE_BY_CUSTOM`` has the custom resources. A child of any other owner is
    charged by itself."""
    also_in: tuple[str, ...] = ()
    """Groups under which old API servers have the same objects too."""
    is_gated: bool = False
    """It has replicas and a scale subresource: its writes are decided."""
    is_admitted: bool = False
    """It has no replicas at Envoy, and its objects are decided where the webhook is shown them."""


_SPEC: Final = ("spec", "template")

KINDS: Final = (
    WorkloadKind(DEPLOYMENTS, "Deployment", "v1", _SPEC, also_in=("extensions",), is_gated=True),
    WorkloadKind(STATEFUL_SETS, "StatefulSet", "v1", _SPEC, is_gated=True),
    WorkloadKind(
        REPLICA_SETS, "ReplicaSet", "v1", _SPEC, created_by=(DEPLOYMENTS,), also_in=("extensions",), is_gated=True
    ),
    WorkloadKind(REPLICATION_CONTROLLERS, "ReplicationController", "v1", _SPEC, also_in=("extensions",), is_gated=True),
    WorkloadKind(REVISIONS, "ControllerRevision", "v1", ("data", *_SPEC), created_by=(STATEFUL_SETS,)),
    WorkloadKind(JOBS, "Job", "v1", _SPEC, is_admitted=True),
    WorkloadKind(PODS, "Pod", "v1", (), created_by=(REPLICA_SETS, STATEFUL_SETS, REPLICATION_CONTROLLERS, JOBS)),
    WorkloadKind(CLAIMS, "PersistentVolumeClaim", "v1", ()),
    WorkloadKind(DEVICE_CLAIMS, "ResourceClaim", "v1", ()),
)

BY_KEY: Final[Mapping[Kind, WorkloadKind]] = {kind.key: kind for kind in KINDS}

GATED: Final = tuple(kind for kind in KINDS if kind.is_gated)
ADMITTED: Final = tuple(kind for kind in KINDS if kind.is_admitted)

BY_NAME: Final[Mapping[tuple[str, str], WorkloadKind]] = {
    (group, kind.name): kind for kind in KINDS for group in (kind.key[0], *kind.also_in)
}
"""(API group, ``kind``) as objects and owner references have them."""

BY_PATH: Final[Mapping[Kind, Kind]] = {
    (group, kind.key[1]): kind.key for kind in GATED for group in (kind.key[0], *kind.also_in)
}
"""(API group, plural) as a path of the API has them, to the kind that is meant (design.md L6)."""

SHARE_TEMPLATES: Final = frozenset({DEPLOYMENTS, STATEFUL_SETS})
"""Their children are revisions of themselves. Each of their replicas may run any of them."""

PRICED_EACH: Final = frozenset({PODS, CLAIMS, DEVICE_CLAIMS})
"""Their ``count/…`` key is part of what one of them costs. What creates them is charged with it."""

LET_GO: Final = frozenset({DEPLOYMENTS, STATEFUL_SETS, REPLICA_SETS, REPLICATION_CONTROLLERS, JOBS})
"""Their controllers let go of what they do not select (``PodControllerRefManager.ClaimPods``,
``ReplicaSetControllerRefManager.ClaimReplicaSets``)."""

MADE_BY_CUSTOM: Final[Mapping[tuple[str, str], tuple[Kind, ...]]] = {
    ("argoproj.io", "Rollout"): (REPLICA_SETS,),
    ("jobset.x-k8s.io", "JobSet"): (JOBS,),
    ("kubeflow.org", "MPIJob"): (JOBS,),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): (STATEFUL_SETS,),
    ("monitoring.coreos.com", "Prometheus"): (STATEFUL_SETS,),
    ("opentelemetry.io", "OpenTelemetryCollector"): (DEPLOYMENTS, STATEFUL_SETS),
}
"""Custom resources whose replicas are not pods of their own: (API group, ``kind``) to what their operators make of
them. Any may make pods. Another kind that names a custom resource as its owner is not a replica of it: anybody can
write that, and an operator may make something beside them."""

POD_MAKERS: Final = (
    *(
        f"system:serviceaccount:kube-system:{name}-controller"
        for name in ("replicaset", "statefulset", "replication", "job", "daemon-set")
    ),
    "system:kube-controller-manager",
)
"""Who makes the pods of workloads, which were decided upon; and those of DaemonSets, which are seen afterwards."""
