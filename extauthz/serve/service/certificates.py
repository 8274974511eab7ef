"""The gate's own certificates, and the webhook's where the gates make it. Each is read again while the gate runs. A
good one is used, a bad one is refused and reported."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
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


class CertificateError(ListenError):
    """The files cannot be used. The text names the flags and what is wrong."""


class AuthoritiesError(OSError):
    """The same of the authorities of clients."""


class _Content(NamedTuple):
    """What a listener shows, and whose clients it lets in, in PEM."""

    cert: bytes
    key: bytes
    authorities: bytes | None


class Use(NamedTuple):
    """Which listener shows a certificate."""

    name: str
    """For metrics."""
    cert: str
    """The flag of the certificate, for whoever must put it right."""
    authorities: str
    """That of the authorities of clients."""
    clients: ssl.VerifyMode = ssl.CERT_REQUIRED
    """What a client must show where their authorities are known."""


GRPC: Final = Use("grpc", "--tls-cert", "--tls-client-ca")
WEBHOOK: Final = Use("webhook", "--webhook-cert", "--webhook-client-ca")
API: Final = Use("api", "--api-cert", "--api-client-ca", ssl.CERT_OPTIONAL)
"""A client of it may show a certificate of the authorities, or none."""


class Handshakes:
    """TLS of a listener whose certificate changes while it listens.

    Args:
        cert: the file of the certificate; ``None``: somebody will ``show`` one.
        authorities: of clients' certificates, read again while the gate runs; ``None``: none is asked for.

    Raises:
        CertificateError: the files cannot be used from the start.
    """

    def __init__(self, use: Use, tell: Tell, cert: Path | None, authorities: Path | None = None) -> None:
        self._use = use
        self._tell = tell
        self._cert = cert
        self._authorities = authorities
        self._seen: _Content | None = None
        """What is shown."""
        self._refused = ""
        self.context = self._empty()
        """For the listener. Each handshake goes on with the newest certificate; before the first, it fails."""
        if authorities is not None:
            # OpenSSL takes it from here, and whom to trust from the newest.
            self.context.verify_mode = use.clients
        self.context.sni_callback = self._choose
        self._current = self.context
        if cert is not None:
            try:
                self._show(self._read())
            except OSError as error:
                raise CertificateError(self._problem(error)) from None

    @classmethod
    def of(cls, use: Use, settings: Settings, tell: Tell) -> Self | None:
        """Those of the settings; ``None``: these name none.

        Raises:
            CertificateError: they cannot be used.
        """
        cert, authorities = (getattr(settings, flag[2:].replace("-", "_")) for flag in (use.cert, use.authorities))
        return None if cert is None else cls(use, tell, cert, authorities)

    def show(self, cert: bytes, key: bytes) -> None:
        """From the next handshake on. Raises OSError, also ssl.SSLError, and keeps the old one."""
        self._show(_Content(cert, key, self._trusted()))

    async def watch(self) -> None:
        """Look from time to time, for ever. Connections live long, and a person should learn of a mistake soon."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.look()

    def look(self) -> None:
        """Read the files. New and valid ones are used for new connections. Invalid ones are reported once."""
        if self._seen is None:
            return
        problem = ""
        try:
            content = self._read()
            if content != self._seen:
                self._show(content)
                self._tell("info", "tls-renewed", cert=str(self._cert or self._authorities))
        except OSError as error:
            problem = self._problem(error)
        if problem and problem != self._refused:
            self._tell("error", "tls-refused", problem=problem, kept="what was in force before")
        self._refused = problem

    def ends_s(self) -> dict[str, float]:
        """When what ends, in seconds since the epoch, by its use; empty: it cannot be told."""
        try:
            chain = x509.load_pem_x509_certificates(self._seen.cert if self._seen is not None else b"")
            return {self._use.name: min(one.not_valid_after_utc.timestamp() for one in chain)}
        except ValueError:
            return {}

    def _read(self) -> _Content:
        """What is to be shown by now: as a rule, what two readings agree upon, as files are replaced one after the
        other. Raises OSError."""
        shown = self._seen
        if self._cert is None:
            assert shown is not None
            return shown._replace(authorities=self._trusted())
        for _ in range(TRIES):
            found = _Content(self._cert.read_bytes(), key_of(self._cert).read_bytes(), self._trusted())
            if found == shown:
                break
            shown = found
        return found

    def _trusted(self) -> bytes | None:
        try:
            return self._authorities.read_bytes() if self._authorities is not None else None
        except OSError as error:
            raise AuthoritiesError(error) from error

    def _problem(self, error: OSError) -> str:
        if self._cert is None or isinstance(error, AuthoritiesError):
            return f"{self._use.authorities} {self._authorities}: not certificates in PEM ({error})"
        key = key_of(self._cert)
        return f"{self._use.cert} {self._cert}, its key {key}: not a certificate and its key in PEM ({error})"

    def _show(self, content: _Content) -> None:
        """A whole new context: what is loaded into one in use may fail halfway. Raises OSError."""
        context = self._empty()
        with _in_memory(content.cert) as cert, _in_memory(content.key) as key:
            context.load_cert_chain(cert, key)
        if content.authorities is not None:
            try:
                with _in_memory(content.authorities) as authorities:
                    context.load_verify_locations(authorities)
            except OSError as error:
                raise AuthoritiesError(error) from error
            context.verify_mode = self._use.clients
        self._seen, self._current = content, context

    def _empty(self) -> ssl.SSLContext:
        """Without session tickets: an API server resumes no session, and they are a quarter of what a handshake
        costs."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.num_tickets = 0
        if self._use is GRPC:
            context.set_alpn_protocols([ALPN])
            context.options |= ssl.OP_NO_RENEGOTIATION  # RFC 9113 §9.2.1
        return context

    def _choose(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        """OpenSSL asks at each handshake, also where the client names no server. Connections from Envoy are few: each
        looks by itself, and waits for no other."""
        if self._use is GRPC:
            self.look()
        connection.context = self._current


@contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """The path of a file that is on no disk: OpenSSL takes files only. What it takes is what was read, and a key of the
    gates' own is written nowhere."""
    with open(os.memfd_create("extauthz-tls"), "wb") as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


