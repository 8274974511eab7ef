"""The gate and its Envoy in the autoscaler's own pod: a unix socket between them, and no network to the gate.

The autoscaler keeps its in-cluster configuration: two variables lead it to Envoy, and the volume with its token has
Envoy's authority in place of the cluster's (``rest.InClusterConfig`` of client-go reads just these).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any as Tree
from typing import NamedTuple

from . import envoy, gate, pods, rights, secrets
from .gate import GateOptions, Ledger
from .kubernetes import definition
from .manifests import GATE, Part, folder, mount, named
from .options import Endpoint, Profile, SidecarOptions

SOCKET_FOLDER = "/run/extauthz"
CONFIG_FOLDER = "/etc/extauthz/envoy"
ENVOY_IMAGE = "envoyproxy/envoy:distroless-v1.40.0"
MANAGER_IMAGE = "registry.k8s.io/kube-controller-manager:v1.36.3"
ENVOY_CONFIG = "extauthz-envoy"
BOOTSTRAP = "envoy.yaml"


class Autoscaler(NamedTuple):
    """Whose pod it is, as its project ships it."""

    namespace: str
    deployment: str
    container: str
    account: str
    profile: Profile


AUTOSCALERS = {
    # config/manager/manager.yaml of kedacore/keda; its Helm chart has the same
    "keda": Autoscaler("keda", "keda-operator", "keda-operator", "keda-operator", Profile.AUTOSCALER),
    # config/core/deployments/autoscaler.yaml of knative/serving
    "knative": Autoscaler("knative-serving", "autoscaler", "autoscaler", "controller", Profile.AUTOSCALER),
    # ours: render/hpa.py
    "hpa-controller": Autoscaler(
        "kube-system", "extauthz-hpa-controller", "hpa-controller", "extauthz-hpa-controller", Profile.SCALE
    ),
}


@dataclass(frozen=True, slots=True)
class BesideOptions:
    """One autoscaler. Of ``gate``, ``namespace`` is the autoscaler's, and ``tls_secret`` is what it is shown."""

    autoscaler: Autoscaler = AUTOSCALERS["keda"]
    gate: GateOptions = field(default_factory=lambda: GateOptions(tls_secret="extauthz-apiserver"))  # noqa: S106
    sidecar: SidecarOptions = field(default_factory=SidecarOptions)
    envoy_image: str = ENVOY_IMAGE
    manager_image: str = MANAGER_IMAGE

    def __post_init__(self) -> None:
        """Refuse what would grant the same room twice.

        Raises:
            ValueError: gates that each keep their own ledger.
        """
        if self.gate.ledger is Ledger.MEMORY:
            raise ValueError(
                "--ledger memory is for a single gate, and a rollout of the autoscaler runs two: leave it out"
            )

    @property
    def envoy_files(self) -> dict[str, str]:
        """What Envoy is configured with: the bootstrap, and a file for each certificate that it names."""
        socket = Endpoint("", 0, f"{SOCKET_FOLDER}/gate.sock")
        here = replace(self.sidecar, gate=socket, gate_tls=None, secrets_dir=CONFIG_FOLDER)
        certificates = {f"{name}.yaml": envoy.to_yaml(file) for name, file in secrets.files(here).items()}
        return {BOOTSTRAP: envoy.to_yaml(envoy.sidecar(here))} | certificates


_POD = """\
A part of the Deployment {namespace}/{deployment}, to be laid over it:
    kubectl apply --server-side --field-manager=extauthz -f -
or a patch for kustomize, or for `kubectl patch --patch-file`. The Secret {secret} comes first: tls.crt
and tls.key for the address 127.0.0.1, which Envoy shows, and its authority in ca.crt, which is what the autoscaler
trusts (`extauthz render tls`).

Envoy is there before the autoscaler starts. The gate is an ordinary container without a readiness probe: where it
does not run, growth is refused, and the autoscaler goes on with everything else."""


def envoy_config(options: BesideOptions) -> Part:
    """The bootstrap and what belongs to it, in a ConfigMap."""
    tree = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": named(ENVOY_CONFIG, options.gate.namespace),
        "data": options.envoy_files,
    }
    return Part("What `extauthz render envoy` prints for this place, and its other parts.", [tree])


