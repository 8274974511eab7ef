"""The gate in pods of its own, behind a Service that each Envoy asks. ``deploy/`` is what this renders."""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources
from typing import Any as Tree

from . import rights
from .gate import GRPC_PORT, HTTP_PORT, NOBODY, TLS_FOLDER, GateOptions, Ledger, Traffic, container
from .manifests import GATE, LABELS, Part, mount, named

PORTS = {"grpc": GRPC_PORT, "http": HTTP_PORT}
SELECTED = {"matchLabels": LABELS}
CLIENT = {"extauthz.dev/client": "true"}
EACH = f"{GATE}-gates"
METRICS = {"extauthz.dev/metrics": "true"}

_DEPLOYMENT = """\
Gates agree upon each growth in WorkspaceLedger objects (docs/ledger.md). A rollout starts a new one before it ends an
old one. The Secret {secret} holds tls.crt and tls.key for extauthz.{namespace}.svc, and the authority of
Envoy's client certificate in ca.crt, as cert-manager makes it. A renewed one is taken without a restart."""

_ALONE = """\
A single gate that keeps its ledger to itself: never two at once, so a rollout ends the old one first. The Secret
{secret} holds tls.crt and tls.key for extauthz.{namespace}.svc, and the authority of Envoy's client certificate
in ca.crt."""

_SERVICES = """\
Where Envoy asks, by TLS on both sides: {gate}.
A connection prefers a gate in its own zone, and leads to another where there is none.
{each} is the address of each gate, for --gate-failover: Kubernetes
takes most of a minute to notice that a node is gone, an Envoy that knows the gates takes seconds."""

_NETWORK = """\
Who may reach the gate, and whom it may reach. Pods ask it that have the label extauthz.dev/client: "true", wherever
they are; an Envoy on the host's network (beside kube-controller-manager) has no labels: add an ipBlock of the control
plane's addresses in an overlay. Metrics are for namespaces with the label extauthz.dev/metrics: "true". Kubelets'
probes always pass. Out: the API server, which no selector can name, behind its Service or directly; and DNS."""


def namespace(options: GateOptions) -> Part:
    """Where the gate runs."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return Part("", [{"apiVersion": "v1", "kind": "Namespace", "metadata": named(options.namespace, labels=labels)}])


def definition(plural: str) -> Part:
    """A CustomResourceDefinition, which is written by hand: its rules need their comments."""
    return Part("", text=(resources.files(__package__) / "crds" / f"{plural}.yaml").read_text())


def deployment(options: GateOptions) -> Part:
    """As many gates as asked for, spread over zones and nodes where that can be."""
    shared = options.ledger is Ledger.KUBERNETES
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    annotations = {"prometheus.io/scrape": "true", "prometheus.io/port": str(HTTP_PORT)}
    tree = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": named(GATE, options.namespace),
        "spec": {
            "replicas": options.replicas,
            "strategy": rolling if shared else {"type": "Recreate"},
            "selector": SELECTED,
            "template": {"metadata": {"labels": LABELS, "annotations": annotations}, "spec": _pod(options)},
        },
    }
    says = (_DEPLOYMENT if shared else _ALONE).format(secret=options.tls_secret, namespace=options.namespace)
    return Part(says, [tree])


def service(options: GateOptions) -> Part:
    """Where Envoy asks."""
    grpc = {"name": "grpc", "port": GRPC_PORT, "targetPort": "grpc", "appProtocol": "grpc"}
    spec: dict[str, Tree] = {
        "selector": LABELS,
        "ports": [grpc, {"name": "http", "port": HTTP_PORT, "targetPort": "http"}],
    }
    if options.traffic is not Traffic.ANY:
        spec["trafficDistribution"] = str(options.traffic)
    each = {"selector": LABELS, "clusterIP": "None", "ports": [grpc]}
    gate, each_gate = (f"{name}.{options.namespace}.svc:{GRPC_PORT}" for name in (GATE, EACH))
    says = _SERVICES.format(gate=gate, each=each_gate)
    return Part(says, [_object("v1", "Service", options, spec), _object("v1", "Service", options, each, EACH)])


def disruption_budget(options: GateOptions) -> Part:
    """How many gates a drain may take."""
    spec = {"maxUnavailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow", "selector": SELECTED}
    says = "A drain may take one gate away at a time; each decides by itself, and none waits for another that is gone."
    return Part(says, [_object("policy/v1", "PodDisruptionBudget", options, spec)])


def network_policy(options: GateOptions) -> Part:
    """NetworkPolicies: who may ask the gate, who may scrape it, and where the gate may connect."""
    clients = {"namespaceSelector": {}, "podSelector": {"matchLabels": CLIENT}}
    dns = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}
    spec = {
        "podSelector": SELECTED,
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [
            {"from": [clients], "ports": _ports("grpc")},
            {"from": [{"namespaceSelector": {"matchLabels": METRICS}}], "ports": _ports("http")},
        ],
        "egress": [
            {"ports": _ports(443, 6443)},
            {"to": [dns], "ports": [{"port": 53, "protocol": "UDP"}, *_ports(53)]},
        ],
    }
    return Part(_NETWORK, [_object("networking.k8s.io/v1", "NetworkPolicy", options, spec)])


PARTS: dict[str, Callable[[GateOptions], Part]] = {
    "namespace": namespace,
    "crd": lambda _: definition("workspacequotas"),
    "ledger-crd": lambda _: definition("workspaceledgers"),
    "rbac": lambda options: rights.own_account(options.namespace),
    "deployment": deployment,
    "service": service,
    "pdb": disruption_budget,
    "networkpolicy": network_policy,
}
"""In the order of installation. Each is a file of ``deploy/``."""


def _pod(options: GateOptions) -> dict[str, Tree]:
    files = ("--tls-cert=tls.crt", "--tls-key=tls.key", "--tls-client-ca=ca.crt")
    servers = [f"--{name}=:{port}" for name, port in PORTS.items()]
    gate = container(options, *servers, *(flag.replace("=", f"={TLS_FOLDER}/") for flag in files)) | {
        "ports": [{"name": name, "containerPort": port} for name, port in PORTS.items()],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "http"}, "periodSeconds": 2, "failureThreshold": 2},
        "volumeMounts": [mount("tls", TLS_FOLDER)],
    }
    return {
        "serviceAccountName": GATE,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 30,
        # The group may read the Secret.
        "securityContext": {"fsGroup": NOBODY},
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": SELECTED}
            for key in ("topology.kubernetes.io/zone", "kubernetes.io/hostname")
        ],
        "containers": [gate],
        "volumes": [{"name": "tls", "secret": {"secretName": options.tls_secret}}],
    }


def _object(version: str, kind: str, options: GateOptions, spec: dict[str, Tree], name: str = GATE) -> dict[str, Tree]:
    return {"apiVersion": version, "kind": kind, "metadata": named(name, options.namespace), "spec": spec}


def _ports(*ports: int | str) -> list[dict[str, Tree]]:
    return [{"port": port, "protocol": "TCP"} for port in ports]
