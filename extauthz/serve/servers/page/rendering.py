"""Templates to HTML, with every value escaped; the files beside them; and the headers of every answer."""

from __future__ import annotations

import asyncio
import hashlib
import mimetypes
from collections.abc import Awaitable, Callable, Container, Mapping
from datetime import UTC, datetime
from importlib import resources
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote, urlencode

import jinja2

from extauthz.core import quantities
from extauthz.serve.servers.api.history import Filter
from extauthz.serve.servers.api.rights import Scope
from extauthz.serve.servers.api.routes import Asked
from extauthz.serve.servers.api.shown import Json

# Where a thing has its page.


HOME = "/"
QUOTA = "/quotas/{quota}"
WORKLOAD = "/namespaces/{namespace}/workloads/{resource}/{name}"
STREAM = "/events"
"""Before the path of a page: what changes of it."""
STATIC = "/static/{file}"


def of_quota(name: str, **query: str) -> str:
    return with_query(QUOTA.format(quota=_segment(name)), query)


def of_workload(named: Json) -> str:
    """The page of a workload that an answer of the API names."""
    return WORKLOAD.format(**{field: _segment(named[field]) for field in ("namespace", "resource", "name")})


def of_tree(**query: str) -> str:
    """The tree of quotas, or a part of it."""
    return with_query(HOME, query)


def with_query(path: str, query: Mapping[str, str]) -> str:
    """The path with those parameters that say something."""
    told = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(told, errors='replace')}" if told else path


def _segment(name: str) -> str:
    return quote(name, safe="", errors="replace")


POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""No script, style, picture or connection but the page's own, and nothing that others may frame or keep."""

KEPT = "private, max-age=31536000, immutable"
"""A file beside the page: its address changes when it does."""

FILES: Final = ("page.css", "page.js", "icon.svg", "htmx.min.js", "htmx-sse.min.js")

STEP = 50
"""Pieces of a page that are written before other work comes in between."""

_HERE: Final = resources.files("extauthz.serve.servers.page")


class File(NamedTuple):
    body: bytes
    content_type: str
    tag: str


def files() -> Mapping[str, File]:
    return {name: _file(name) for name in FILES}


def _file(name: str) -> File:
    body = _HERE.joinpath("static", name).read_bytes()
    kind = mimetypes.types_map[f".{name.rpartition('.')[2]}"]
    return File(body, kind, hashlib.blake2b(body, digest_size=6).hexdigest())


class Templates:
    """Writes HTML. A name that a template does not know is an error."""

    def __init__(self, static: Mapping[str, File]) -> None:
        self._environment = jinja2.Environment(
            loader=jinja2.DictLoader(_templates()),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        urls = {name: f"{STATIC.format(file=name)}?v={one.tag}" for name, one in static.items()}
        self._environment.globals.update(static=urls, of_quota=of_quota, of_workload=of_workload)
        self._environment.filters.update(
            clock=lambda stamp: clock(seconds(stamp)), count=count, free=free, lasting=lasting, since=since
        )

    async def write(self, name: str, context: Mapping[str, Any]) -> str:
        """One template, filled in. Other work comes in between: a long page takes some hundredths of a second."""
        pieces = []
        for number, piece in enumerate(self._environment.get_template(f"{name}.html").generate(context), 1):
            pieces.append(piece)
            if number % STEP == 0:
                await asyncio.sleep(0)
        return "".join(pieces)


def _templates() -> dict[str, str]:
    folder = _HERE.joinpath("templates")
    return {one.name: one.read_text("utf-8") for one in folder.iterdir() if one.name.endswith(".html")}


# Numbers and times as people read them.


MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400


def lasting(seconds: float) -> str:
    """How long something lasts, in one unit, so that it changes rarely.

    >>> lasting(59), lasting(150), lasting(7200), lasting(200000)
    ('under a minute', '2 min', '2 h', '2 d')
    """
    if seconds < MINUTE_S:
        return "under a minute"
    if seconds < HOUR_S:
        return f"{int(seconds // MINUTE_S)} min"
    if seconds < 2 * DAY_S:
        return f"{int(seconds // HOUR_S)} h"
    return f"{int(seconds // DAY_S)} d"


def since(stamp: str, now_s: float) -> str:
    """How long ago a time of the API was."""
    return lasting(now_s - seconds(stamp))


def seconds(stamp: str) -> float:
    """A time of the API, in seconds since the epoch."""
    return datetime.fromisoformat(stamp).timestamp()


def clock(at_s: float) -> str:
    """The time of day in UTC."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%H:%M:%S")


def count(number: int, noun: str) -> str:
    """A number with its noun.

    >>> count(1, "workload"), count(12345, "workload")
    ('1 workload', '12,345 workloads')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def free(row: Json) -> str:
    """What a shortage leaves of its resource."""
    used, reserved, kept, hard = (quantities.parse(row[name]) for name in ("used", "reserved", "kept", "hard"))
    return quantities.format(max(0, hard - used - reserved - kept), row["resource"])


# What all pages have in common: a question becomes a view, and a view becomes HTML.


class View(NamedTuple):
    """One page, ready to be written."""

    title: str
    template: str
    """``templates/NAME.html`` is the page, ``templates/NAME.live.html`` the part of it that lives."""
    context: Mapping[str, Any]


Look: TypeAlias = Callable[[Asked, float], Awaitable[View]]
"""A question, and the time in seconds since the epoch → a view. Raises Problem."""


async def refused(asked: Asked, limit: int, quota: str | None = None) -> Json:
    """A page of workloads that are refused now, those first that have waited longest."""
    visible = await namespaces(asked, quota)
    return await asked.all_veiled(asked.answers.history.episodes(Filter(quota=quota), limit, visible))


async def namespaces(asked: Asked, quota: str | None = None) -> Container[str]:
    """Those that the past tells of and who asks may see; or those of one quota and all below it."""
    answers = asked.answers
    return await asked.rights.visible(
        Scope.NAMESPACE, answers.history.namespaces() if quota is None else answers.namespaces(quota)
    )
