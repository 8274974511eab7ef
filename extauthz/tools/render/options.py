"""The options of the rendered Envoy, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

SERVING, APISERVER_CA, GATE_CA, GATE_CLIENT = "serving", "apiserver-ca", "gate-ca", "gate-client"
PARTS = (SERVING, APISERVER_CA, GATE_CA, GATE_CLIENT)
"""What of the configuration has a file of its own (``secrets``)."""


class Endpoint(NamedTuple):
    """Where something listens: host and port, or the path of a unix socket."""

    host: str
    port: int
    path: str | None = None


class Outage(StrEnum):
    """What happens to a growth write while the gate gives no answer."""

    DENY = "deny"
    ALLOW = "allow"
    """Quotas hold only while the gate is up."""


class Anonymous(StrEnum):
    """What happens to a growth write without an ``authorization`` header.

    Envoy asks clients for no certificate, since it could not pass it on. So such a write is anonymous to the API
    server, which lets nobody write without a name unless rights were bound to ``system:anonymous``.
    """

    DENY = "deny"
    """Envoy answers 401 itself, as the API server would. The gate is not asked."""
    ASK = "ask"
    """The gate is asked, as for any other."""
    VERIFY = "verify"
    """As ``deny``, and the API server is asked first whether it takes the header and lets its bearer write this. For a
    gateway that strangers reach: only who may write a workload then holds room for it."""


class Profile(StrEnum):
    """Which requests pass the filter."""

    WRITES = "writes"
    """Every write that can grow a workload: for an egress gateway, behind which anybody may be."""
    AUTOSCALER = "autoscaler"
    """The scale subresource, and writes to an existing workload. For KEDA, and for Knative, whose autoscaler up to 1.21
    patches the Deployment itself. Autoscalers create no workloads."""
    SCALE = "scale"
    """Only the scale subresource. For kube-controller-manager: its rollouts need no gate (design.md rule 7)."""


@dataclass(frozen=True, slots=True)
class GateTls:
    """TLS towards the gate. Not needed on loopback or a unix socket."""

    ca_file: str
    server_name: str
    cert_file: str | None = None
    """With ``key_file``: the client certificate that the gate asks for (mTLS)."""
    key_file: str | None = None


CLAMP_TIMEOUT_S = 1.5
"""For the answer of ext_proc, which may have to read an object. Envoy's own 0.2 s are less than one slow garbage
collection."""

VERIFY_TIMEOUT_S = 2.0
"""For the API server's answer to what a client may write. It judges most tokens and rights by itself."""

_LISTEN = Endpoint("127.0.0.1", 6443)
_APISERVER = Endpoint("kubernetes.default.svc", 443)
_GATE = Endpoint("127.0.0.1", 9191)
_ADMIN = Endpoint("127.0.0.1", 9901)