NAMESPACE = "extauthz-system"
"""Where the Secret is, if the gate runs in no pod."""

KEPT_IN: Final = "extauthz-webhook"
"""The Secret's name, as the chart's Role and ``render webhook`` have it."""

CONFIGURATION: Final = "extauthz"
"""Name of the Validating- and MutatingWebhookConfiguration that call the gates, as the chart makes them. The
certificate is for the names under which they call."""


class SelfSigned(Handshakes):
    """The webhook's from a Secret, where the gates make it."""

    def __init__(self, settings: Settings, connection: Connection, tell: Tell) -> None:
        super().__init__(WEBHOOK, tell, None, settings.webhook_client_ca)
        terms = Terms(timedelta(seconds=settings.numbers.certificate_lifetime_s))
        self._keeper = Keeper(
            connection,
            place(settings),
            CONFIGURATION,
            terms,
            lambda: datetime.fromtimestamp(time.time(), UTC),
            self.show,
            tell,
        )

    async def watch(self) -> None:
        """Keep it, for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keeper.run())
            group.create_task(super().watch())

    async def waited(self, stop: asyncio.Event) -> bool:
        """Wait until there is a certificate; False if told to stop before."""
        return await all_set([self._keeper.shown], stop)

    @property
    def problem(self) -> str:
        """Why there is none, or why it cannot be renewed; empty if all is well."""
        return self._keeper.problem

    def ends_s(self) -> dict[str, float]:
        held = self._keeper.held
        if held is None:
            return {}
        shown = {"webhook": held.serving.certificate, "webhook-authority": held.signer.certificate}
        return {use: one.not_valid_after_utc.timestamp() for use, one in shown.items()}


def place(settings: Settings) -> SecretPlace:
    """Where the Secret is."""
    in_pod = own_namespace() if settings.kubeconfig is None else None
    return SecretPlace(in_pod or NAMESPACE, KEPT_IN)
