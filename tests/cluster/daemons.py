"""What runs on the node, with which flags and files. Each flag that is no default says why.

The flags are kubeadm's own (``kubeadm init phase control-plane``), but for what a machine of one's own needs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.cluster.lacking import PLUGINS
from tests.cluster.place import ADDRESS, APISERVER, DNS, DOMAIN, NODE, PAUSE, PODS, SERVICES, Place
from tests.controlplane.parts import find, version

ETCD = "http://127.0.0.1:2379"
CONTAINERD = "/run/containerd/containerd.sock"
METRICS_PORT = 4443


def commands(place: Place) -> Mapping[str, list[str]]:
    """Name → command line, in the order in which they are started. etcd and the API server come first."""
    config, own = place.kubeconfigs, place.folder
    lines = {
        "etcd": [
            f"--data-dir={own / 'etcd'}",
            f"--listen-client-urls={ETCD}",
            f"--advertise-client-urls={ETCD}",
            "--listen-peer-urls=http://127.0.0.1:2380",
            "--unsafe-no-fsync",  # nothing here outlives the machine
            "--experimental-watch-progress-notify-interval=5s",
        ],
        "kube-apiserver": _apiserver(place),
        "kube-controller-manager": _manager(place),
        "kube-scheduler": [f"--kubeconfig={config / 'scheduler.conf'}"],
        "containerd": [f"--config={own / 'containerd.toml'}"],
        "kubelet": [
            f"--config={own / 'kubelet.json'}",
            f"--kubeconfig={config / 'kubelet.conf'}",
            f"--hostname-override={NODE}",
            f"--node-ip={ADDRESS}",
        ],
        "kube-proxy": [
            f"--kubeconfig={place.admin}",
            f"--hostname-override={NODE}",
            f"--cluster-cidr={PODS}",
            "--proxy-mode=nftables",
            # 0: leave the kernel's own. They are the machine's, and may be read only.
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0s",
            "--conntrack-tcp-timeout-close-wait=0s",
        ],
        "coredns": [f"-conf={own / 'Corefile'}"],
        "metrics-server": [
            *(f"--{each}kubeconfig={place.admin}" for each in ("", "authentication-", "authorization-")),
            f"--secure-port={METRICS_PORT}",
            f"--cert-dir={own / 'metrics-server'}",
            "--kubelet-insecure-tls",  # the kubelet signs its own certificate
            "--kubelet-preferred-address-types=InternalIP",
            "--metric-resolution=15s",  # at least 10 s (metrics-server, its command line)
        ],
    }
    return {name: [str(find(name)), *flags] for name, flags in lines.items()}


def _apiserver(place: Place) -> list[str]:
    keys = place.keys
    return [
        f"--etcd-servers={ETCD}",
        "--secure-port=6443",
        f"--advertise-address={ADDRESS}",
        f"--tls-cert-file={keys / 'apiserver.crt'}",
        f"--tls-private-key-file={keys / 'apiserver.key'}",
        f"--client-ca-file={keys / 'ca.crt'}",
        f"--service-account-issuer=https://kubernetes.default.svc.{DOMAIN}",
        f"--service-account-key-file={keys / 'sa.pub'}",
        f"--service-account-signing-key-file={keys / 'sa.key'}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--service-cluster-ip-range={SERVICES}",
        f"--kubelet-client-certificate={keys / 'apiserver-kubelet-client.crt'}",
        f"--kubelet-client-key={keys / 'apiserver-kubelet-client.key'}",
        "--kubelet-preferred-address-types=InternalIP",  # nobody resolves the node's name
        f"--requestheader-client-ca-file={keys / 'front-proxy-ca.crt'}",
        f"--proxy-client-cert-file={keys / 'front-proxy-client.crt'}",
        f"--proxy-client-key-file={keys / 'front-proxy-client.key'}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--allow-privileged=true",
    ]


def _manager(place: Place) -> list[str]:
    keys, config = place.keys, place.kubeconfigs / "controller-manager.conf"
    return [
        *(f"--{each}kubeconfig={config}" for each in ("", "authentication-", "authorization-")),
        f"--service-account-private-key-file={keys / 'sa.key'}",
        f"--root-ca-file={keys / 'ca.crt'}",
        f"--cluster-signing-cert-file={keys / 'ca.crt'}",
        f"--cluster-signing-key-file={keys / 'ca.key'}",
        "--use-service-account-credentials=true",
        f"--service-cluster-ip-range={SERVICES}",
        "--horizontal-pod-autoscaler-sync-period=5s",  # a third of the default, so that nobody waits
    ]


def files(place: Place) -> Mapping[str, str]:
    """Name below the folder → text: what the commands read."""
    return {
        "kubeadm.json": "\n---\n".join(json.dumps(each) for each in _kubeadm(place)),
        "containerd.toml": _CONTAINERD.format(cni=place.folder / "cni"),
        "cni/10-pods.conflist": json.dumps(_CNI),
        "kubelet.json": json.dumps(_kubelet(place)),
        "Corefile": _COREFILE.format(kubeconfig=place.admin),
        "resolv.conf": f"nameserver {ADDRESS}\n",
        "objects.json": json.dumps({"apiVersion": "v1", "kind": "List", "items": _objects()}),
    }


def _kubeadm(place: Place) -> list[Any]:
    api = "kubeadm.k8s.io/v1beta4"
    return [
        {
            "apiVersion": api,
            "kind": "InitConfiguration",
            "localAPIEndpoint": {"advertiseAddress": ADDRESS, "bindPort": 6443},
            "nodeRegistration": {"name": NODE, "criSocket": f"unix://{CONTAINERD}"},
        },
        {
            "apiVersion": api,
            "kind": "ClusterConfiguration",
            "kubernetesVersion": version("kube-apiserver"),
            "certificatesDir": str(place.keys),
            "controlPlaneEndpoint": f"{ADDRESS}:6443",
            "networking": {"serviceSubnet": SERVICES, "podSubnet": PODS, "dnsDomain": DOMAIN},
            "apiServer": {"certSANs": ["127.0.0.1", "localhost", APISERVER]},
        },
    ]


def _kubelet(place: Place) -> Any:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(place.keys / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{CONTAINERD}",
        "cgroupDriver": "cgroupfs",  # no systemd here
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": [DNS],
        "clusterDomain": DOMAIN,
        "resolvConf": str(place.folder / "resolv.conf"),
        "podCIDR": PODS,
        "volumePluginDir": str(place.folder / "volume-plugins"),
        # The machine's disk is not the cluster's alone, and its images cannot be fetched again.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
    }


_CONTAINERD = f"""\
version = 3
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE}"
[plugins."io.containerd.cri.v1.runtime"]
# Only CAP_SYS_RESOURCE may lower a score; runc fails where it is asked to without.
restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{PLUGINS}"]
conf_dir = "{{cni}}"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = false
"""

# Each pod has a wire of its own to the node, so that all that pods say to each other is routed: behind one bridge the
# answer of a Service's pod would not come back through kube-proxy, where the kernel has no br_netfilter.
_CNI = {
    "cniVersion": "1.0.0",
    "name": "pods",
    "plugins": [
        {
            "type": "ptp",
            "ipMasq": False,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": PODS}]], "routes": [{"dst": "0.0.0.0/0"}]},
        }
    ],
}

_COREFILE = f""".:53 {{{{
    bind {ADDRESS}
    errors
    kubernetes {DOMAIN} in-addr.arpa {{{{
        kubeconfig {{kubeconfig}}
    }}}}
    cache 5
}}}}
"""


def _objects() -> list[Any]:
    """DNS and metrics: Services without selectors that lead to the node, where both run as processes."""
    return [
        *_service("kube-dns", {"clusterIP": DNS}, 53, 53, "UDP", "TCP"),
        *_service("metrics-server", {}, 443, METRICS_PORT, "TCP"),
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": "v1beta1.metrics.k8s.io"},
            "spec": {
                "service": {"name": "metrics-server", "namespace": "kube-system"},
                "group": "metrics.k8s.io",
                "version": "v1beta1",
                "insecureSkipTLSVerify": True,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
            },
        },
        _bound("kubeadm:cluster-admins", "cluster-admin", "Group", "kubeadm:cluster-admins"),
        # For logs, exec and port-forward.
        _bound("kubelet-api", "system:kubelet-api-admin", "User", "kube-apiserver-kubelet-client"),
    ]


def _bound(name: str, role: str, kind: str, who: str) -> Any:
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": group, "kind": kind, "name": who}],
    }


def _service(name: str, spec: Mapping[str, Any], port: int, target: int, *protocols: str) -> list[Any]:
    metadata = {"name": name, "namespace": "kube-system"}
    named = [(each.lower(), each) for each in protocols]
    ports = [{"name": each, "protocol": protocol, "port": port, "targetPort": target} for each, protocol in named]
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {**spec, "ports": ports}},
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**metadata, "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [ADDRESS]}],
            "ports": [{"name": each, "protocol": protocol, "port": target} for each, protocol in named],
        },
    ]
