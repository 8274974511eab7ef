"""What ``explain`` reads of a cluster, and what it does where it may not. (A real one: tests/e2e/test_explain.py.)"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from extauthz.cli.explain_cluster import Reading
from extauthz.explain.decide import decide, scene_of
from extauthz.explain.objects import POD_METRICS, ExplainError, Flags
from extauthz.inputs.kube.connection import ApiError
from tests.support.kubecalls import Answers
from tests.unit.explain.building import NOW, alike, cpu, external, hpa, status

Tree = Any

PODS = "/api/v1/namespaces/shop/pods?labelSelector=app%3Dweb"
METRICS = "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods?labelSelector=app%3Dweb"
EVENTS = (
    "/api/v1/namespaces/shop/events?fieldSelector="
    "involvedObject.kind%3DHorizontalPodAutoscaler%2CinvolvedObject.name%3Dweb"
)
HPAS = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers"
DEPLOYMENT = "/apis/apps/v1/namespaces/shop/deployments/web"
SCALE = "/apis/apps/v1/namespaces/shop/deployments/web/scale"


def table() -> dict[str, Tree]:
    objects = alike(12, "81m")
    current = [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 81}}}]
    autoscaler = hpa(cpu(75), status=status(12) | {"currentMetrics": current})
    del autoscaler["kind"]  # as in a list
    return {
        HPAS: {"items": [autoscaler]},
        EVENTS: {"items": []},
        DEPLOYMENT: 404,
        "/apis/apps/v1": {"resources": [{"name": "deployments", "kind": "Deployment"}]},
        SCALE: {
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"replicas": 12},
            "status": {"replicas": 12, "selector": "app=web"},
        },
        PODS: {"items": objects[:12]},
        METRICS: {"items": objects[12:]},
        "/apis/autoscaling.internal.knative.dev/v1alpha1/namespaces/shop/podautoscalers": 404,
        "/apis/keda.sh/v1alpha1/namespaces/shop/scaledobjects": 403,
        "/api/v1/namespaces/kube-system/pods?labelSelector=component%3Dkube-controller-manager": {"items": []},
    }


def explained(kind: str = "hpa", name: str = "web", **answers: Any):
    objects = asyncio.run(Reading(Answers(table() | answers), "shop").objects(kind, name))
    autoscaler = objects.one("HorizontalPodAutoscaler", "shop", "web")
    return objects, decide(scene_of(objects, autoscaler, Flags(), NOW))


@pytest.mark.parametrize("what", [("hpa", "web"), ("deployments", "web")])
def test_an_hpa_is_read_with_all_that_it_looks_at(what):
    objects, answer = explained(*what)
    assert (answer.desired, answer.outcome, answer.certain) == (12, "tolerance", True)
    assert len(objects.of("Pod", "shop")) == len(objects.of(POD_METRICS, "shop")) == 12


@pytest.mark.parametrize("code", [403, 500, 503])
def test_where_metrics_may_not_or_cannot_be_read_now_the_status_stands_in(code: int):
    """The controller may have better luck at its next look."""
    _, answer = explained(**{METRICS: code})
    assert answer.outcome == "tolerance"


@pytest.mark.parametrize("answer", [404, {"items": []}])
def test_where_metrics_servers_have_nothing_the_metric_fails_as_for_the_controller(answer):
    _, answer = explained(**{METRICS: answer})
    assert (answer.outcome, answer.certain) == ("failed", True)


QUEUE = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/s0-queue?labelSelector="


def test_an_adapter_is_asked_as_the_controller_asks_it():
    """KEDA's takes a selector with ``=`` alone. Its items have no labels."""
    metric = external("s0-queue", average="10")
    metric["external"]["metric"]["selector"] = {"matchLabels": {"scaledobject.keda.sh/name": "web"}}
    tree = hpa(metric, status=status(12))
    value = {"metricName": "s0-queue", "metricLabels": None, "value": "240"}
    asked = {f"{QUEUE}scaledobject.keda.sh%2Fname%3Dweb": {"items": [value]}}
    _, answer = explained(**({HPAS: {"items": [tree]}} | asked))
    assert (answer.outcome, answer.desired) == ("scales-up", 24)


def test_where_we_may_not_read_pods_they_are_taken_as_ready():
    _, answer = explained(**{PODS: 403})
    assert (answer.outcome, answer.certain) == ("tolerance", True), "in the band pods do not matter"


def test_a_target_that_is_gone_is_said_to_be_gone():
    with pytest.raises(ExplainError, match="Deployment shop/web"):
        explained(**{SCALE: 404})


OWN = {
    HPAS: 403,
    f"{HPAS}/web": table()[HPAS]["items"][0],
    SCALE: 403,
    DEPLOYMENT: {
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 12, "selector": {"matchLabels": {"app": "web"}}},
        "status": {"replicas": 12},
    },
    PODS: 403,
    METRICS: 403,
    EVENTS: 403,
    "/api/v1/namespaces/kube-system/pods?labelSelector=component%3Dkube-controller-manager": 403,
}


def test_an_owner_who_may_get_the_hpa_and_its_workload_gets_an_answer_and_reads_which_rights_are_missing():
    objects, answer = explained(**OWN)
    assert (answer.current, answer.outcome) == (12, "tolerance")
    assert set(objects.missing) == {
        "list horizontalpodautoscalers.autoscaling in shop",
        "list events in shop",
        "get deployments.apps/scale in shop",
        "list pods in shop",
        "list pods.metrics.k8s.io in shop",
        "list pods in kube-system",
    }


def test_who_may_read_all_is_told_of_no_right():
    objects, _ = explained()
    assert objects.missing == ()


def test_an_hpa_that_may_not_even_be_read_ends_it():
    with pytest.raises(ApiError):
        explained(**(OWN | {f"{HPAS}/web": 403}))
