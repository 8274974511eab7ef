"""The gate's own certificates, and the webhook's where the gates make it. Each is read again while the gate runs. A
good one is used, a bad one is refused and reported."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple, Self

from cryptography import x509

from extauthz.core.texts import Tell
from extauthz.inputs.kube.connection import Connection
from extauthz.inputs.kube.session import own_namespace
from extauthz.serve.rpc.link import ALPN
from extauthz.serve.selfsigned.keeper import Keeper, SecretPlace
from extauthz.serve.selfsigned.renewal import Terms
from extauthz.serve.service.inputs import all_set
from extauthz.serve.service.listening import ListenError
from extauthz.serve.service.setting_types import key_of
from extauthz.serve.service.settings import Settings

LOOK_S = 1.0
"""A bad renewal is reported within this time. Connections do not wait for it: each looks by itself."""

TRIES = 3


class _Content(NamedTuple):
    """What the three files had at one time."""

    cert: bytes
    key: bytes
    authorities: bytes | None


class CertificateError(ListenError):
    """The files cannot be used. The text names the flags and what is wrong."""


class WebhookCertificates:
    """Those of the admission webhook: certificate, key and the clients' authorities, from the files that the settings
    name.

    Raises:
        CertificateError: they cannot be used from the start.
    """

    flags = ("--webhook-cert", "--webhook-client-ca")
    """The settings of certificate and authorities, for whoever must put them right."""
    use = "webhook"
    """For metrics."""
    clients = ssl.CERT_REQUIRED
    """What a client must show where the authorities of clients are known."""

    @classmethod
    def of(cls, settings: Settings, tell: Tell) -> Self | None:
        """Those of the settings; ``None``: these name none.

        Raises:
            CertificateError: they cannot be used.
        """
        cert, authorities = (getattr(settings, flag[2:].replace("-", "_")) for flag in cls.flags)
        return None if cert is None else cls(cert, tell, authorities)

    def __init__(self, cert: Path, tell: Tell, authorities: Path | None = None) -> None:
        self._files = (cert, key_of(cert), authorities)
        self._tell = tell
        self._seen = self._read()
        self._refused = ""
        self._current = self._context()
        self.context = self._context()
        """For the listener. Each handshake goes on with the newest certificate."""
        self.context.sni_callback = self._choose

    async def watch(self) -> None:
        """Look from time to time, for ever. Connections live long, and a person should learn of a mistake soon."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.look()

    def look(self) -> None:
        """Read the files. New and valid ones are used for new connections. Invalid ones are reported once."""
        try:
            content = self._read()
            if content != self._seen:
                self._current = self._context()
        except CertificateError as error:
            self._refuse(str(error))
            return
        self._refused = ""
        if content != self._seen:
            self._seen = content
            self._tell("info", "tls-renewed", cert=str(self._files[0]))

    def newest(self) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
        """Key and certificate chain, and the authorities of clients, as the files last had them when they were good."""
        return [(self._seen.key, self._seen.cert)], self._seen.authorities

    def ends_s(self) -> dict[str, float]:
        """When it ends, in seconds since the epoch, by its use; empty: it cannot be told."""
        ends_s = _ends_s(self._seen.cert)
        return {} if ends_s is None else {self.use: ends_s}

    def _refuse(self, problem: str) -> None:
        if problem != self._refused:
            self._refused = problem
            self._tell("error", "tls-refused", problem=problem, kept="what was in force before")

    def _read(self) -> _Content:
        """The content that was checked, even if the files have changed since.

        Raises:
            CertificateError: it is no certificate with its key, or it is changed all the time.
        """
        for _ in range(TRIES):
            before, problem = _content(*self._files), _problem(self.flags, *self._files)
            if before == _content(*self._files):
                break
        else:
            before, problem = None, f"{self.flags[0]} {self._files[0]}: changed whenever it was read"
        if before is None or problem:
            raise CertificateError(problem)
        return before

    def _context(self) -> ssl.SSLContext:
        """A whole one: what is loaded into one in use may fail halfway.

        Raises:
            CertificateError: the files have changed since they were checked.
        """
        context = _server_context()
        cert, key, authorities = self._files
        try:
            context.load_cert_chain(cert, key)
            if authorities is not None:
                context.load_verify_locations(authorities)
                context.verify_mode = self.clients
        except OSError as error:
            raise CertificateError(f"{self.flags[0]} {self._files[0]}: changed while it was read ({error})") from None
        return context

    def _choose(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        """OpenSSL asks at each handshake, also where the client names no server."""
        connection.context = self._current


class Certificates(WebhookCertificates):
    """Those of the server for Envoy. Where the authorities of clients are known, only their clients are let in."""

    flags = ("--tls-cert", "--tls-client-ca")
    use = "grpc"

    def _context(self) -> ssl.SSLContext:
        context = super()._context()
        context.set_alpn_protocols([ALPN])
        context.options |= ssl.OP_NO_RENEGOTIATION  # RFC 9113 §9.2.1
        return context

    def _choose(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        """Connections from Envoy are few: each looks by itself, and waits for no other."""
        self.look()
        super()._choose(connection, name, context)


class ApiCertificates(WebhookCertificates):
    """Those of the HTTP API for others. A client may show a certificate of the authorities, or none."""

    flags = ("--api-cert", "--api-client-ca")
    use = "api"
    clients = ssl.CERT_OPTIONAL


class Handshakes:
    """TLS of a listener whose certificate changes while it listens.

    Args:
        authorities: of clients' certificates, read again while the gate runs; ``None``: none is asked for.
    """

    def __init__(self, tell: Tell, authorities: Path | None = None) -> None:
        self._tell = tell
        self._authorities = authorities
        self._trusted = b""
        """What the file of the authorities had when it was last looked at, good or bad."""
        self._shown: tuple[bytes, bytes] | None = None
        self.context = _server_context()
        """For the listener. Each handshake goes on with the newest certificate; before the first, it fails."""
        if authorities is not None:
            # OpenSSL takes it from here, and whom to trust from the newest.
            self.context.verify_mode = ssl.CERT_REQUIRED
        self.context.sni_callback = self._choose
        self._current = self.context

    def show(self, chain: bytes, key: bytes) -> None:
        """From the next handshake on. Raises OSError, also ssl.SSLError, and keeps the old one."""
        self._current = self._context(chain, key)
        self._shown = chain, key

    async def watch(self) -> None:
        """Look at the authorities from time to time, for ever."""
        while self._authorities is not None:
            await asyncio.sleep(LOOK_S)
            self.look()

    def look(self) -> None:
        """Trust new authorities from the next handshake on. Bad ones are reported once."""
        assert self._authorities is not None
        if self._shown is None:
            return
        before = self._trusted
        try:
            self._trusted = self._authorities.read_bytes()
            if self._trusted != before:
                self._current = self._context(*self._shown)
                self._tell("info", "tls-renewed", cert=str(self._authorities))
        except OSError as error:
            problem = f"--webhook-client-ca {self._authorities}: not certificates in PEM ({error})"
            self._tell("error", "tls-refused", problem=problem, kept="what was in force before")

    def _context(self, chain: bytes, key: bytes) -> ssl.SSLContext:
        """A whole new one: what is loaded into one in use may fail halfway. OpenSSL takes files only, and a key should
        not get onto a disk."""
        context = _server_context()
        with open(os.memfd_create("extauthz-tls"), "wb") as file:
            file.write(key + b"\n" + chain)
            file.flush()
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
        if self._authorities is not None:
            self._trusted = self._authorities.read_bytes()
            context.load_verify_locations(self._authorities)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _choose(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        """OpenSSL asks at each handshake, also where the client names no server."""
        connection.context = self._current


def _server_context() -> ssl.SSLContext:
    """Without session tickets: an API server resumes no session, and they are a quarter of what a handshake costs."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.num_tickets = 0
    return context


def _ends_s(chain: bytes) -> float | None:
    """When the first certificate of a chain in PEM ends, in seconds since the epoch; ``None``: it cannot be told."""
    try:
        return min(one.not_valid_after_utc.timestamp() for one in x509.load_pem_x509_certificates(chain))
    except ValueError:
        return None


def _content(cert: Path, key: Path, authorities: Path | None) -> _Content | None:
    """``None`` if one of them cannot be read."""
    try:
        return _Content(cert.read_bytes(), key.read_bytes(), authorities.read_bytes() if authorities else None)
    except OSError:
        return None


def _problem(flags: tuple[str, str], cert: Path, key: Path, authorities: Path | None) -> str:
    """What is wrong with the files, if anything."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        return f"{flags[0]} {cert}, its key {key}: not a certificate and its key in PEM ({error})"
    try:
        if authorities is not None:
            context.load_verify_locations(authorities)
    except (OSError, ssl.SSLError) as error:
        return f"{flags[1]} {authorities}: not certificates in PEM ({error})"
    return ""


NAMESPACE = "extauthz-system"
"""Where the Secret is, if the gate runs in no pod."""

KEPT_IN: Final = "extauthz-webhook"
"""The Secret's name, as the chart's Role and ``render webhook`` have it."""

CONFIGURATION: Final = "extauthz"
"""Name of the Validating- and MutatingWebhookConfiguration that call the gates, as the chart makes them. The
certificate is for the names under which they call."""


class SelfSigned:
    """As ``certificates.WebhookCertificates``, but from a Secret."""

    def __init__(self, settings: Settings, connection: Connection, tell: Tell) -> None:
        self._handshakes = Handshakes(tell, settings.webhook_client_ca)
        self.context = self._handshakes.context
        """For the listener."""
        terms = Terms(timedelta(seconds=settings.numbers.certificate_lifetime_s))
        self._keeper = Keeper(
            connection,
            place(settings),
            CONFIGURATION,
            terms,
            lambda: datetime.fromtimestamp(time.time(), UTC),
            self._handshakes.show,
            tell,
        )

    async def watch(self) -> None:
        """Keep it, for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keeper.run())
            group.create_task(self._handshakes.watch())

    async def waited(self, stop: asyncio.Event) -> bool:
        """Wait until there is a certificate; False if told to stop before."""
        return await all_set([self._keeper.shown], stop)

    @property
    def problem(self) -> str:
        """Why there is none, or why it cannot be renewed; empty if all is well."""
        return self._keeper.problem

    def ends_s(self) -> dict[str, float]:
        """When what ends, in seconds since the epoch."""
        held = self._keeper.held
        if held is None:
            return {}
        shown = {"webhook": held.serving.certificate, "webhook-authority": held.signer.certificate}
        return {use: one.not_valid_after_utc.timestamp() for use, one in shown.items()}


def place(settings: Settings) -> SecretPlace:
    """Where the Secret is."""
    in_pod = own_namespace() if settings.kubeconfig is None else None
    return SecretPlace(in_pod or NAMESPACE, KEPT_IN)