@dataclass(frozen=True, slots=True)
class SidecarOptions:
    """A sidecar between one client (an autoscaler) and the API server. Durations in seconds."""

    listen: Endpoint = _LISTEN
    cert_file: str = "/etc/extauthz/tls/tls.crt"
    """Served to the client, which must trust it: client-go drops bearer tokens for ``http://`` servers."""
    key_file: str = "/etc/extauthz/tls/tls.key"
    secrets_dir: str = "/etc/extauthz/envoy"
    """Folder with a file for each certificate and authority (``secrets.py``). So Envoy uses renewed ones without a
    restart."""
    apiserver: Endpoint = _APISERVER
    apiserver_name: str = "kubernetes.default.svc"
    """A DNS name or an IP address that the API server's certificate must carry."""
    apiserver_ca_file: str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
    gate: Endpoint = _GATE
    failover_gates: tuple[Endpoint, ...] = ()
    """Asked in this order while those before are not healthy. All must share a ledger, or each would grant the same
    room."""
    gate_tls: GateTls | None = None
    gate_timeout_s: float = 2.0
    """Envoy's own default is 0.2 s. One slow garbage collection, or a restart on the same port, would exceed it."""
    write_timeout_s: float = 65.0
    """For the API server's answer to a growth write: 5 s above the server's own limit (``--request-timeout``, 60 s), so
    that its answer comes first and it stays clear whether the write landed (design.md L3)."""
    body_timeout_s: float = 60.0
    """For a growth write's body to arrive whole."""
    on_outage: Outage = Outage.DENY
    anonymous: Anonymous = Anonymous.DENY
    profile: Profile = Profile.WRITES
    clamp: bool = False
    """Have counts lowered to what fits (mode Clamp). Each write that may grow is then asked about twice."""
    exempt_namespaces: tuple[str, ...] = ("extauthz-system",)
    """The gate's own: its rollout must not need it (design.md rule 7)."""
    requester: str = ""
    """The user whose writes come this way, for quotas that bind some. Empty: the gate is not told."""
    admin: Endpoint | None = _ADMIN
    """Envoy's admin page has no authentication: loopback or a unix socket only. ``None``: no admin page."""
    access_log: str | None = "/dev/stdout"
    """One JSON line a checked request and a local reply of Envoy's. ``None``: no log."""

    @property
    def stream_limit_s(self) -> float:
        """The longest duration of a growth write: body, decision, answer."""
        clamp_s = CLAMP_TIMEOUT_S if self.clamp else 0.0
        verify_s = VERIFY_TIMEOUT_S if self.anonymous is Anonymous.VERIFY else 0.0
        return self.body_timeout_s + verify_s + clamp_s + self.gate_timeout_s + self.write_timeout_s


# The options of what puts the gate into an Istio sidecar: whose, and what its certificates are called.


SERVICE_PORT = 443
"""Port of the Service ``default/kubernetes`` (``KubernetesServicePort`` in ``k8s.io/kubernetes/pkg/controlplane``)."""


class Client(NamedTuple):
    """Whose sidecar it is."""

    namespace: str
    deployment: str
    container: str
    labels: tuple[tuple[str, str], ...]
    """Labels of its pods. The EnvoyFilter selects them."""
    profile: Profile = Profile.AUTOSCALER

    @property
    def filter(self) -> str:
        """The name of its EnvoyFilter."""
        return f"extauthz-{self.deployment.removeprefix('extauthz-')}"


_HPA = "extauthz-hpa-controller"


CLIENTS = {
    # config/core/deployments/autoscaler.yaml of knative.dev/serving
    "knative-autoscaler": Client("knative-serving", "autoscaler", "autoscaler", (("app", "autoscaler"),)),
    # config/manager/manager.yaml of kedacore/keda; its Helm chart has the same
    "keda-operator": Client("keda", "keda-operator", "keda-operator", (("app", "keda-operator"),)),
    # Ours: deploy/hpa-controller. Not in kube-system, which Istio leaves alone (``IgnoredNamespaces`` in
    # istio.io/istio/pkg/kube/inject).
    "hpa-controller": Client(
        "extauthz-hpa", _HPA, "hpa-controller", (("app.kubernetes.io/name", _HPA),), Profile.SCALE
    ),
}


SIDECAR = SidecarOptions(
    apiserver=Endpoint("10.96.0.1", SERVICE_PORT),
    gate=Endpoint("extauthz.extauthz-system.svc", 9191),
    gate_tls=GateTls(
        "/etc/extauthz/gate/ca.crt",
        "extauthz.extauthz-system.svc",
        "/etc/extauthz/gate/tls.crt",
        "/etc/extauthz/gate/tls.key",
    ),
    profile=Profile.AUTOSCALER,
)


@dataclass(frozen=True, slots=True)
class MeshOptions:
    """One client in the mesh. istiod itself decides about ``sidecar``, ``listen`` and ``admin``."""

    client: Client = CLIENTS["knative-autoscaler"]
    service_ip: str = "10.96.0.1"
    """Address of the Service ``default/kubernetes``; kubeadm's default. The listener is named after it."""
    sidecar: SidecarOptions = SIDECAR
