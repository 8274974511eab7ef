"""Makes authorities and serving certificates, and reads them again.

Who trusts an authority of ours verifies nothing else by it, so it has no constraints beyond those of RFC 5280.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple, TypeAlias

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Certificate: TypeAlias = x509.Certificate
Key: TypeAlias = ec.EllipticCurvePrivateKey

AUTHORITY = "extauthz webhook CA"
"""How the names of our authorities begin."""

BACKDATED = timedelta(minutes=5)
"""Clocks of API servers may be behind ours."""


class Pair(NamedTuple):
    certificate: Certificate
    key: Key

    @property
    def pem(self) -> tuple[bytes, bytes]:
        """Both, as files have them."""
        key = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return self.certificate.public_bytes(Encoding.PEM), key


class Held(NamedTuple):
    """All that gates share."""

    signer: Pair
    """The authority that signs from now on."""
    others: tuple[Certificate, ...]
    """Earlier authorities, newest first. Their keys are gone."""
    serving: Pair

    @property
    def authorities(self) -> tuple[Certificate, ...]:
        return (self.signer.certificate, *self.others)

    @property
    def bundle(self) -> bytes:
        """What API servers are to trust, PEM."""
        return b"".join(pem(one) for one in self.authorities)


class BrokenError(ValueError):
    """It does not hold what it should."""


def authority(now: datetime, lifetime: timedelta, called: str = AUTHORITY) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    # No two have the same name: a verifier looks for an issuer by it first.
    name = f"{called} {x509.random_serial_number():040x}"
    builder = _builder(_name(name), _name(name), key, now, now + lifetime)
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False
    )
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return Pair(builder.add_extension(usage(signs=True), critical=True).sign(key, hashes.SHA256()), key)


def serving(signer: Pair, names: Iterable[str], now: datetime, lifetime: timedelta) -> Pair:
    """A new serving certificate, for DNS names and addresses."""
    return issued(signer, "extauthz webhook", names, now, lifetime)


def issued(signer: Pair, called: str, names: Iterable[str], now: datetime, lifetime: timedelta) -> Pair:
    """A new certificate, which does not outlive its authority: a server's for these names, without any a client's."""
    key = ec.generate_private_key(ec.SECP256R1())
    ends = min(now + lifetime, signer.certificate.not_valid_after_utc)
    several = [general(one) for one in sorted(names)]
    use = ExtendedKeyUsageOID.SERVER_AUTH if several else ExtendedKeyUsageOID.CLIENT_AUTH
    builder = (
        _builder(_name(called), signer.certificate.subject, key, now, ends)
        .add_extension(_key_of(signer.certificate), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
    )
    if several:
        builder = builder.add_extension(x509.SubjectAlternativeName(several), critical=False)
    return Pair(builder.sign(signer.key, hashes.SHA256()), key)


def written(held: Held) -> dict[str, bytes]:
    """What a Secret holds of it."""
    chain, key = held.serving.pem
    return {"tls.crt": chain, "tls.key": key, "ca.crt": held.bundle, "ca.key": held.signer.pem[1]}


def read(data: Mapping[str, bytes]) -> Held:
    """The reverse.

    Raises:
        BrokenError: something is missing, or does not fit the rest.
    """
    try:
        authorities = x509.load_pem_x509_certificates(data["ca.crt"])
        signer = pair(authorities[0], data["ca.key"], "ca")
        shown = pair(x509.load_pem_x509_certificate(data["tls.crt"]), data["tls.key"], "tls")
    except KeyError as error:
        raise BrokenError(f"{error.args[0]} is missing") from None
    except BrokenError:
        raise
    except (ValueError, TypeError) as error:
        raise BrokenError(f"no certificates and keys in PEM ({error})") from None
    if not any(is_from(shown.certificate, one) for one in authorities):
        raise BrokenError("tls.crt is from no authority of ca.crt")
    if not names_of(shown.certificate):
        raise BrokenError("tls.crt is for no name")
    return Held(signer, tuple(authorities[1:]), shown)


def is_from(certificate: Certificate, issuer: Certificate) -> bool:
    """Whether one has signed the other."""
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def has_ours(bundle: bytes) -> bool:
    """Whether there is an authority of ours among certificates in PEM."""
    try:
        found = x509.load_pem_x509_certificates(bundle)
    except ValueError:
        return False
    return any(one.subject.rfc4514_string().startswith(f"CN={AUTHORITY} ") for one in found)


def names_of(certificate: Certificate) -> frozenset[str]:
    """The DNS names and addresses that it is for."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = (str(one) for one in names.get_values_for_type(x509.IPAddress))
    return frozenset([*names.get_values_for_type(x509.DNSName), *addresses])


def made(certificate: Certificate) -> datetime:
    return certificate.not_valid_before_utc + BACKDATED


def pem(certificate: Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def pair(certificate: Certificate, text: bytes, what: str) -> Pair:
    """Both, if they fit each other. Raises BrokenError, ValueError, TypeError."""
    key = load_pem_private_key(text, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise BrokenError(f"{what}.key is not the key of {what}.crt")
    return Pair(certificate, key)


def _builder(name: x509.Name, issuer: x509.Name, key: Key, now: datetime, ends: datetime) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _key_of(signer: Certificate) -> x509.AuthorityKeyIdentifier:
    """By the identifier that an authority has, however it was made: verifiers compare both."""
    try:
        own = signer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())  # type: ignore[arg-type]
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def general(name: str) -> x509.GeneralName:
    """A name for which a certificate is: of DNS, or an IP address."""
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def usage(*, signs: bool) -> x509.KeyUsage:
    """What a key may be used for: signing certificates, or else TLS."""
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )
