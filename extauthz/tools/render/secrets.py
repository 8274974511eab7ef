"""Certificates and authorities as Envoy reads them again when they are renewed: by SDS from files.

Envoy watches the files of a certificate only where the certificate comes by SDS; named in a listener or cluster, or as
a static secret, they are read once. SDS from a file takes one secret a file, so each of these is a file of its own. It
holds nothing secret, but the names of the files that do.
(https://www.envoyproxy.io/docs/envoy/v1.40.0/configuration/security/secret)
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TypedDict

from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.extensions.transport_sockets.tls import v3 as tls
from envoy_data_plane.envoy.service.discovery import v3 as discovery
from envoy_data_plane.google.protobuf import Any

from .options import APISERVER_CA, GATE_CA, GATE_CLIENT, SERVING, SidecarOptions


class Shown(TypedDict, total=False):
    """The part of a ``CommonTlsContext`` that names the certificate to show."""

    tls_certificate_sds_secret_configs: list[tls.SdsSecretConfig]


class Trusted(TypedDict, total=False):
    """The part of a ``CommonTlsContext`` that names the authority to trust."""

    combined_validation_context: tls.CommonTlsContextCombinedCertificateValidationContext


def secrets(options: SidecarOptions) -> dict[str, tls.Secret]:
    """All certificates and authorities of these options, by name."""
    gate = options.gate_tls
    certificates = {SERVING: (options.cert_file, options.key_file)}
    authorities = {APISERVER_CA: options.apiserver_ca_file}
    if gate is not None:
        authorities[GATE_CA] = gate.ca_file
        if gate.cert_file is not None and gate.key_file is not None:
            certificates[GATE_CLIENT] = (gate.cert_file, gate.key_file)
    found = {name: tls.Secret(name=name, tls_certificate=_certificate(*pair)) for name, pair in certificates.items()}
    for name, file in authorities.items():
        found[name] = tls.Secret(name=name, validation_context=_authority(file))
    return found


def files(options: SidecarOptions) -> dict[str, discovery.DiscoveryResponse]:
    """The files of ``secrets_dir``, each as NAME.yaml."""
    return {
        name: discovery.DiscoveryResponse(resources=[Any.pack(_watched(secret))])
        for name, secret in secrets(options).items()
    }


def shown(name: str, options: SidecarOptions) -> Shown:
    """A certificate that Envoy shows."""
    return {"tls_certificate_sds_secret_configs": [_by_sds(name, options)]}


def trusted(name: str, whom: tls.SubjectAltNameMatcher, options: SidecarOptions) -> Trusted:
    """An authority, and the name that a certificate of it must carry."""
    return {
        "combined_validation_context": tls.CommonTlsContextCombinedCertificateValidationContext(
            default_validation_context=tls.CertificateValidationContext(match_typed_subject_alt_names=[whom]),
            validation_context_sds_secret_config=_by_sds(name, options),
        )
    }


def _by_sds(name: str, options: SidecarOptions) -> tls.SdsSecretConfig:
    source = core.PathConfigSource(
        path=str(PurePosixPath(options.secrets_dir, f"{name}.yaml")),
        # Where a file was missing at first, Envoy rejects the secret as a whole, and looks at it again for this only.
        watched_directory=_folder(secrets(options)[name]),
    )
    return tls.SdsSecretConfig(
        name=name, sds_config=core.ConfigSource(path_config_source=source, resource_api_version=core.ApiVersion.V3)
    )


def _certificate(cert_file: str, key_file: str) -> tls.TlsCertificate:
    return tls.TlsCertificate(
        certificate_chain=core.DataSource(filename=cert_file), private_key=core.DataSource(filename=key_file)
    )


def _authority(file: str) -> tls.CertificateValidationContext:
    return tls.CertificateValidationContext(trusted_ca=core.DataSource(filename=file))


def _watched(secret: tls.Secret) -> tls.Secret:
    """Envoy reads it again when anything is moved into its folder: ``..data`` of a volume, or a file by hand."""
    for each in (secret.tls_certificate, secret.validation_context):
        if each is not None:
            each.watched_directory = _folder(secret)
    return secret


def _folder(secret: tls.Secret) -> core.WatchedDirectory | None:
    """``None``: certificate and key are in two folders, and Envoy watches both."""
    certificate, context = secret.tls_certificate, secret.validation_context
    sources = [certificate.certificate_chain, certificate.private_key] if certificate else []
    sources += [context.trusted_ca] if context else []
    folders = {str(PurePosixPath(source.filename or "").parent) for source in sources if source is not None}
    return core.WatchedDirectory(path=folders.pop()) if len(folders) == 1 else None
