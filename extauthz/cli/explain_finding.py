"""Which autoscaler is meant: by its own name, or by the workload that it scales."""

from __future__ import annotations

from typing import Final

from extauthz.core.model import Tree
from extauthz.core.objects.fields import at
from extauthz.explain import target
from extauthz.explain.objects import ExplainError, Objects, group_of
from extauthz.inputs.kube.resource import Resource

HPA: Final = "hpa"
KPA: Final = "kpa"
KSVC: Final = "ksvc"
SCALED_OBJECT: Final = "scaledobject"

RESOURCES: Final = {
    HPA: Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
    KPA: Resource("autoscaling.internal.knative.dev", "v1alpha1", "podautoscalers", "PodAutoscaler"),
    KSVC: Resource("serving.knative.dev", "v1", "services", "Service"),
    SCALED_OBJECT: Resource("keda.sh", "v1alpha1", "scaledobjects", "ScaledObject"),
}
KINDS: Final = {
    **dict.fromkeys(("hpa", "horizontalpodautoscaler", "horizontalpodautoscalers"), HPA),
    **dict.fromkeys(("kpa", "podautoscaler", "podautoscalers", RESOURCES[KPA].group_resource), KPA),
    **dict.fromkeys(("ksvc", "kservice", "kservices", "service.serving.knative.dev"), KSVC),
    RESOURCES[KSVC].group_resource: KSVC,
    **dict.fromkeys(("so", "scaledobject", "scaledobjects", "scaledobject.keda.sh"), SCALED_OBJECT),
    RESOURCES[SCALED_OBJECT].group_resource: SCALED_OBJECT,
}
"""By the names that people give them."""


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
    if kind in RESOURCES:
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
    of = RESOURCES[kind]
    return [one for one in objects.of(of.kind, namespace) if group_of(one) in (of.group, None)]


def scales(tree: Tree, kind: str, name: str) -> bool:
    """Whether an autoscaler has this workload; ``kind`` is its plural."""
    scaled = target.named(tree)
    return scaled.name == name and target.plural(scaled.kind) == kind


def one(objects: Objects, namespace: str, kind: str, name: str) -> Tree:
    """An autoscaler, or a Knative Service.

    Raises:
        ExplainError: no object has this name.
    """
    for tree in of_api(objects, kind, namespace):
        if tree["metadata"]["name"] == name:
            return tree
    raise ExplainError(
        f"there is no {kind}/{name} in namespace {namespace}; to see which there are: "
        f"kubectl get {RESOURCES[kind].group_resource} -n {namespace}"
    )
