"""A throw-away certificate authority, so that tests speak real TLS."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from extauthz.demo.apiserver import Pair
from extauthz.serve.selfsigned.issuing import general, usage

__all__ = ["Authority", "Pair"]

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "kubernetes.default.svc")
LIFETIME = timedelta(days=2)


class Authority:
    """Issues certificates into a directory; whoever trusts ``ca`` trusts them.

    Args:
        identified: with key identifiers. Many a real authority has none; Go and Python before 3.13 do not ask for them.
    """

    def __init__(self, directory: Path, name: str = "extauthz test CA", *, identified: bool = True) -> None:
        self._directory = directory
        self._identified = identified
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = _subject(name)
        certificate = (
            self._builder(self._subject, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage(signs=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.ca = directory / f"{name.replace(' ', '-')}.crt"
        self.ca.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self,
        name: str,
        alternatives: tuple[str, ...] = LOOPBACK_NAMES,
        organization: str | None = None,
        lifetime: timedelta = LIFETIME,
    ) -> Pair:
        """A certificate for a server and a client alike; ``alternatives`` are DNS names and IP addresses.

        To an API server the ``organization`` is a client's group.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            self._builder(_subject(name, organization), key, lifetime)
            .add_extension(x509.SubjectAlternativeName([general(one) for one in alternatives]), critical=False)
            .add_extension(usage(signs=False), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        pair = Pair(self._directory / f"{name}.crt", self._directory / f"{name}.key")
        pair.cert.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        pair.key.touch(mode=0o600)
        pair.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return pair

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, lifetime: timedelta = LIFETIME
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))  # clocks differ
            .not_valid_after(now + lifetime)
        )
        if not self._identified:
            return builder
        own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        issuers = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return builder.add_extension(own, critical=False).add_extension(issuers, critical=False)


def _subject(name: str, organization: str | None = None) -> x509.Name:
    group = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name), *group])
