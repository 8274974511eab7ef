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
from pathlib import PurePosixPath
from typing import Any as Tree

from . import envoy, filling, manifests, secrets
from .certificates import CLIENT_FACING
from .options import MeshOptions

GATE_FACING = "extauthz-client"
"""Secret with the certificate that the gate is shown, and the gate's authority."""
TRUSTED = "extauthz-apiserver-ca"
"""ConfigMap with what the client trusts: the authority of that certificate, and the cluster's own."""

API_ACCESS = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where client-go looks for token and authority."""


def envoy_filter(options: MeshOptions) -> dict[str, Tree]:
    """The EnvoyFilter: clusters for the API server and the gate, and the filter chain."""
    chain = envoy.filter_chain(options.sidecar, in_mesh=True)
    return filling.tree("envoy-filter.yaml", options=options, chain=chain, clusters=envoy.clusters(options.sidecar))


def pod_patch(options: MeshOptions) -> dict[str, Tree]:
    """A strategic merge patch of the client's Deployment: certificates for its sidecar, and trust in them.

    The sidecar keeps the volume that the API server's admission gives to each container; only the client's own
    container gets another one in its place.
    """
    files = {f"{name}.yaml": manifests.text_of(file) for name, file in secrets.files(options.sidecar).items()}
    volumes = _volumes(options, files)
    mounts = [{"name": volume["name"], "mountPath": path, "readOnly": True} for path, volume in volumes]
    return filling.tree(
        "pod-patch.yaml",
        options=options,
        files=files,
        volumes=json.dumps([volume for _, volume in volumes]),
        mounts=json.dumps(mounts),
        API_ACCESS=API_ACCESS,
        TRUSTED=TRUSTED,
    )


def _volumes(options: MeshOptions, files: Iterable[str]) -> list[tuple[str, dict[str, Tree]]]:
    """Files that the sidecar reads, by folder."""
    sidecar = options.sidecar
    told = [
        {"path": file, "fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.annotations['extauthz.dev/{file}']"}}
        for file in files
    ]
    volumes = [
        (sidecar.secrets_dir, {"name": "extauthz-envoy", "downwardAPI": {"items": told}}),
        (_folder(sidecar.cert_file), {"name": "extauthz-tls", "secret": {"secretName": CLIENT_FACING}}),
    ]
    if sidecar.gate_tls is not None:
        gate = {"name": "extauthz-gate", "secret": {"secretName": GATE_FACING}}
        volumes.append((_folder(sidecar.gate_tls.ca_file), gate))
    return volumes


def _folder(file: str) -> str:
    return str(PurePosixPath(file).parent)
