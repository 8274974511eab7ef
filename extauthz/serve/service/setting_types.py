"""Types of settings, each with its check: URLs, addresses, modes of files, where templates are."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple
from urllib.parse import urlsplit

from extauthz.inputs.policies.plugins import AUDIT

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

SECONDS: Final = {"gt": 0, "le": 86400, "allow_inf_nan": False}
"""Bounds of most times."""

HTTP = ("https", "http")
"""Schemes of a service that is asked."""

OFF = "off"
"""In place of an address: nobody listens."""

POLICY = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
"""Names of policies."""

LABEL = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
"""Names of objects (RFC 1123), and of namespaces among them."""


def setting(default: Any, *, description: str, **bounds: Any) -> Any:  # noqa: ANN401 (of any type, as dataclasses.field)
    """One setting: what it is by default, what it means in Markdown, and bounds by pydantic's names of them."""
    return field(default=default, metadata={"description": description, **bounds})


class After(NamedTuple):
    """Checks a value that has its type.

    Pydantic knows it by its method, and has the like. But whoever imports that imports all of pydantic, which a page of
    help does not need.
    """

    check: Callable[[Any], Any]

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core.core_schema import no_info_after_validator_function

        return no_info_after_validator_function(self.check, handler(source))


class Before(NamedTuple):
    """Reads a value as it was given."""

    read: Callable[[object], object]

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core.core_schema import no_info_before_validator_function

        return no_info_before_validator_function(self.read, handler(source))


def _listen(text: str) -> str:
    parse(text)
    return text


def _listen_or_off(text: str) -> str:
    return text if text == OFF else _listen(text)


def _pod_groups(given: object) -> object:
    """As a mapping, or in a text; as a text."""
    from extauthz.serve.service import pod_groups

    text = json.dumps(given) if isinstance(given, dict) else given
    if isinstance(text, str):
        pod_groups.parse(text)
    return text


def _policies(given: object) -> object:
    """Names of plug-ins."""
    found = _words(given)
    names = [one.removesuffix(AUDIT) for one in found]
    for name in names:
        if not POLICY.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a policy; write NAME, or NAME{AUDIT}")
        if names.count(name) > 1:
            raise ValueError(f"{name!r} is named twice")
    return found


UNKNOWNS: Final = {
    "unreadable": "on_unreadable",
    "unknown-workload": "on_unknown_workload",
    "unknown-footprint": "on_unknown_footprint",
    "unspecified": "on_unspecified",
    "unknown-policy": "on_unknown_policy",
    "unsynced": "on_unsynced",
    "stale": "on_stale",
    "unclean-start": "",
}
"""What may be unknown, and the field of the core's policy for it; empty: the service asks itself."""


def _unknowns(given: object) -> object:
    found = _words(given)
    for name in found:
        if name not in UNKNOWNS:
            raise ValueError(f"{name!r} is none of {', '.join(UNKNOWNS)}")
    return found


def _words(given: object) -> tuple[str, ...]:
    """A list, or one text with commas or white space between."""
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list | tuple) or not all(isinstance(one, str) for one in texts):
        raise ValueError("this is no list of names")
    return tuple(part for text in texts for part in text.replace(",", " ").split())


def _hosts(given: object) -> object:
    """Names of hosts."""
    found = tuple(part.lower() for part in _words(given))
    for name in found:
        if not LABEL.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a host; write for example extauthz.extauthz-system.svc")
    return found


def scheme(text: str) -> str:
    """Of a URL; empty for what is none."""
    found = re.match(r"([A-Za-z][\w+.-]*)://", text)
    return found[1] if found else ""


def _checked_url(text: str) -> str:
    """Check a URL. It must hold no credentials: these have files of their own, and are sent over https only."""
    if scheme(text) not in HTTP:
        raise ValueError(f"{text.partition('//')[0]}// is none that can be asked; write https://host[:port]/path")
    parts = urlsplit(text)
    if not parts.hostname or parts.username is not None or parts.fragment:
        raise ValueError(
            f"{parts.hostname or 'no host'}: write https://host[:port]/path, with no user and no #fragment"
        )
    return text


def _is_url(text: str) -> str:
    if not scheme(text):
        raise ValueError("no URL")
    return text


def service_url(value: object) -> object:
    """Whatever has a scheme is a URL or wrong: never a path."""
    return _checked_url(value) if isinstance(value, str) and scheme(value) else value


def _file(path: Path) -> Path:
    if not path.is_file():
        raise ValueError(f"no such file: {path}")
    return path


def key_of(cert: Path) -> Path:
    """Where the private key of a certificate is: ``tls.key`` beside ``tls.crt``, as in a Secret."""
    return cert.with_suffix(".key")


def _cert(path: Path) -> Path:
    for one in (path, key_of(path)):
        _file(one)
    return path


def _folder(path: Path) -> Path:
    if not path.is_dir():
        raise ValueError(f"no such folder: {path}")
    return path


def _size(text: str) -> str:
    size_of(text)
    return text


def size_of(text: str) -> int:
    """Bytes of a quantity such as ``500Mi``.

    Raises:
        ValueError: it is none, or none that holds a file.
    """
    from extauthz.core import quantities

    try:
        found = quantities.parse(text) // quantities.NANO
    except quantities.QuantityError as error:
        raise ValueError(f"{text!r} is no size: {error.why}; write for example 500Mi") from None
    if found < LEAST_SIZE:
        raise ValueError(f"{text!r} is less than 1Mi; write for example 500Mi")
    return found


LEAST_SIZE: Final = 1 << 20

Size = Annotated[str, After(_size)]
Url = Annotated[str, After(_is_url)]
File = Annotated[Path, After(_file)]
CertFile = Annotated[Path, After(_cert)]
Folder = Annotated[Path, After(_folder)]
Listen = Annotated[str, After(_listen)]
ListenOrOff = Annotated[str, After(_listen_or_off)]
Policies = Annotated[tuple[str, ...], Before(_policies)]
Unknowns = Annotated[tuple[str, ...], Before(_unknowns)]
HostNames = Annotated[tuple[str, ...], Before(_hosts)]
PodGroups = Annotated[str, Before(_pod_groups)]


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