def account(options: BesideOptions) -> Part:
    """The gate's roles for the account that the pod runs as."""
    holder = (options.gate.namespace, options.autoscaler.account)
    bindings = [
        rights.bound(f"{role}:{':'.join(holder)}", "ClusterRole", role, holder) for role in (GATE, rights.SCALED_KINDS)
    ]
    return Part("The gate runs as the autoscaler's own account, which needs the gate's rights too.", bindings)


def patch(options: BesideOptions) -> Part:
    """What is laid over the autoscaler's Deployment."""
    metadata, spec = template(options)
    spec["containers"].insert(0, {"name": options.autoscaler.container} | led_to_envoy(options))
    tree = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": named(options.autoscaler.deployment, options.gate.namespace),
        "spec": {"template": {"metadata": metadata, "spec": spec}},
    }
    names = {"deployment": options.autoscaler.deployment, "secret": options.gate.tls_secret}
    return Part(_POD.format(namespace=options.gate.namespace, **names), [tree])


def led_to_envoy(options: BesideOptions) -> dict[str, Tree]:
    """What the autoscaler's own container needs."""
    listen = options.sidecar.listen
    variables = {"KUBERNETES_SERVICE_HOST": listen.host, "KUBERNETES_SERVICE_PORT": str(listen.port)}
    return {
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "volumeMounts": [mount("extauthz-api-access", pods.API_ACCESS)],
    }


def template(options: BesideOptions) -> tuple[dict[str, Tree], dict[str, Tree]]:
    """Metadata and spec of the pod: Envoy, the gate, and what they share."""
    # Envoy reads its bootstrap once: another one is another pod.
    digest = hashlib.sha256("".join(options.envoy_files.values()).encode()).hexdigest()[:16]
    spec = {
        "initContainers": [_envoy(options)],
        "containers": [_gate(options)],
        "volumes": [
            pods.api_access(pods.of_secret(options.gate.tls_secret)),
            {"name": "extauthz-tls", "secret": {"secretName": options.gate.tls_secret}},
            {"name": "extauthz-envoy", "configMap": {"name": ENVOY_CONFIG}},
            # The cluster's authority without a token: Envoy passes on the autoscaler's.
            {"name": "extauthz-authority", "configMap": {"name": "kube-root-ca.crt"}},
            {"name": "extauthz-socket", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        ],
    }
    return {"annotations": {"extauthz.dev/envoy-config": digest}}, spec


def _gate(options: BesideOptions) -> dict[str, Tree]:
    container = gate.container(options.gate, f"--grpc=unix:{SOCKET_FOLDER}/gate.sock", f"--http=:{gate.HTTP_PORT}")
    return container | {
        "name": "extauthz-gate",
        "livenessProbe": container["livenessProbe"] | {"httpGet": {"path": "/healthz", "port": gate.HTTP_PORT}},
        "volumeMounts": [{"name": "extauthz-socket", "mountPath": SOCKET_FOLDER}],
    }


def _envoy(options: BesideOptions) -> dict[str, Tree]:
    """A container that starts before all others and stays (KEP-753)."""
    mounts = {
        "extauthz-envoy": CONFIG_FOLDER,
        "extauthz-tls": folder(options.sidecar.cert_file),
        "extauthz-authority": pods.API_ACCESS,
        "extauthz-socket": SOCKET_FOLDER,
    }
    return {
        "name": "extauthz-envoy",
        "image": options.envoy_image,
        "args": [f"--config-path={CONFIG_FOLDER}/{BOOTSTRAP}", "--concurrency=2"],
        "restartPolicy": "Always",
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
        "securityContext": gate.locked_down(),
        "volumeMounts": [mount(name, path) for name, path in mounts.items()],
    }


PARTS: dict[str, Callable[[BesideOptions], Part]] = {
    "crd": lambda _: definition("workspacequotas"),
    "ledger-crd": lambda _: definition("workspaceledgers"),
    "roles": lambda _: rights.roles(),
    "account": account,
    "envoy": envoy_config,
    "pod": patch,
}
"""In the order of installation."""
