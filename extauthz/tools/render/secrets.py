"""Certificates and authorities as Envoy reads them again when they are renewed: by SDS from files.

Envoy watches the files of a certificate only where the certificate comes by SDS; named in a listener or cluster, or as
a static secret, they are read once. SDS from a file takes one secret a file, so each of these is a file of its own. It
holds nothing secret, but the names of the files that do.
(https://www.envoyproxy.io/docs/envoy/v1.40.0/configuration/security/secret)
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any as Tree

from .options import APISERVER_CA, GATE_CA, GATE_CLIENT, SERVING, SidecarOptions

_TYPE = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"


def files(options: SidecarOptions) -> dict[str, dict[str, Tree]]:
    """The files of ``secrets_dir``, each as NAME.yaml."""
    return {name: {"resources": [_secret(name, paths)]} for name, paths in _paths(options).items()}


def sds(name: str, options: SidecarOptions) -> dict[str, Tree]:
    """Where Envoy finds a certificate, or an authority."""
    path = str(PurePosixPath(options.secrets_dir, f"{name}.yaml"))
    # Where a file was missing at first, Envoy rejects the secret as a whole, and looks at it again for the folder only.
    source = {"path": path, **_watched(_paths(options)[name])}
    return {"name": name, "sds_config": {"path_config_source": source, "resource_api_version": "V3"}}


def _paths(options: SidecarOptions) -> dict[str, tuple[str, ...]]:
    """Certificate and key, or the authority alone, by name."""
    gate = options.gate_tls
    found: dict[str, tuple[str, ...]] = {SERVING: (options.cert_file, options.key_file)}
    if gate is not None and gate.cert_file is not None and gate.key_file is not None:
        found[GATE_CLIENT] = (gate.cert_file, gate.key_file)
    found[APISERVER_CA] = (options.apiserver_ca_file,)
    return found | ({GATE_CA: (gate.ca_file,)} if gate is not None else {})


def _secret(name: str, paths: tuple[str, ...]) -> dict[str, Tree]:
    fields = ("trusted_ca",) if len(paths) == 1 else ("certificate_chain", "private_key")
    files = {field: {"filename": path} for field, path in zip(fields, paths, strict=True)}
    kind = "validation_context" if len(paths) == 1 else "tls_certificate"
    return {"@type": _TYPE, "name": name, kind: files | _watched(paths)}


def _watched(paths: tuple[str, ...]) -> dict[str, Tree]:
    """Envoy reads them again when anything is moved into their folder: ``..data`` of a volume, or a file by hand. Where
    there are two folders, it watches both by itself."""
    folders = {str(PurePosixPath(path).parent) for path in paths}
    return {"watched_directory": {"path": folders.pop()}} if len(folders) == 1 else {}
