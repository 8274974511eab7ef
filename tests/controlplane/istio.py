"""A real istiod on a real API server, and a stock Envoy that takes its configuration from it, as a sidecar does."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from extauthz.demo.envoy import binary
from extauthz.demo.processes import Child, page
from tests.controlplane import parts
from tests.controlplane.plane import Plane, free_ports

Tree = Any

READY_WITHIN_S = 90.0
NAMESPACE = "istio-system"
CLUSTER = "Kubernetes"
OUTBOUND_PORT = 15001
"""Where Istio's rules redirect what a pod sends."""

ISTIOD = os.environ.get("ISTIOD_PART", "istiod")
"""Which of them, for tests that are run in a process of their own."""

ENVIRONMENT = {
    "POD_NAME": "istiod-0",
    "POD_NAMESPACE": NAMESPACE,
    "CLUSTER_ID": CLUSTER,
    "ENABLE_CA_SERVER": "false",
    "PILOT_CERT_PROVIDER": "none",
    "PILOT_ENABLE_METADATA_EXCHANGE": "false",  # a filter that only Istio's own Envoy has
    "INJECTION_WEBHOOK_CONFIG_NAME": "",
    "VALIDATION_WEBHOOK_CONFIG_NAME": "",
}

MESH = {"enableAutoMtls": False, "enablePrometheusMerge": False, "defaultProviders": {"metrics": []}}
"""Without certificates of its own, and without statistics, which are another filter of Istio's own Envoy."""

NO_MUTUAL_TLS = {
    "apiVersion": "security.istio.io/v1",
    "kind": "PeerAuthentication",
    "metadata": {"name": "default", "namespace": NAMESPACE},
    "spec": {"mtls": {"mode": "DISABLE"}},
}
"""Its certificates would come from Istio's agent, and Envoy would wait for them before it listened."""


@contextlib.contextmanager
def running_istiod(plane: Plane, folder: Path) -> Iterator[str]:
    """Its definitions installed and itself ready; the address of its xDS."""
    install(plane)
    xds, http, monitoring = free_ports(3)
    flags = {
        "kubeconfig": plane.kubeconfig,
        "grpcAddr": f"127.0.0.1:{xds}",
        "secureGRPCAddr": "",
        "httpAddr": f"127.0.0.1:{http}",
        "httpsAddr": "",
        "monitoringAddr": f"127.0.0.1:{monitoring}",
        "tls": "false",
    }
    command = ["env", *(f"{name}={value}" for name, value in ENVIRONMENT.items()), str(parts.find(ISTIOD))]
    child = Child(
        [*command, "discovery", *(f"--{name}={value}" for name, value in flags.items())], folder / "istiod.log"
    )
    try:
        child.until(lambda: _page(f"http://127.0.0.1:{http}/ready") is not None or None, READY_WITHIN_S)
        yield f"127.0.0.1:{xds}"
        assert child.running, child.tail()
    finally:
        child.terminate()


def install(plane: Plane) -> None:
    """Istio's custom resource definitions, and the configuration of the mesh."""
    definitions = parts.config(ISTIOD) / "istio" / "crd-all.gen.yaml"
    plane.kubectl("apply", "--server-side", f"--filename={definitions}")
    plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd/envoyfilters.networking.istio.io",
                  "crd/sidecars.networking.istio.io", "crd/peerauthentications.security.istio.io")  # fmt: skip
    plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    plane.api.create(NO_MUTUAL_TLS)
    metadata = {"name": "istio", "namespace": NAMESPACE}
    plane.api.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"mesh": json.dumps(MESH)}}
    )


def only_services_of(namespace: str, egress: str) -> Tree:
    """A Sidecar that leaves out what listens for HTTP: that has filters which only Istio's own Envoy has."""
    return {
        "apiVersion": "networking.istio.io/v1",
        "kind": "Sidecar",
        "metadata": {"name": "default", "namespace": namespace},
        "spec": {"egress": [{"hosts": [egress]}]},
    }


@dataclass(frozen=True)
class Pod:
    """Whose sidecar it is."""

    name: str
    namespace: str
    labels: Mapping[str, str]
    ip: str = "10.244.0.7"

    def bootstrap(self, xds: str) -> Tree:
        """As Istio's agent writes it, as far as istiod looks at it."""
        host, port = xds.split(":")
        address = {"socket_address": {"address": host, "port_value": int(port)}}
        http2 = {
            "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
            "explicit_http_config": {"http2_protocol_options": {}},
        }
        target = {"cluster_name": "xds", "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}]}
        options = {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": http2}
        ads = {"ads": {}, "resource_api_version": "V3"}
        return {
            "node": self._node(),
            "admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}}},
            "dynamic_resources": {
                "ads_config": {
                    "api_type": "GRPC",
                    "transport_api_version": "V3",
                    "grpc_services": [{"envoy_grpc": {"cluster_name": "xds"}}],
                },
                "cds_config": ads,
                "lds_config": ads,
            },
            "static_resources": {
                "clusters": [{"name": "xds", "load_assignment": target, "typed_extension_protocol_options": options}]
            },
        }

    def _node(self) -> Tree:
        return {
            "id": f"sidecar~{self.ip}~{self.name}.{self.namespace}~{self.namespace}.svc.cluster.local",
            "cluster": f"{self.name}.{self.namespace}",
            "metadata": {
                "NAMESPACE": self.namespace,
                "CLUSTER_ID": CLUSTER,
                "ISTIO_VERSION": "1.31.0",
                "LABELS": dict(self.labels),
                "INSTANCE_IPS": self.ip,
            },
        }


class Sidecar:
    """A stock Envoy in the place of a pod's. A context manager."""

    def __init__(self, pod: Pod, xds: str, folder: Path) -> None:
        self._config, self._admin_file = folder / "sidecar.json", folder / "sidecar-admin"
        self._config.write_text(json.dumps(pod.bootstrap(xds)))
        files = ["--config-path", str(self._config), "--admin-address-path", str(self._admin_file)]
        self._command = [binary(), *files, "--disable-hot-restart", "--concurrency", "1", "--log-level", "warning"]
        self._log = folder / "sidecar.log"
        self._child: Child | None = None
        self._admin = ""

    def __enter__(self) -> Sidecar:
        self._child = Child(self._command, self._log)
        self._admin = self._child.until(lambda: _text(self._admin_file))
        self._child.until(lambda: self.listeners() or None, READY_WITHIN_S)
        return self

    def __exit__(self, *error: object) -> None:
        if self._child is not None:
            self._child.terminate()

    def listeners(self) -> dict[str, Tree]:
        """What istiod sent and Envoy took, by name."""
        page = _page(f"http://{self._admin}/config_dump?resource=dynamic_listeners")
        found = [each for each in json.loads(page or "{}").get("configs", []) if "active_state" in each]
        return {each["name"]: each["active_state"]["listener"] for each in found}

    def chains(self, listener: str) -> list[str]:
        """The names of its filter chains, in order; istiod's own often has none."""
        return [chain.get("name", "") for chain in self.listeners().get(listener, {}).get("filter_chains", [])]

    def stat(self, name: str) -> int:
        """A counter or gauge by its whole name; 0 if Envoy does not have it (yet)."""
        page = json.loads(_page(f"http://{self._admin}/stats?format=json&filter=^{name}$") or '{"stats": []}')
        return next((int(stat["value"]) for stat in page["stats"] if stat.get("name") == name), 0)

    def refusals(self) -> list[str]:
        """Why Envoy did not take a listener."""
        page = _page(f"http://{self._admin}/config_dump?resource=dynamic_listeners")
        configs = json.loads(page or "{}").get("configs", [])
        return [each["error_state"]["details"] for each in configs if "error_state" in each]

    @property
    def log(self) -> str:
        """The end of Envoy's own log."""
        return self._child.tail() if self._child else ""


def _text(path: Path) -> str | None:
    return (path.read_text() or None) if path.exists() else None


def _page(url: str) -> str | None:
    try:
        return page(url)
    except OSError:
        return None
