"""Which autoscaler is meant: by its own name, or by the workload that it scales."""

from __future__ import annotations

from typing import Final

from extauthz.core.model import Tree
from extauthz.core.objects.fields import at
from extauthz.explain import target
from extauthz.explain.objects import ExplainError, Objects, group_of

HPA: Final = "hpa"
KPA: Final = "kpa"
KSVC: Final = "ksvc"
SCALED_OBJECT: Final = "scaledobject"

NAMES: Final = {
    HPA: ("hpa", "horizontalpodautoscaler", "horizontalpodautoscalers"),
    KPA: ("kpa", "podautoscaler", "podautoscalers", "podautoscalers.autoscaling.internal.knative.dev"),
    KSVC: ("ksvc", "kservice", "kservices", "services.serving.knative.dev", "service.serving.knative.dev"),
    SCALED_OBJECT: ("so", "scaledobject", "scaledobjects", "scaledobjects.keda.sh", "scaledobject.keda.sh"),
}
KINDS: Final = {name: kind for kind, names in NAMES.items() for name in names}

OBJECT_KINDS: Final = {
    HPA: "HorizontalPodAutoscaler",
    KPA: "PodAutoscaler",
    KSVC: "Service",
    SCALED_OBJECT: "ScaledObject",
}
RESOURCES: Final = {
    HPA: "horizontalpodautoscalers.autoscaling",
    KPA: "podautoscalers.autoscaling.internal.knative.dev",
    KSVC: "services.serving.knative.dev",
    SCALED_OBJECT: "scaledobjects.keda.sh",
}
"""As kubectl knows them."""
API: Final = {
    HPA: "autoscaling/v2",
    KPA: "autoscaling.internal.knative.dev/v1alpha1",
    KSVC: "serving.knative.dev/v1",
    SCALED_OBJECT: "keda.sh/v1alpha1",
}


class NothingScalesError(ExplainError):
    """A workload has no autoscaler. ``kind`` is its plural."""

    def __init__(self, kind: str, namespace: str, name: str) -> None:
        super().__init__(
            f"no HPA scales {kind} {namespace}/{name}; it stays at its count until somebody changes it, and what its "
            "quota allows is asked with --server URL, or with --state and --quotas"
        )
        self.kind, self.name = kind, name


def meant(objects: Objects, namespace: str, kind: str, name: str) -> tuple[str, str]:
    """The autoscaler of a workload, KEDA's and Knative's before the HPA that they make; else what was asked for.

    Raises:
        NothingScalesError: nothing scales the workload.
        ExplainError: something does whose arithmetic is not known.
    """
    if kind in NAMES:
        return kind, name
    for each in (SCALED_OBJECT, KPA, HPA):
        for tree in of_api(objects, each, namespace):
            if scales(tree, kind, name):
                return each, tree["metadata"]["name"]
    for tree in objects.all():
        if at(tree, "metadata", "namespace") == namespace and at(tree, "spec", "scaleTargetRef", "name") == name:
            other = f"{tree.get('kind')}.{group_of(tree)} {tree['metadata']['name']}"
            raise ExplainError(f"{other} scales {kind} {namespace}/{name}, and its arithmetic is not known here")
    raise NothingScalesError(kind, namespace, name)


def of_api(objects: Objects, kind: str, namespace: str) -> list[Tree]:
    """Autoscalers of a kind: others have kinds of the same name in groups of their own."""
    group = API[kind].partition("/")[0]
    return [one for one in objects.of(OBJECT_KINDS[kind], namespace) if group_of(one) in (group, None)]


def scales(tree: Tree, kind: str, name: str) -> bool:
    """Whether an autoscaler has this workload; ``kind`` is its plural."""
    ref = tree["spec"]["scaleTargetRef"]
    return bool(ref["name"] == name and target.plural(ref.get("kind") or "Deployment") == kind)


def one(objects: Objects, namespace: str, kind: str, name: str) -> Tree:
    """An autoscaler, or a Knative Service.

    Raises:
        ExplainError: there is none of this name.
    """
    for tree in of_api(objects, kind, namespace):
        if tree["metadata"]["name"] == name:
            return tree
    raise ExplainError(
        f"there is no {kind}/{name} in namespace {namespace}; to see which there are: "
        f"kubectl get {RESOURCES[kind]} -n {namespace}"
    )
