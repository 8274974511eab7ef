"""The options of what puts the gate into an Istio sidecar: whose, and what its certificates are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from .options import Endpoint, GateTls, Profile, SidecarOptions

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
    client_facing: str = "extauthz-apiserver"
    """Secret with the certificate that the client is shown."""
    gate_facing: str = "extauthz-client"
    """Secret with the certificate that the gate is shown, and the gate's authority."""
    trusted: str = "extauthz-apiserver-ca"
    """ConfigMap with what the client trusts: the authority of that certificate, and the cluster's own."""
