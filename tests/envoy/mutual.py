"""Mutual TLS between a real Envoy and a real gate, each with certificates that can be renewed."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from typing import Any

from extauthz.tools.render.options import GateTls
from tests.support.certs import Authority
from tests.support.kubelet import Volume
from tests.support.stack import unused_port

from .test_settling import TEAMS, Real


def shown(port: int, authority: Authority, host: str = "127.0.0.1") -> bytes:
    """The certificate that a client sees."""
    context = ssl.create_default_context(cafile=str(authority.ca))
    with (
        socket.create_connection((host, port), timeout=5) as plain,
        context.wrap_socket(plain, server_hostname=host) as wrapped,
    ):
        seen = wrapped.getpeercert(binary_form=True)
    assert seen is not None
    return seen


class Mutual(Real):
    """Each of the volumes holds ``tls.crt``, ``tls.key`` and what its owner trusts in ``ca.crt``. A context manager."""

    def __init__(
        self, authority: Authority, directory: Path, gate: Volume, envoy: Volume, *more: str, **options: Any
    ) -> None:
        flags = [f"--tls-cert={gate['tls.crt']}", f"--tls-client-ca={gate['ca.crt']}"]
        tls = GateTls(envoy["ca.crt"], "localhost", envoy["tls.crt"], envoy["tls.key"])
        place = f"127.0.0.1:{unused_port()}"
        super().__init__(authority, directory, *flags, *more, grpc=place, gate_tls=tls, **options)

    def decides(self) -> bool:
        """Envoy and gate come to an understanding. Asked as a dry run, which charges nothing."""
        answer = self._scale(TEAMS[0], "web", 3, "?dryRun=All")
        assert answer.status_code in (200, 503), answer.text
        return answer.status_code == 200

    def connect_anew(self) -> None:
        """The gate ends, and another one takes its place: whoever asks must show a certificate again."""
        self.gate.terminate()
        self.gate.start()
