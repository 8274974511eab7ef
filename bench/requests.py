"""The two requests that matter most, as recorded from real autoscalers through a real Envoy, for any workload."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from extauthz.core.model import Request

from .population import Population, uid

_KPA_HEADERS = {
    ":authority": "127.0.0.1:17443",
    ":scheme": "https",
    "accept": "application/json",
    "accept-encoding": "gzip",
    "content-length": "48",
    "content-type": "application/json-patch+json",
    "user-agent": "autoscaler/v0.0.0 (linux/amd64) kubernetes/$Format",
    "x-forwarded-proto": "https",
    "x-request-id": "165b93d5-c74b-43c3-8ff0-1f30f3b141b3",
}
_HPA_HEADERS = {
    ":authority": "127.0.0.1:17443",
    ":scheme": "https",
    "accept": "application/vnd.kubernetes.protobuf, */*",
    "content-length": "273",
    "user-agent": (
        "kube-controller-manager/v0.0.0 (linux/amd64) "
        "kubernetes/$Format/system:serviceaccount:kube-system:horizontal-pod-autoscaler"
    ),
    "x-forwarded-proto": "https",
    "x-request-id": "2025a977-f06b-4c9b-845f-fdd23a422ee4",
}


def kpa(population: Population, i: int, replicas: int) -> Request:
    """Knative's autoscaler (serving 1.22) scales workload number ``i``."""
    body = f'[{{"op":"add","path":"/spec/replicas","value":{replicas}}}]'
    return Request("PATCH", _scale(population, i), _KPA_HEADERS, body.encode())


def hpa(population: Population, i: int, replicas: int) -> Request:
    """kube-controller-manager's HorizontalPodAutoscaler (1.36) scales workload number ``i``, without a content-type."""
    name, namespace, version = population.name(i), population.namespace(i), population.resource_version(i)
    body = (
        f'{{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{{"name":"{name}","namespace":"{namespace}",'
        f'"uid":"{uid(i)}","resourceVersion":"{version}","creationTimestamp":"2026-11-21T01:48:11Z"}},'
        f'"spec":{{"replicas":{replicas}}},"status":{{"replicas":2,"selector":"app={name}"}}}}\n'
    )
    return Request("PUT", _scale(population, i), _HPA_HEADERS, body.encode())


def _scale(population: Population, i: int) -> str:
    return f"/apis/apps/v1/namespaces/{population.namespace(i)}/deployments/{population.name(i)}/scale"


SENDERS: Mapping[str, Callable[[Population, int, int], Request]] = {"KPA PATCH": kpa, "HPA PUT": hpa}
