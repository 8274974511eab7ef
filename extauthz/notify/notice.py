"""One notice, and the two forms in which it is sent: a CloudEvent, and Slack's payload. Pure.

Source: CloudEvents 1.0.2, ``spec.md`` and ``formats/json-format.md`` (structured mode); Slack, "Sending messages using
incoming webhooks" and "Formatting text for app surfaces".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from extauthz.core.model import Tree
from extauthz.core.times import stamp

CLOUDEVENT: Final = "application/cloudevents+json; charset=utf-8"
JSON: Final = "application/json"


class Kind(StrEnum):
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
    NEAR_LIMIT = "near-limit"
    """Little is left of a limit of a quota."""
    NEVER_FITS = "never-fits"
    """The autoscaler of a workload may ask for more than can ever fit."""
    GRANTED = "granted"
    """A workload grows. Only for receivers that want it."""


TYPE_PREFIX: Final = "dev.extauthz.workspace."


class Notice(NamedTuple):
    """One message."""

    id: str
    """The same for each attempt. Equal ids are the same notice."""
    kind: Kind
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
