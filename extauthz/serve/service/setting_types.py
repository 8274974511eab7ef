"""Kinds of settings, each with what reads it: URLs, addresses, files, lists of names, where templates are."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

from extauthz.core import quantities
from extauthz.core.model import Unknown
from extauthz.inputs.policies.plugins import AUDIT

KUBERNETES: Literal["kubernetes"] = "kubernetes"
"""In place of a path: from the cluster. A file of that name is spelled ``./kubernetes``."""

HTTP = ("https", "http")
"""Schemes of a service that is asked."""

OFF = "off"
"""In place of an address: nobody listens."""

POLICY = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
"""Names of policies."""

LABEL = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
"""Names of objects (RFC 1123), and of namespaces among them."""

MOST_S: Final = 86_400
"""Of a time."""


class Kind(NamedTuple):
    """What a setting takes."""

    read: Callable[[Any], Any]
    """Makes it of what was given: a text, or what YAML has. Raises ValueError with what is wrong, and the cure."""
    metavar: str
    """As help names it."""
    is_list: bool = False
    """Its flag may be repeated."""


def setting(kind: Kind, default: Any = None, *, description: str) -> Any:  # noqa: ANN401 (of any type, as dataclasses.field)
    """One setting: what it takes, what it is by default, and what it means in Markdown."""
    return field(default=default, metadata={"kind": kind, "description": description})


def one_of(*choices: str, metavar: str = "", made: Callable[[str], str] = str) -> Kind:
    """One of these words. ``made``: the type of the word."""

    def read(given: object) -> str:
        if given not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}, not {str(given)[:60]!r}")
        return made(str(given))

    return Kind(read, metavar or "|".join(choices))


def _text(given: object) -> str:
    if not isinstance(given, str):
        raise ValueError(f"must be a text, not {str(given)[:60]!r}")
    return given


def _path(given: object) -> Path:
    return given if isinstance(given, Path) else Path(_text(given))


def _switch(given: object) -> bool:
    words = {"true": True, "false": False}
    found = words.get(str(given).lower())
    if found is None:
        raise ValueError(f"must be true or false, not {str(given)[:60]!r}")
    return found


def _seconds(given: object) -> float:
    try:
        found = float(given) if isinstance(given, str | int | float) and not isinstance(given, bool) else 0.0
    except ValueError:
        found = 0.0
    if not 0 < found <= MOST_S:
        raise ValueError(
            f"must be more than 0 and at most {MOST_S}, not {str(given)[:60]!r}; write for example 135 (seconds)"
        )
    return found


def _listen(given: object) -> str:
    parse(_text(given))
    return _text(given)


def _listen_or_off(given: object) -> str:
    return OFF if given == OFF else _listen(given)


def _pod_groups(given: object) -> str:
    """As a mapping, or in a text; as a text."""
    from extauthz.serve.service import pod_groups

    text = _text(json.dumps(given) if isinstance(given, dict) else given)
    pod_groups.parse(text)
    return text


def _policies(given: object) -> tuple[str, ...]:
    """Names of plug-ins."""
    found = _words(given)
    names = [one.removesuffix(AUDIT) for one in found]
    for name in names:
        if not POLICY.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a policy; write NAME, or NAME{AUDIT}")
        if names.count(name) > 1:
            raise ValueError(f"{name!r} is named twice")
    return found


UNKNOWNS: Final[Mapping[str, Unknown | None]] = {
    "unreadable": Unknown.UNREADABLE,
    "unknown-workload": Unknown.WORKLOAD,
    "unknown-footprint": Unknown.FOOTPRINT,
    "unspecified": Unknown.UNSPECIFIED,
    "unknown-policy": Unknown.POLICY,
    "unsynced": Unknown.UNSYNCED,
    "stale": Unknown.STALE,
    "unclean-start": None,
}
"""What may be unknown, as the core calls it; ``None``: the service asks itself."""


def _unknowns(given: object) -> tuple[str, ...]:
    found = _words(given)
    for name in found:
        if name not in UNKNOWNS:
            raise ValueError(f"{name!r} is not one of {', '.join(UNKNOWNS)}")
    return found


def _words(given: object) -> tuple[str, ...]:
    """A list, or one text with commas or white space between."""
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list | tuple) or not all(isinstance(one, str) for one in texts):
        raise ValueError("this is no list of names")
    return tuple(part for text in texts for part in text.replace(",", " ").split())


def _hosts(given: object) -> tuple[str, ...]:
    """Names of hosts."""
    found = tuple(part.lower() for part in _words(given))
    for name in found:
        if not LABEL.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a host; write for example extauthz.extauthz-system.svc")
    return found


def _state(given: object) -> Literal["kubernetes"] | Path:
    return KUBERNETES if given == KUBERNETES else _path(given)


def _quotas(given: object) -> Path | str:
    """Whatever has a scheme is a URL or wrong: never a path. A URL must hold no credentials: these have files of their
    own, and are sent over https only."""
    scheme = re.match(r"([A-Za-z][\w+.-]*)://", given) if isinstance(given, str) else None
    if scheme is None:
        return _state(given)
    url = _text(given)
    if scheme[1] not in HTTP:
        raise ValueError(f"{scheme[0]} cannot be asked; write https://host[:port]/path")
    parts = urlsplit(url)
    if not parts.hostname or parts.username is not None or parts.fragment:
        raise ValueError(
            f"{parts.hostname or 'no host'}: write https://host[:port]/path, with no user and no #fragment"
        )
    return url


def _file(given: object) -> Path:
    path = _path(given)
    if not path.is_file():
        raise ValueError(f"no such file: {path}")
    return path


def key_of(cert: Path) -> Path:
    """Where the private key of a certificate is: ``tls.key`` beside ``tls.crt``, as in a Secret."""
    return cert.with_suffix(".key")


def _cert(given: object) -> Path:
    path = _file(given)
    _file(key_of(path))
    return path


def _size(given: object) -> str:
    size_of(_text(given))
    return _text(given)


def size_of(text: str) -> int:
    """Bytes of a quantity such as ``500Mi``.

    Raises:
        ValueError: it is none, or none that holds a file.
    """
    try:
        found = quantities.parse(text) // quantities.NANO
    except quantities.QuantityError as error:
        raise ValueError(f"{text!r} is no size: {error.why}; write for example 500Mi") from None
    if found < LEAST_SIZE:
        raise ValueError(f"{text!r} is less than 1Mi; write for example 500Mi")
    return found


LEAST_SIZE: Final = 1 << 20

TEXT: Final = Kind(_text, "TEXT")
SWITCH: Final = Kind(_switch, "true|false")
SECONDS: Final = Kind(_seconds, "SECONDS")
SIZE: Final = Kind(_size, "SIZE")
PATH: Final = Kind(_path, "PATH")
FILE: Final = Kind(_file, "PATH")
CERT_FILE: Final = Kind(_cert, "PATH")
QUOTAS: Final = Kind(_quotas, f"{KUBERNETES}|URL|PATH")
STATE: Final = Kind(_state, f"{KUBERNETES}|PATH")
LISTEN: Final = Kind(_listen, "ADDRESS")
LISTEN_OR_OFF: Final = Kind(_listen_or_off, "ADDRESS|off")
POD_GROUPS: Final = Kind(_pod_groups, "YAML")
POLICIES: Final = Kind(_policies, "NAMES", is_list=True)
NAMES_OF_UNKNOWNS: Final = Kind(_unknowns, "NAMES", is_list=True)
HOST_NAMES: Final = Kind(_hosts, "NAMES", is_list=True)


class SettingsError(Exception):
    """The settings cannot be used. The text is one line a problem: flag, variable or field, what is wrong, the cure."""


class ConfigFileError(SettingsError):
    """The settings file itself is at fault (bad data, not bad usage)."""


# Where a server listens: ``host:port``, ``[v6]:port``, ``:port`` (all interfaces) or ``unix:/path``.


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
