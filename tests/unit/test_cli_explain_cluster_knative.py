"""What ``explain`` reads of a cluster with Knative or KEDA, and what it does without where it may not. (Real ones:
tests/e2e/test_explain_knative.py and test_keda.py.)"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from extauthz.cli.explain_cluster import Reading
from extauthz.explain.knative import scene
from extauthz.explain.objects import Objects
from extauthz.inputs.kube.connection import ApiError
from tests.support.kubecalls import Answers
from tests.unit.explain.building import NOW, hpa
from tests.unit.explain.knativebuilding import config, deployment, kpa, refusal

Tree = Any

SHOP = "namespaces/shop"
KPAS = f"/apis/autoscaling.internal.knative.dev/v1alpha1/{SHOP}"
SERVICE = f"/apis/serving.knative.dev/v1/{SHOP}/services/web"
SCALED = f"/apis/keda.sh/v1alpha1/{SHOP}/scaledobjects"
PODS = f"/api/v1/{SHOP}/pods?labelSelector=serving.knative.dev%2Frevision%3Dweb"
EVENTS = f"/api/v1/{SHOP}/events?fieldSelector=involvedObject.kind%3DPodAutoscaler%2CinvolvedObject.name%3Dweb"
CONFIG = "/api/v1/namespaces/knative-serving/configmaps"
SKS = f"/apis/networking.internal.knative.dev/v1alpha1/{SHOP}/serverlessservices/web"
HPAS = f"/apis/autoscaling/v2/{SHOP}/horizontalpodautoscalers"
WORKLOAD = f"/apis/apps/v1/{SHOP}/deployments/web"


def plain(tree: Tree) -> Tree:
    """As the API server answers: in a list without its kind."""
    return {key: value for key, value in tree.items() if key != "kind"}


def table() -> dict[str, Any]:
    """A revision that is refused, and a ScaledObject that is idle."""
    tree = kpa(scale=2, ready=2)
    tree["metadata"]["labels"] = {scene.REVISION: "web"}
    pod = {"metadata": {"name": "web-1", "namespace": "shop", "labels": {scene.REVISION: "web"}}}
    traffic = {"traffic": [{"revisionName": "web", "percent": 100}]}
    target = {"scaleTargetRef": {"name": "web"}}
    return {
        f"{KPAS}/podautoscalers": {"items": [plain(tree)]},
        f"{KPAS}/podautoscalers/web": tree,
        f"{KPAS}/metrics/web": {"kind": "Metric", "metadata": {"name": "web", "namespace": "shop"}},
        SERVICE: {
            "apiVersion": "serving.knative.dev/v1",
            "metadata": {"name": "web", "namespace": "shop"},
            "status": traffic,
        },
        SCALED: {"items": [{"metadata": {"name": "so", "namespace": "shop"}, "spec": target}]},
        f"{SCALED}/so": {"metadata": {"name": "so", "namespace": "shop"}, "spec": target},
        HPAS: {"items": []},
        PODS: {"items": [pod]},
        EVENTS: {"items": [plain(refusal(4))]},
        SKS: {"metadata": {"name": "web", "namespace": "shop"}},
        f"{CONFIG}/config-autoscaler": config(),
        f"{CONFIG}/config-deployment": 404,
        "/apis/apps/v1": {"resources": [{"name": "deployments", "kind": "Deployment"}]},
        WORKLOAD: deployment(2),
        f"{WORKLOAD}/scale": {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"replicas": 2}},
        "/api/v1/namespaces/kube-system/pods?labelSelector=component%3Dkube-controller-manager": {"items": []},
    }


def read(kind: str, name: str, **answers: Any) -> Objects:
    return asyncio.run(Reading(Answers(table() | answers), "shop").objects(kind, name))


@pytest.mark.parametrize("what", [("kpa", "web"), ("ksvc", "web"), ("deployments", "web")])
def test_a_podautoscaler_is_read_with_all_that_its_autoscaler_looks_at(what):
    found = read(*what)
    known = scene.of(found, found.one("PodAutoscaler", "shop", "web"), NOW)
    assert (known.replicas, known.ready, known.ready_known) == (2, 0, True), "the pod is not ready"
    assert [one.replicas for one in known.refused] == [4]
    assert known.rules.config_known
    assert {one["kind"] for one in found.all()} >= {"Metric", "ServerlessService"}
    assert bool(found.of("Service")) == (what[0] == "ksvc")


def test_that_there_are_none_is_known_too():
    found = read("kpa", "web", **{PODS: {"items": []}, EVENTS: {"items": []}})
    known = scene.of(found, found.one("PodAutoscaler", "shop", "web"), NOW)
    assert (known.ready, known.ready_known) == (0, True), "its status says 2"
    assert known.memory.most == 2, "nothing was refused"


def test_where_we_may_not_read_more_the_rest_stands_in():
    denied = dict.fromkeys([PODS, EVENTS, SKS, f"{KPAS}/metrics/web", f"{CONFIG}/config-autoscaler"], 403)
    found = read("kpa", "web", **denied)
    known = scene.of(found, found.one("PodAutoscaler", "shop", "web"), NOW)
    assert (known.ready, known.ready_known, known.rules.config_known) == (2, True, False)
    assert scene.EVENT not in found.asked


def test_what_is_asked_for_and_may_not_be_read_is_an_error():
    with pytest.raises(ApiError):
        read("kpa", "web", **{f"{KPAS}/podautoscalers/web": 403})
    with pytest.raises(ApiError):
        read("ksvc", "web", **{SERVICE: 403})
    with pytest.raises(ApiError):
        read("scaledobject", "so", **{f"{SCALED}/so": 403})


def test_what_is_not_there_is_left_out():
    assert not list(read("kpa", "web", **{f"{KPAS}/podautoscalers/web": 404}).of("PodAutoscaler"))
    assert not list(read("ksvc", "web", **{SERVICE: 404}).of("Service"))


def test_a_podautoscaler_of_the_class_hpa_brings_its_hpa():
    tree = kpa(**{"class": "hpa.autoscaling.knative.dev"})
    found = read("kpa", "web", **{f"{KPAS}/podautoscalers/web": tree, HPAS: {"items": [plain(hpa())]}})
    assert found.one("HorizontalPodAutoscaler", "shop", "web")
    assert found.one("Scale", "shop", "web")


def test_a_scaled_object_without_an_hpa_brings_what_it_scales():
    found = read("scaledobject", "so")
    assert found.one("Scale", "shop", "web")["spec"] == {"replicas": 2}


def test_a_scaled_object_brings_its_hpa_once():
    made = hpa()
    made["metadata"] = {"name": "keda-hpa-so", "namespace": "shop"}
    found = read("deployments", "web", **{HPAS: {"items": [plain(made)]}})
    assert found.one("HorizontalPodAutoscaler", "shop", "keda-hpa-so")
    assert [one["metadata"]["name"] for one in found.of("ScaledObject")] == ["so"]
    assert len(found.of("Scale")) == 1
