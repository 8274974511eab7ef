"""Objects of manifests that ``check -f`` does not weigh, although pods may come of them: each is named, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from extauthz.core.kinds import MADE_BY_CUSTOM
from extauthz.core.model import Tree
from extauthz.core.objects import fields
from extauthz.explain.target import plural

WHEN_MADE: Final = "what it makes is weighed when that is made"
KNOWN: Final[Mapping[tuple[str, str], str]] = {
    ("", "Pod"): "a pod by itself counts as it runs, and is never refused",
    ("apps", "DaemonSet"): "its pods count as they run, and are never refused",
    ("batch", "CronJob"): "each of its Jobs is weighed when it is made",
    ("keda.sh", "ScaledJob"): "each of its Jobs is weighed when KEDA makes it",
    ("ray.io", "RayJob"): WHEN_MADE,
    ("ray.io", "RayService"): WHEN_MADE,
    ("serving.kserve.io", "InferenceService"): WHEN_MADE,
    ("serving.kserve.io", "LLMInferenceService"): WHEN_MADE,
    ("serving.knative.dev", "Service"): WHEN_MADE,
    ("trainer.kubeflow.org", "TrainJob"): WHEN_MADE,
}
"""Kinds that no setting makes weighed. Custom resources among them make no pods themselves."""
PODS_COME: Final = frozenset(
    {
        *MADE_BY_CUSTOM,
        ("argoproj.io", "CronWorkflow"),
        ("argoproj.io", "Workflow"),
        ("cassandra.datastax.com", "CassandraDatacenter"),
        ("elasticsearch.k8s.elastic.co", "Elasticsearch"),
        ("flink.apache.org", "FlinkDeployment"),
        ("kubevirt.io", "VirtualMachine"),
        ("kubevirt.io", "VirtualMachineInstance"),
        ("monitoring.coreos.com", "Alertmanager"),
        ("tekton.dev", "PipelineRun"),
        ("tekton.dev", "TaskRun"),
    }
)
"""Kinds of which pods come although their fields need not show it."""
COUNTS: Final = frozenset(
    {
        *("replicas", "minreplicas", "replicacount", "parallelism", "instances", "numberofinstances", "members"),
        *("numnodes", "nodecount", "clustersize", "servers"),
    }
)
"""Fields with a number of pods, in lower case, wherever they stand."""
TEMPLATES: Final[Mapping[str, type[object]]] = {"containers": list, "container": Mapping, "resources": Mapping}
"""Fields with what one pod is made of, and what must be in them."""
HAVE_NONE: Final = frozenset({"keda.sh", "autoscaling.internal.knative.dev", "apiextensions.k8s.io"})
"""API groups whose objects have such fields, and no pods of their own."""


def why(tree: Tree) -> str | None:
    """Why this object is not weighed; ``None``: no pods come of it, as far as its fields show.

    Raises:
        ObjectError: it is no object.
    """
    group, name = key = fields.kind_of(tree)
    if key in KNOWN:
        return KNOWN[key]
    if "." not in group or group in HAVE_NONE or not (key in PODS_COME or _makes_pods(tree.get("spec"))):
        return None
    return f"{WHEN_MADE}; itself only with --custom {plural(name)}.{group} and its definition"


def _makes_pods(spec: Tree) -> bool:
    return any(
        isinstance(value, TEMPLATES[key]) if key in TEMPLATES else str(key).lower() in COUNTS and type(value) is int
        for key, value in _fields(spec)
    )


def _fields(spec: Tree) -> Iterator[tuple[str, Tree]]:
    left = [spec]
    while left:
        one = left.pop()
        if isinstance(one, Mapping):
            yield from one.items()
            left += one.values()
        elif isinstance(one, list):
            left += one


def named(tree: Tree, namespace: str | None) -> str:
    """``Rollout.argoproj.io shop/web``."""
    group, kind = fields.kind_of(tree)
    given = tree.get("metadata")
    metadata = given if isinstance(given, Mapping) else {}
    place = metadata.get("namespace") or namespace or "?"
    name = metadata.get("name") or metadata.get("generateName") or "?"
    return f"{kind}{'.' * bool(group)}{group} {place}/{name}"
