"""What controllers make of objects that make no pods themselves, as far as a manifest shows it: ``check -f`` weighs it.

What a manifest leaves out is weighed as nothing, as a ServingRuntime or a ConfigMap may fill it in. So what is new and
refused here would be refused in the cluster too, and ``beyond`` names what may come on top.

Sources: ``rayjob_types.go`` and ``rayservice_types.go`` of KubeRay 1.4; of KServe
``pkg/controller/v1beta1/inferenceservice`` (``components``, and ``reconcilers``: ``deployment``, ``hpa``, ``knative``);
of Knative Serving ``pkg/reconciler/revision/resources``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from extauthz.core.model import Tree
from extauthz.core.objects import fields
from extauthz.core.objects.fields import at
from extauthz.explain.knative import rules
from extauthz.explain.objects import Objects

CLUSTER_OF: Final[Mapping[tuple[str, str], str]] = {
    ("ray.io", "RayJob"): "rayClusterSpec",
    ("ray.io", "RayService"): "rayClusterConfig",
}
"""Where KubeRay's kinds have the spec of the RayCluster that it makes of them."""
KNATIVE: Final = ("serving.knative.dev", "Service")
KSERVE: Final = ("serving.kserve.io", "InferenceService")

_COMPONENTS: Final = ("predictor", "transformer", "explainer")
_MODE: Final = "serving.kserve.io/deploymentMode"
_PLAIN: Final = ("RawDeployment", "Standard")
"""Modes in which KServe makes Deployments itself. In the others but ModelMesh, Knative does."""
_BY_RUNTIME: Final = (
    *("model", "sklearn", "xgboost", "tensorflow", "pytorch", "triton", "onnx", "openvino"),
    *("huggingface", "pmml", "lightgbm", "paddle", "catboost", "art", "alibi"),
)
"""Fields of a component that are merged with a container of a ServingRuntime."""
_OF_PODS: Final = ("initContainers", "volumes", "resources", "runtimeClassName", "resourceClaims")
"""What else of a component counts, and is the pod's as it stands."""
_SAID: Final = ("cpu", "memory")
_QUEUE: Final = "weighed as a new revision, to whose pods Knative adds its queue-proxy"


class Made(NamedTuple):
    """An object, and what becomes of it where its owner is there already."""

    tree: Tree
    keeps_count: bool = False
    """It keeps a larger count, which its autoscaler has set."""
    service: str = ""
    """The Knative Service that makes it, if its template changed."""


def of(tree: Tree) -> list[Made]:
    """What is made of an object; empty: nothing that can be told."""
    key, spec = fields.kind_of(tree), tree.get("spec")
    if not isinstance(spec, Mapping):
        return []
    if key in CLUSTER_OF:
        return [Made(one) for one in _ray_cluster(tree, spec, CLUSTER_OF[key])]
    if key == KNATIVE:
        return [_revision(one) for one in _of_service(tree, spec)]
    return [_component(tree, role) for role in _components(tree)] if key == KSERVE else []


def beyond(tree: Tree) -> str:
    """What else may come of an object of which something is made here; empty: nothing."""
    key = fields.kind_of(tree)
    if key == KNATIVE:
        return f"{_QUEUE}, and what config-defaults fills in"
    if key != KSERVE:
        return ""
    roles = _components(tree)
    parts = [part for role in roles if (part := _unseen(tree["spec"][role]))]
    if len(roles) > 1:
        parts.append("its components are weighed one by one")
    if _note(tree, _MODE) not in _PLAIN:
        parts.append(_QUEUE)
    return "; ".join(dict.fromkeys(parts))


def _ray_cluster(tree: Tree, spec: Mapping[str, Tree], field: str) -> list[Tree]:
    made = spec.get(field)
    if not isinstance(made, Mapping):
        return []  # a RayJob may go to a RayCluster that is there
    return [{**tree, "kind": "RayCluster", "spec": {**made, "suspend": spec.get("suspend", False)}}]


def _of_service(tree: Tree, spec: Mapping[str, Tree]) -> list[Tree]:
    """The Deployment of its next revision, with the count that it starts with and keeps, and the Service's name."""
    pods, containers = at(spec, "template", "spec"), at(spec, "template", "spec", "containers")
    if not isinstance(pods, Mapping) or not isinstance(containers, list):
        return []
    pod = {**pods, "containers": [_filled(one, asks_limits=True) for one in containers]}
    metadata = at(spec, "template", "metadata")
    labels, count = at(metadata, "labels"), _scale(at(metadata, "annotations"))
    return [_deployment(tree, "", labels, count, pod)]


