"""The HPA where it is: kube-controller-manager's static pod, led to an Envoy that is a static pod on the same node.

kube-controller-manager gets another kubeconfig, with a token, because a client certificate would end at Envoy. Nothing
else of it changes (docs/kube-controller-manager.md has the steps).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any as Tree

from . import beside, certificates, rights
from .manifests import Part, named
from .options import Endpoint

NAMESPACE = "kube-system"
MANAGER = "kube-controller-manager"
ENVOY = "extauthz-envoy"
KUBECONFIG = "controller-manager.conf"
_LISTEN = Endpoint("127.0.0.1", 7443)


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """A control plane node; paths and ports are kubeadm's."""

    folder: str = "/etc/kubernetes/extauthz"
    """What Envoy and kube-controller-manager mount: its bootstrap, certificates, the kubeconfig, the token."""
    listen: Endpoint = _LISTEN
    apiserver_ca_file: str = "/etc/kubernetes/pki/ca.crt"
    envoy_image: str = beside.ENVOY_IMAGE


_POD = """\
For /etc/kubernetes/manifests/extauthz-envoy.yaml of each control plane node, once {folder} holds
envoy.yaml and its other parts (`extauthz render envoy --profile scale --secrets {folder}`), and the files
that they name. It runs as root because that folder is root's alone."""

_KUBECONFIG = """\
For {folder}/{name}, which `--kubeconfig` of kube-controller-manager names. Beside it are
the authority of Envoy's certificate, ca.crt, and the token of the account kube-system/kube-controller-manager;
client-go reads that anew each minute."""

_ACCOUNT = """\
An account with the roles that kube-controller-manager has as system:kube-controller-manager, and no more."""

_KUBEADM = """\
For the ClusterConfiguration of kubeadm, so that an upgrade keeps it: kube-controller-manager's static pod with the
other kubeconfig and the folder that holds it. Its --authentication-kubeconfig and --authorization-kubeconfig stay, and
go straight to the API server."""


def pod(options: NodeOptions) -> Part:
    """Envoy's static pod."""
    files = {"files": (options.folder, "Directory"), "authority": (options.apiserver_ca_file, "File")}
    container = {
        "name": "envoy",
        "image": options.envoy_image,
        "args": ["-c", f"{options.folder}/envoy.yaml"],
        "readinessProbe": {"tcpSocket": {"host": options.listen.host, "port": options.listen.port}},
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": name, "mountPath": path, "readOnly": True} for name, (path, _) in files.items()],
    }
    spec = {
        "hostNetwork": True,
        "priorityClassName": "system-node-critical",
        "securityContext": {"runAsUser": 0, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [{"name": name, "hostPath": {"path": path, "type": kind}} for name, (path, kind) in files.items()],
    }
    metadata = named(ENVOY, NAMESPACE, labels={"component": ENVOY})
    return Part(
        _POD.format(folder=options.folder), [{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}]
    )


def kubeconfig(options: NodeOptions) -> Part:
    """kube-controller-manager's kubeconfig, through Envoy."""
    host = f"[{options.listen.host}]" if ":" in options.listen.host else options.listen.host
    server = f"https://{host}:{options.listen.port}"
    tree = certificates.config(server, f"{options.folder}/ca.crt", "manager", f"{options.folder}/token")
    return Part(_KUBECONFIG.format(folder=options.folder, name=KUBECONFIG), [tree])


def account(_: NodeOptions) -> Part:
    """The account of the token."""
    holder = (NAMESPACE, MANAGER)
    lease = "system::leader-locking-kube-controller-manager"
    bound = [
        rights.bound(f"extauthz:{MANAGER}", "ClusterRole", f"system:{MANAGER}", holder),
        rights.bound(f"extauthz:{MANAGER}", "Role", lease, holder, NAMESPACE),
    ]
    return Part(
        _ACCOUNT, [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named(MANAGER, NAMESPACE)}, *bound]
    )


def kubeadm(options: NodeOptions) -> Part:
    """What kubeadm is told of kube-controller-manager
    (https://kubernetes.io/docs/reference/config-api/kubeadm-config.v1beta4/)."""
    folder: dict[str, Tree] = {
        "name": "extauthz",
        "hostPath": options.folder,
        "mountPath": options.folder,
        "readOnly": True,
        "pathType": "Directory",
    }
    manager = {
        "extraArgs": [{"name": "kubeconfig", "value": f"{options.folder}/{KUBECONFIG}"}],
        "extraVolumes": [folder],
    }
    tree = {
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "ClusterConfiguration",
        "controllerManager": manager,
    }
    return Part(_KUBEADM, [tree])


PARTS: dict[str, Callable[[NodeOptions], Part]] = {
    "account": account,
    "kubeconfig": kubeconfig,
    "pod": pod,
    "kubeadm": kubeadm,
}
"""In the order of installation."""
