"""Where a server listens: ``host:port``, ``[v6]:port``, ``:port`` (all interfaces) or ``unix:/path``."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple


class Address(NamedTuple):
    """One parsed listen address. Exactly one of ``path`` and ``host`` means something."""

    host: str
    """Without brackets; ``::`` for all interfaces."""
    port: int
    """0 lets the system choose; the log line ``serving`` names what it chose."""
    path: str | None = None
    """Of a unix socket."""

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it. A name other than ``localhost`` is taken as reachable."""
        if self.path is not None or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def with_port(self, port: int) -> Address:
        """The same place on the port that was really bound."""
        return self._replace(port=port)

    def __str__(self) -> str:
        if self.path is not None:
            return f"unix:{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse(text: str) -> Address:
    """Read an address.

    Raises:
        ValueError: with what is wrong and an example of what is right.
    """
    if text.startswith("unix:"):
        return _unix(text.removeprefix("unix:"))
    host, colon, port = text.rpartition(":")
    if not colon:
        raise ValueError(f"{text!r} has no port; write host:port, [::1]:port, :port or unix:/path")
    return Address(_host(text, host), _port(text, port))


def _unix(path: str) -> Address:
    if not path.startswith("/"):
        raise ValueError("a unix socket needs an absolute path; write unix:/run/extauthz/gate.sock")
    if len(path.encode()) > 107:  # sizeof(sockaddr_un.sun_path) - 1, unix(7)
        raise ValueError("the path of a unix socket may have at most 107 bytes (unix(7)); choose a shorter one")
    return Address("", 0, path)


def _host(text: str, host: str) -> str:
    if host.startswith("[") and host.endswith("]"):
        return _v6(host[1:-1])
    if ":" in host:
        raise ValueError(f"{text!r}: an IPv6 address goes in brackets; write [{host}]:port")
    return host or "::"


def _v6(host: str) -> str:
    try:
        return str(ipaddress.IPv6Address(host))
    except ValueError:
        raise ValueError(f"[{host}] is not an IPv6 address; write for example [::1]:9191") from None


def _port(text: str, port: str) -> int:
    if port.isascii() and port.isdigit() and int(port) <= 65535:
        return int(port)
    raise ValueError(f"{text!r}: the port must be a number from 0 to 65535")
