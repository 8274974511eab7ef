"""The HPA in pods of its own: kube-controller-manager with that one controller, so that only it needs a gate.

The static pod of the control plane then runs without it. Its leader holds a lease of its own, and its account has what
the API server's bootstrap roles give the controller
(``plugin/pkg/auth/authorizer/rbac/bootstrappolicy/controller_policy.go``).
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

HEALTH_PORT = 10257
"""``KubeControllerManagerPort`` in ``k8s.io/kubernetes/cmd/kube-controller-manager/app/options``."""

_POD = f"""\
The HPA in pods of its own. First the Secret {{secret}}: tls.crt and tls.key for the address 127.0.0.1,
which Envoy shows, and its authority in ca.crt, which the HPA trusts (`extauthz render tls`).

Then, where kube-controller-manager runs now, take the controller out of it, or two HPAs scale, and one asks nobody:
    --controllers=*,bootstrapsigner,tokencleaner,-{CONTROLLER}
(the first three are kubeadm's own). A managed control plane has no such flag: there this way is closed."""


def account(options: BesideOptions) -> Part:
    """An account with the rights of the controller, of its lease, and of the gate beside it."""
    namespace, name = options.gate.namespace, options.autoscaler.account
    holder = (namespace, name)
    # Who asks for /metrics is checked by the API server (k8s.io/apiserver/pkg/server/options).
    asks = rights.bound(
        f"{name}:authentication", "Role", "extension-apiserver-authentication-reader", holder, "kube-system"
    )
    objects = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named(name, namespace)},
        rights.bound(name, "ClusterRole", "system:controller:horizontal-pod-autoscaler", holder),
        rights.bound(f"{name}:authorization", "ClusterRole", "system:auth-delegator", holder),
        asks,
        _lease(options),
        rights.bound(name, "Role", name, holder, namespace),
    ]
    return Part(
        "Rights of the HPA controller, and of the gate beside it.", [*objects, *beside.account(options).objects]
    )


def deployment(options: BesideOptions) -> Part:
    """One works, the others wait for its lease."""
    name, labels = options.autoscaler.deployment, {"app.kubernetes.io/name": options.autoscaler.deployment}
    metadata, spec = beside.template(options)
    spec["containers"].insert(0, _manager(options))
    spec |= {
        "serviceAccountName": options.autoscaler.account,
        "priorityClassName": "system-cluster-critical",
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": labels},
            }
        ],
    }
    tree = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": named(name, options.gate.namespace),
        "spec": {
            "replicas": options.gate.replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels} | metadata, "spec": spec},
        },
    }
    return Part(_POD.format(secret=options.gate.tls_secret), [tree])


PARTS: dict[str, Callable[[BesideOptions], Part]] = beside.PARTS | {"account": account, "pod": deployment}


def _lease(options: BesideOptions) -> dict[str, Tree]:
    name, leases = options.autoscaler.account, {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    return {
        "apiVersion": f"{rights.RBAC}/v1",
        "kind": "Role",
        "metadata": named(name, options.gate.namespace),
        "rules": [
            leases | {"verbs": ["create"]},
            leases | {"verbs": ["get", "update"], "resourceNames": [options.autoscaler.deployment]},
        ],
    }


def _manager(options: BesideOptions) -> dict[str, Tree]:
    probe = {"path": "/healthz", "port": HEALTH_PORT, "scheme": "HTTPS"}
    return {
        "name": options.autoscaler.container,
        "image": options.manager_image,
        "command": ["kube-controller-manager"],
        "args": [
            f"--controllers={CONTROLLER}",
            f"--leader-elect-resource-name={options.autoscaler.deployment}",
            f"--leader-elect-resource-namespace={options.gate.namespace}",
            "--use-service-account-credentials=false",
        ],
        "livenessProbe": {"httpGet": probe, "initialDelaySeconds": 10, "periodSeconds": 10, "failureThreshold": 6},
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
        "securityContext": gate.locked_down(),
    } | beside.led_to_envoy(options)
