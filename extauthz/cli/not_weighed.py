"""Objects of manifests that ``check -f`` does not weigh, although pods may come of them: each is named, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from extauthz.core.model import Tree
from extauthz.core.objects import fields
from extauthz.explain.target import plural

BUILT_IN: Final[Mapping[tuple[str, str], str]] = {
    ("", "Pod"): "a pod by itself counts as it runs, and is never refused",
    ("apps", "DaemonSet"): "its pods count as they run, and are never refused",
    ("batch", "CronJob"): "each of its Jobs is weighed when it is made",
}
MADE: Final[Mapping[tuple[str, str], str]] = {
    ("ray.io", "RayJob"): "its RayCluster is weighed when KubeRay makes it",
    ("ray.io", "RayService"): "its RayClusters are weighed when KubeRay makes them",
    (
        "serving.kserve.io",
        "InferenceService",
    ): "its Deployment or Knative Service is weighed when KServe makes it",
    ("serving.kserve.io", "LLMInferenceService"): "its Deployment or LeaderWorkerSet is weighed when KServe makes it",
    ("serving.knative.dev", "Service"): "the Deployment of its revision is weighed when Knative makes it",
    ("trainer.kubeflow.org", "TrainJob"): "its JobSet is weighed when the trainer makes it",
}
"""What is weighed in the place of kinds that make no pods themselves."""
COUNTS: Final = ("replicas", "minreplicas", "parallelism", "replicacount")
AUTOSCALERS: Final = frozenset({"keda.sh", "autoscaling.internal.knative.dev"})
"""API groups whose objects have counts, and no pods of their own."""


def why(tree: Tree) -> str | None:
    """Why this object is not weighed; ``None``: no pods come of it, as far as its fields show.

    Raises:
        ObjectError: it is no object.
    """
    key = fields.kind_of(tree)
    if known := BUILT_IN.get(key) or MADE.get(key):
        return known
    group, name = key
    if "." not in group or group.endswith(".k8s.io") or group in AUTOSCALERS or not _makes_pods(tree.get("spec")):
        return None
    custom = f"{plural(name)}.{group}"
    return f"what it makes is weighed when that is made; itself only with --custom {custom} and its definition"


def _makes_pods(spec: Tree) -> bool:
    return any(
        key == "containers" or (key == "resources" and isinstance(value, Mapping)) or key.lower() in COUNTS
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
