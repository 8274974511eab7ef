"""Templates to HTML, with every value escaped; the files beside them; and the headers of every answer."""

from __future__ import annotations

import asyncio
import hashlib
import mimetypes
from collections.abc import Mapping
from importlib import resources
from typing import Any, Final, NamedTuple

import jinja2

from extauthz.servers.page import places

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

_HERE: Final = resources.files("extauthz.servers.page")


class File(NamedTuple):
    """A file beside the page."""

    body: bytes
    content_type: str
    tag: str


def files() -> Mapping[str, File]:
    """All of them, by name."""
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
        urls = {name: f"{places.STATIC.format(file=name)}?v={one.tag}" for name, one in static.items()}
        self._environment.globals.update(static=urls, of_quota=places.of_quota)

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
