"""What a renewed certificate takes: Envoy reads the files of its configuration when it starts, and not again.

docs/render.md says so. Once this fails, that page may promise more.
"""

from __future__ import annotations

import shutil
import socket
import ssl
import time
from pathlib import Path

from extauthz.render.options import SidecarOptions
from extauthz.testing.certs import Authority
from extauthz.testing.envoy import Envoy

LOOKED_S = 2.0


def shown(port: int, authority: Authority) -> bytes:
    """The certificate that a client sees."""
    context = ssl.create_default_context(cafile=str(authority.ca))
    with (
        socket.create_connection(("127.0.0.1", port), timeout=5) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as wrapped,
    ):
        seen = wrapped.getpeercert(binary_form=True)
    assert seen is not None
    return seen


def test_a_renewed_certificate_is_shown_after_a_restart_and_not_before(authority: Authority, tmp_path: Path):
    def renew(name: str) -> None:
        """As a volume does it: another folder, and a link that is moved."""
        pair = authority.issue(name)
        folder = tmp_path / name
        folder.mkdir()
        shutil.copy(pair.cert, folder / "tls.crt")
        shutil.copy(pair.key, folder / "tls.key")
        link = tmp_path / "..new"
        link.symlink_to(folder)
        link.rename(tmp_path / "..data")

    renew("first")
    files = {"cert_file": str(tmp_path / "..data" / "tls.crt"), "key_file": str(tmp_path / "..data" / "tls.key")}
    options = SidecarOptions(**files, apiserver_ca_file=str(authority.ca))
    with Envoy(options, tmp_path / "envoy") as envoy:
        first = shown(envoy.port, authority)
        renew("second")
        time.sleep(LOOKED_S)
        assert shown(envoy.port, authority) == first
    with Envoy(options, tmp_path / "envoy") as envoy:
        assert shown(envoy.port, authority) != first
