"""Does the client trust the certificate, how long is it valid, and does the token pass through Envoy?"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from .dump import Tree
from .table import Row, fail, ok, skipped, warn

SOON = timedelta(days=14)
"""Warned about from then on: two weeks are a holiday."""

RENEW = "renew it; an Envoy of `extauthz render` takes it at once (docs/render.md)"
ISSUE = (
    "have the client trust the authority of Envoy's certificate (its kubeconfig, or the ConfigMap of its volume), and"
    " let the certificate carry the name or address that the client dials"
)


class Handshake(NamedTuple):
    """A TLS handshake as the client makes it."""

    host: str
    error: str = ""
    """Why it failed; empty if it did not."""
    refused: bool = False
    """Somebody answered, and the certificate was not trusted."""
    expires: datetime | None = None
    names: tuple[str, ...] = ()


def shake(address: tuple[str, int], context: ssl.SSLContext, name: str, within_s: float) -> Handshake:
    """A TLS handshake that asks for the certificate of ``name``. Blocks."""
    host = f"{address[0]}:{address[1]}"
    try:
        with (
            socket.create_connection(address, within_s) as plain,
            context.wrap_socket(plain, server_hostname=name) as connection,
        ):
            certificate: Mapping[str, Any] = connection.getpeercert() or {}
    except ssl.SSLCertVerificationError as error:
        return Handshake(host, error.verify_message or str(error), refused=True)
    except TimeoutError:
        return Handshake(host, f"no TLS within {within_s:g} s")
    except (OSError, UnicodeError) as error:  # a host that is no name, as in a..b
        return Handshake(host, str(error) or type(error).__name__)
    expires = datetime.fromtimestamp(ssl.cert_time_to_seconds(certificate["notAfter"]), UTC)
    return Handshake(host, expires=expires, names=tuple(str(each) for _, each in certificate.get("subjectAltName", ())))


def go_strict(context: ssl.SSLContext) -> ssl.SSLContext:
    """As strict as Go and no stricter: the authorities of many clusters fail Python's extra checks."""
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


class Identity(NamedTuple):
    """The user of a token, as the API server sees it, or why that is not known."""

    user: str = ""
    error: str = ""


def trusted(shake: Handshake | None) -> Row:
    name = "trust"
    if shake is None:
        return skipped(name, "not told which address the autoscaler dials", "--url and --ca")
    if shake.refused:
        return fail(name, f"a client that trusts --ca refuses {shake.host}: {shake.error}", ISSUE)
    if shake.error:
        return fail(name, f"{shake.host}: {shake.error}", "see that Envoy listens there, and that --url is its address")
    return ok(name, f"{shake.host} shows a certificate that --ca vouches for, with {', '.join(shake.names)}")


def validity(shake: Handshake | None, certs: Tree | None, now: datetime) -> Row:
    """Validity of the certificate that the client sees, and of the proxy's (``/certs``), but for a mesh's own."""
    known: list[tuple[datetime, str]] = []
    if shake is not None and shake.expires is not None:
        known.append((shake.expires, f"what {shake.host} shows"))
    for each in (certs or {}).get("certificates", []):
        for part in ("cert_chain", "ca_cert"):
            files = [one for one in each.get(part, []) if not _is_of_mesh(one)]
            known += [(_time(one["expiration_time"]), _called(one)) for one in files]
    if not known:
        return skipped("certificate", "no certificate was seen", "--url with --ca, or --admin")
    expires, which = min(known)
    left = expires - now
    told = f"{which} is the first to expire, {expires:%Y-%m-%d %H:%M} UTC ({_days(left)})"
    if left <= timedelta(0):
        return fail("certificate", told, RENEW)
    return warn("certificate", told, RENEW) if left < SOON else ok("certificate", told)


def _is_of_mesh(certificate: Tree) -> bool:
    """Istio's agent renews those of workloads, which live for a day (X509-SVID: https://spiffe.io)."""
    return any(str(name.get("uri", "")).startswith("spiffe://") for name in certificate.get("subject_alt_names", []))


def token(through: Identity | None, straight: Identity | None) -> Row:
    """Bearer tokens pass through Envoy, client certificates do not."""
    name = "token"
    if through is None:
        return skipped(name, "not told what the autoscaler shows", "--url, --ca and --token-file")
    if through.error:
        return fail(name, f"through Envoy the API server does not take it: {through.error}", _TOKEN)
    if "system:anonymous" in through.user:
        return fail(name, "through Envoy the API server sees nobody (system:anonymous): the token got lost", _TOKEN)
    if straight is None:
        why = f"through Envoy it is {through.user}; nothing to compare it with"
        return skipped(name, why, "--kubeconfig, of somebody who may create tokenreviews")
    if straight.error:
        return warn(name, f"through Envoy it is {through.user}; straight: {straight.error}", _REVIEW)
    if straight.user != through.user:
        return fail(name, f"through Envoy it is {through.user}, straight it is {straight.user}", _TOKEN)
    return ok(name, f"through Envoy and straight it is {through.user}")


_TOKEN = "use a service account's token; a client certificate ends at Envoy, and http:// loses the token"  # noqa: S105
_REVIEW = "use a --kubeconfig that may create tokenreviews.authentication.k8s.io"


def _called(certificate: Tree) -> str:
    """Its file. For a certificate by SDS Envoy does not name one (``<inline>``): then its names."""
    path = certificate.get("path", "")
    if path and path != "<inline>":
        return str(path)
    names = [name for each in certificate.get("subject_alt_names", []) for name in each.values()]
    return ", ".join(names) or f"an authority or client with the serial number {certificate.get('serial_number', '?')}"


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _days(left: timedelta) -> str:
    return "expired" if left <= timedelta(0) else f"in {left.days} days"
