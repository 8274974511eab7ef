"""Renders what puts the gate's filter chain into an Istio sidecar: an EnvoyFilter, and the client's pod.

istiod gives each sidecar a listener for the Service ``default/kubernetes``, named after its address, which passes TLS
through unseen. The EnvoyFilter adds to that listener a filter chain for TLS, the very one of the stand-alone Envoy
(``render/envoy.py``), which ends the client's TLS and opens its own to the API server. Istio's own chain stays beside
it for what is not TLS, and the API server refuses that.
(https://istio.io/latest/docs/reference/config/networking/envoy-filter/)

The files of SDS by which the sidecar finds its certificates (``render/secrets.py``) are annotations of the pod
itself, which a volume shows to the sidecar: so the pod needs no object more, and others make another pod.
(https://kubernetes.io/docs/concepts/storage/volumes/#downwardapi)
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any as Tree

from . import envoy, manifests, secrets
from .manifests import folder, mount
from .options import SERVICE_PORT, MeshOptions

_TELLS_TLS = {
    "name": "envoy.filters.listener.tls_inspector",
    "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector"},
}
"""Without this, no connection is known to be TLS, and the chain would never match."""


def envoy_filter(options: MeshOptions) -> dict[str, Tree]:
    """The EnvoyFilter: clusters for the API server and the gate, and the filter chain."""
    merged = {
        "filter_chains": [envoy.filter_chain(options.sidecar, in_mesh=True)],
        "per_connection_buffer_limit_bytes": 65536,
        "listener_filters": [_TELLS_TLS],
    }
    match = {"listener": {"name": f"{options.service_ip}_{SERVICE_PORT}"}}
    return {
        "apiVersion": "networking.istio.io/v1alpha3",
        "kind": "EnvoyFilter",
        "metadata": {"name": options.client.filter, "namespace": options.client.namespace},
        "spec": {
            "workloadSelector": {"labels": dict(options.client.labels)},
            "configPatches": [
                *(_patch("CLUSTER", {}, "ADD", each) for each in envoy.clusters(options.sidecar)),
                _patch("LISTENER", match, "MERGE", merged),
            ],
        },
    }


def pod_patch(options: MeshOptions) -> dict[str, Tree]:
    """A strategic merge patch of the client's Deployment: certificates for its sidecar, and trust in them.

    The sidecar keeps the volume that the API server's admission gives to each container; only the client's own
    container gets another one in its place.
    """
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": options.client.deployment, "namespace": options.client.namespace},
        "spec": {"template": {"metadata": _metadata(options), "spec": _trusting(options)}},
    }


def _patch(where: str, match: dict[str, Tree], operation: str, value: dict[str, Tree]) -> dict[str, Tree]:
    return {
        "applyTo": where,
        "match": {"context": "SIDECAR_OUTBOUND"} | match,
        "patch": {"operation": operation, "value": value},
    }


def _metadata(options: MeshOptions) -> dict[str, Tree]:
    return {
        # The first has Istio inject the pod, the second is what the gate's NetworkPolicy lets in.
        "labels": {"sidecar.istio.io/inject": "true", "extauthz.dev/client": "true"},
        "annotations": _annotations(options),
    }


def _trusting(options: MeshOptions) -> dict[str, Tree]:
    """Of the pod's spec: the client's container trusts what the sidecar shows."""
    mounts = [mount("extauthz-api-access", manifests.API_ACCESS)]
    return {
        "containers": [{"name": options.client.container, "volumeMounts": mounts}],
        "volumes": [manifests.api_access(options.trusted)],
    }


def _annotations(options: MeshOptions) -> dict[str, str]:
    """Istio's own (https://istio.io/latest/docs/reference/config/annotations/), whose values are JSON in a string, and
    the files of SDS."""
    files = {f"{name}.yaml": envoy.to_yaml(file) for name, file in secrets.files(options.sidecar).items()}
    volumes = _volumes(options, files)
    mounts = [mount(volume["name"], path) for path, volume in volumes]
    config = {
        # The client's first request must find the filter there.
        "holdApplicationUntilProxyStarts": True,
        # Counters of decisions, which `extauthz doctor` looks at. A sidecar keeps few.
        "proxyStatsMatcher": {"inclusionSuffixes": ["ext_authz.ok", "ext_authz.denied"]},
    }
    return {
        "proxy.istio.io/config": json.dumps(config),
        "sidecar.istio.io/userVolume": json.dumps([volume for _, volume in volumes]),
        "sidecar.istio.io/userVolumeMount": json.dumps(mounts),
    } | {_annotation(file): text for file, text in files.items()}


def _volumes(options: MeshOptions, files: Iterable[str]) -> list[tuple[str, dict[str, Tree]]]:
    """Files that the sidecar reads, by folder."""
    sidecar = options.sidecar
    told = [
        {"path": file, "fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{_annotation(file)}']"}}
        for file in files
    ]
    volumes = [
        (sidecar.secrets_dir, {"name": "extauthz-envoy", "downwardAPI": {"items": told}}),
        (folder(sidecar.cert_file), {"name": "extauthz-tls", "secret": {"secretName": options.client_facing}}),
    ]
    if sidecar.gate_tls is not None:
        gate = {"name": "extauthz-gate", "secret": {"secretName": options.gate_facing}}
        volumes.append((folder(sidecar.gate_tls.ca_file), gate))
    return volumes


def _annotation(file: str) -> str:
    return f"extauthz.dev/{file}"
