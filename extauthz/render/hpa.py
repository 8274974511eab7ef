"""The HPA in pods of its own: kube-controller-manager with that one controller, so that only it needs a gate.

The static pod of the control plane then runs without it. Its leader holds a lease of its own, and its account has what
the API server's bootstrap roles give the controller
(``plugin/pkg/auth/authorizer/rbac/bootstrappolicy/controller_policy.go``). The gate is beside it here, and behind a
Service where the pods are in a mesh (``extauthz.render.istio``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any as Tree

from . import beside, gate, rights
from .beside import BesideOptions
from .manifests import Part, named

CONTROLLER = "horizontal-pod-autoscaler-controller"
"""``HorizontalPodAutoscalerController`` in ``cmd/kube-controller-manager/names`` of 1.36. Its old
name ``horizontalpodautoscaling`` is still taken (``newHorizontalPodAutoscalerControllerDescriptor``)."""

NAME = beside.AUTOSCALERS["hpa-controller"].deployment
"""Name of the Deployment, its account and its lease."""
CONTAINER = beside.AUTOSCALERS["hpa-controller"].container
LABELS = {"app.kubernetes.io/name": NAME}
REPLICAS = 2
"""One works, one waits."""

HEALTH_PORT = 10257
"""``KubeControllerManagerPort`` in ``k8s.io/kubernetes/cmd/kube-controller-manager/app/options``."""

TAKE_OUT = f"""\
Then, where kube-controller-manager runs now, take the controller out of it, or two HPAs scale, and one asks nobody:
    --controllers=*,bootstrapsigner,tokencleaner,-{CONTROLLER}
(the first three are kubeadm's own). A managed control plane has no such flag: there this way is closed."""

_POD = f"""\
The HPA in pods of its own. First the Secret {{secret}}: tls.crt and tls.key for the address 127.0.0.1,
which Envoy shows, and its authority in ca.crt, which the HPA trusts (`extauthz render tls`).

{TAKE_OUT}"""


def account(options: BesideOptions) -> Part:
    """The account of the HPA, with the rights of the gate beside it too."""
    own = own_rights(options.gate.namespace)
    return Part("Rights of the HPA controller, and of the gate beside it.", [*own, *beside.account(options).objects])


def own_rights(namespace: str) -> list[dict[str, Tree]]:
    """An account with the rights of the controller and of its lease."""
    holder = (namespace, NAME)
    # Who asks for /metrics is checked by the API server (k8s.io/apiserver/pkg/server/options).
    asks = rights.bound(
        f"{NAME}:authentication", "Role", "extension-apiserver-authentication-reader", holder, "kube-system"
    )
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named(NAME, namespace)},
        rights.bound(NAME, "ClusterRole", "system:controller:horizontal-pod-autoscaler", holder),
        rights.bound(f"{NAME}:authorization", "ClusterRole", "system:auth-delegator", holder),
        asks,
        _lease(namespace),
        rights.bound(NAME, "Role", NAME, holder, namespace),
    ]


def deployment(options: BesideOptions) -> Part:
    """Envoy and gate in its pods."""
    metadata, spec = beside.template(options)
    namespace = options.gate.namespace
    spec["containers"].insert(0, manager(namespace, options.manager_image) | beside.led_to_envoy(options))
    tree = replicated(namespace, options.gate.replicas, metadata, spec)
    return Part(_POD.format(secret=options.gate.tls_secret), [tree])


PARTS: dict[str, Callable[[BesideOptions], Part]] = beside.PARTS | {"account": account, "pod": deployment}


def replicated(namespace: str, replicas: int, metadata: dict[str, Tree], spec: dict[str, Tree]) -> dict[str, Tree]:
    """A Deployment of such pods. *metadata* has annotations, and may have labels."""
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": LABELS},
    }
    spec = spec | {
        "serviceAccountName": NAME,
        "priorityClassName": "system-cluster-critical",
        "topologySpreadConstraints": [spread],
    }
    metadata = {"labels": LABELS | metadata.get("labels", {}), "annotations": metadata["annotations"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": named(NAME, namespace),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": metadata, "spec": spec},
        },
    }


def manager(namespace: str, image: str) -> dict[str, Tree]:
    """Its container, without its path to the API server."""
    probe = {"path": "/healthz", "port": HEALTH_PORT, "scheme": "HTTPS"}
    return {
        "name": CONTAINER,
        "image": image,
        "command": ["kube-controller-manager"],
        "args": [
            f"--controllers={CONTROLLER}",
            f"--leader-elect-resource-name={NAME}",
            f"--leader-elect-resource-namespace={namespace}",
            "--use-service-account-credentials=false",
        ],
        "livenessProbe": {"httpGet": probe, "initialDelaySeconds": 10, "periodSeconds": 10, "failureThreshold": 6},
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
        "securityContext": gate.locked_down(),
    }


def _lease(namespace: str) -> dict[str, Tree]:
    leases = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    return {
        "apiVersion": f"{rights.RBAC}/v1",
        "kind": "Role",
        "metadata": named(NAME, namespace),
        "rules": [
            leases | {"verbs": ["create"]},
            leases | {"verbs": ["get", "update"], "resourceNames": [NAME]},
        ],
    }