def _revision(deployment: Tree) -> Made:
    """As that of a new revision of the Service whose name it has. No object can have the name that it gets."""
    service = deployment["metadata"]["name"] or ""
    name = f"{service}-<new>-deployment" if service else ""
    return Made({**deployment, "metadata": {**deployment["metadata"], "name": name}}, service=service)


def _scale(annotations: Tree) -> int:
    """At the start: ``initial-scale``, and no less than ``min-scale``."""
    notes = {key: str(value) for key, value in _mapping(annotations).items()}
    found = rules.of({"metadata": {"annotations": notes}}, rules.config_of(Objects(())))
    return max(found.least, found.initial)


def _components(tree: Tree) -> list[str]:
    """Those that get pods of their own."""
    if _note(tree, "serving.kserve.io/stop").lower() == "true" or _note(tree, _MODE) == "ModelMesh":
        return []
    return [role for role in _COMPONENTS if isinstance(at(tree, "spec", role), Mapping)]


def _component(tree: Tree, role: str) -> Made:
    """A component's Deployment, in either mode: KServe hands its labels and annotations on to Knative."""
    spec = tree["spec"][role]
    merged = [{**spec[name], "name": "kserve-container"} for name in _BY_RUNTIME if isinstance(spec.get(name), Mapping)]
    pod = {key: spec[key] for key in _OF_PODS if key in spec}
    pod["containers"] = [_filled(one, asks_limits=False) for one in (*merged, *_containers(spec))]
    labels = {**_mapping(at(tree, "metadata", "labels")), **_mapping(spec.get("labels"))}
    deployment = _deployment(tree, f"-{role}", labels, _least(tree, spec), pod)
    return Made(deployment, not _by_others(tree)) if _note(tree, _MODE) in _PLAIN else _revision(deployment)


def _least(tree: Tree, spec: Mapping[str, Tree]) -> Tree:
    """``minReplicas``, by default one. Only somebody else's autoscaler leaves it at none."""
    given = spec.get("minReplicas")
    if at(tree, "spec", "canary") or not isinstance(given, int):
        return 1  # canaries take their part of minReplicas
    return given if _by_others(tree) else max(given, 1)


def _by_others(tree: Tree) -> bool:
    """KServe makes no autoscaler. Else it leaves the count to that (``deployment_reconciler.go``)."""
    return _note(tree, "serving.kserve.io/autoscalerClass") in ("external", "none")


def _unseen(spec: Mapping[str, Tree]) -> str:
    if any(name in spec for name in (*_BY_RUNTIME, "workerSpec")):
        return "its ServingRuntime adds containers, workers, and requests that the manifest leaves out"
    says_all = all(
        at(one, "resources", kind, name) is not None
        for one in _containers(spec) or [{}]
        for kind in ("requests", "limits")
        for name in _SAID
    )
    if not says_all or any(name in spec for name in ("logger", "batcher", "storageUris")):
        return "KServe adds what inferenceservice-config says: requests that the manifest leaves out, and sidecars"
    return ""


def _filled(container: Tree, *, asks_limits: bool) -> Tree:
    """With nothing for what it does not say.

    Args:
        asks_limits: it asks for its limits, as far as it says no requests. Of KServe's that is not so: a ServingRuntime
            and inferenceservice-config say them first (``inference_service_defaults.go``).
    """
    if not isinstance(container, Mapping):
        return container
    said, nothing = _mapping(container.get("resources")), dict.fromkeys(_SAID, "0")
    limits = {**nothing, **_mapping(said.get("limits"))}
    requests = {**(limits if asks_limits else nothing), **_mapping(said.get("requests"))}
    return {**container, "resources": {**said, "limits": limits, "requests": requests}}


def _deployment(tree: Tree, suffix: str, labels: Tree, count: Tree, pod: Tree) -> Tree:
    metadata, named = _mapping(tree.get("metadata")), _mapping(labels)
    name = metadata.get("name") or metadata.get("generateName")
    made = {"name": f"{name}{suffix}" if name else name, "labels": named}
    if "namespace" in metadata:
        made["namespace"] = metadata["namespace"]
    template = {"metadata": {"labels": named}, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": made,
        "spec": {"replicas": count, "template": template},
    }


def _note(tree: Tree, name: str) -> str:
    return str(at(tree, "metadata", "annotations", name) or "")


def _containers(spec: Mapping[str, Tree]) -> list[Tree]:
    given = spec.get("containers")
    return given if isinstance(given, list) else []


def _mapping(value: Tree) -> Mapping[str, Tree]:
    return value if isinstance(value, Mapping) else {}
