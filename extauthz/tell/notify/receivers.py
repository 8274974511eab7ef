"""Receivers as the configuration names them: ``NAME[,OPTION…]=URL``. A tenant can name one, and never give its URL.

A URL may itself be a secret (Slack's are). So no text that is made here has one, and ``file:`` keeps it off the
command line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from extauthz.core.model import Tree
from extauthz.core.texts import stamp

FILE: Final = "file:"
"""In place of a URL: it is in this file."""

MAX_URL: Final = 2048
"""Characters."""

FORM: Final = "write for example ops=https://alerts.example.com/extauthz"

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""A DNS label (RFC 1123), so that it can be a label of a metric and a key of a Secret."""

_OPTIONS: Final = ("slack", "grants", "named", "allow-http")


class ReceiverError(ValueError):
    """A receiver, or a file of one, cannot be used. The text says why and the cure, and has no URL."""


class Receiver(NamedTuple):
    """Where notices are sent."""

    name: str
    where: str
    """A URL, or ``file:`` and the path of a file that has it."""
    slack: bool = False
    """Gets Slack's payload in place of a CloudEvent."""
    grants: bool = False
    """Is told of each growth that was granted, too."""
    named: bool = False
    """Is told only of workspaces whose quota names it."""
    allow_http: bool = False

    def url(self) -> str:
        """The URL; of a file, what it holds now.

        Raises:
            ReceiverError: the file cannot be read, or holds no good URL.
        """
        if not self.where.startswith(FILE):
            return self.where
        path = self.where.removeprefix(FILE)
        try:
            text = Path(path).read_text().strip()
        except (OSError, ValueError) as error:
            raise ReceiverError(f"{path}: {_why(error)}") from None
        return checked(text, path, self.allow_http)


def parse(text: str) -> Receiver:
    """Read one receiver.

    Raises:
        ReceiverError: with what is wrong, and an example of what is right.
    """
    head, equals, where = text.partition("=")
    name, *options = head.split(",")
    if not equals or not _NAME.fullmatch(name):
        said = f"{name!r} is no name" if equals and ":" not in name else "it has no name"
        raise ReceiverError(f"{said} of a receiver (small letters, digits and '-', at most 63); {FORM}")
    for option in options:
        if option not in _OPTIONS:
            raise ReceiverError(f"{name}: there is no option {option!r}; known are {', '.join(_OPTIONS)}")
    receiver = Receiver(name, where, *(option in options for option in _OPTIONS))
    if not where.startswith(FILE):
        checked(where, name, receiver.allow_http)
    return receiver


def parse_all(texts: Iterable[str]) -> tuple[Receiver, ...]:
    """Read several.

    Raises:
        ReceiverError: one is wrong, or two have one name.
    """
    receivers = tuple(map(parse, texts))
    names = [one.name for one in receivers]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ReceiverError(f"two receivers have the name {twice}; rename one of them")
    return receivers


def shown(text: str) -> str:
    """A receiver's text without its URL, for people."""
    head, equals, where = text.partition("=")
    return text if where.startswith(FILE) else f"{head}{equals}(hidden)"


def checked(url: str, place: str, allow_http: bool) -> str:
    """A URL that may be asked.

    Args:
        place: what to name in an error.

    Raises:
        ReceiverError: it is none.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ReceiverError(f"{place}: this is no URL; {FORM}") from None
    if len(url) > MAX_URL or not url.isascii() or not url.isprintable() or " " in url:
        raise ReceiverError(f"{place}: a URL has at most {MAX_URL} characters, all of them ASCII and none a space")
    if parts.scheme not in ("https", "http") or not host or port == 0:
        raise ReceiverError(f"{place}: this is no https URL; {FORM}")
    if parts.username is not None or parts.fragment:
        raise ReceiverError(f"{place}: a URL has no user and no #fragment; the signing key goes into a file")
    if parts.scheme == "http" and not allow_http and not _is_loopback(host):
        raise ReceiverError(f"{place}: http is not encrypted; write https, or add the option allow-http")
    return url


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _why(error: Exception) -> str:
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else "it is no text"


# One notice, and the two forms in which it is sent: a CloudEvent, and Slack's payload. Pure.
#
# Source: CloudEvents 1.0.2, ``spec.md`` and ``formats/json-format.md`` (structured mode); Slack, "Sending messages
# using incoming webhooks" and "Formatting text for app surfaces".

CLOUDEVENT: Final = "application/cloudevents+json; charset=utf-8"
JSON: Final = "application/json"


class NoticeKind(StrEnum):
    """What a notice is about; the last word of its CloudEvents type."""

    REFUSED = "refused"
    """A workload may not grow."""
    CLAMPED = "clamped"
    """A workload gets fewer replicas than it asked for."""
    WOULD_REFUSE = "would-refuse"
    """A workload grows, and a quota in mode Audit would have refused that."""
    ROOM = "room"
    """What was refused may grow."""
    OVER = "over"
    """A quota has more in use than its limit."""
    NEVER_FITS = "never-fits"
    """The autoscaler of a workload may ask for more than can ever fit."""
    GRANTED = "granted"
    """A workload grows. Only for receivers that want it."""


TYPE_PREFIX: Final = "dev.extauthz.workspace."


class Notice(NamedTuple):
    id: str
    """The same for each attempt. Equal ids are the same notice."""
    kind: NoticeKind
    subject: str
    """``deployments.apps/shop/web`` or ``workspacequotas.extauthz.dev/acme``."""
    time_s: float
    """Seconds since the epoch."""
    data: Mapping[str, Tree]
    """docs/notices.md has the schema."""


def cloudevent(notice: Notice, source: str) -> bytes:
    """The body of structured mode."""
    return _json(
        {
            "specversion": "1.0",
            "id": notice.id,
            "source": source,
            "type": TYPE_PREFIX + notice.kind,
            "subject": notice.subject,
            "time": stamp(notice.time_s),
            "datacontenttype": JSON,
            "data": notice.data,
        }
    )


def slack(notice: Notice) -> bytes:
    """The payload of an incoming webhook. Names are a tenant's: none of them becomes a link or calls a channel."""
    where = ", ".join(notice.data["workspaces"]) or "no workspace"
    text = f"[{notice.kind}] {where}: {notice.data['sentence']}"
    return _json({"text": text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")})


def _json(tree: Tree) -> bytes:
    """All in ASCII. A client's text may hold half a surrogate pair, which UTF-8 has no bytes for."""
    return json.dumps(tree, separators=(",", ":")).encode()
