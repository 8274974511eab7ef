"""A small backend of a platform: workspaces and their limits in SQLite, a page to change them, and the
quotas that gates ask for (docs/http-source.md).

``python service.py --database platform.db --port 8080``. It listens on 127.0.0.1: your own proxy with the login and TLS
stands before the page. Where TOKEN is set, gates have to show it.
"""

from __future__ import annotations

import argparse
import hmac
import os
import re
import sqlite3
from html import escape

from aiohttp import web

TABLES = """
CREATE TABLE IF NOT EXISTS workspaces (name TEXT PRIMARY KEY, cpu TEXT NOT NULL, pods INTEGER NOT NULL);
"""
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Workspaces</title>
<h1>Workspaces</h1>
<form method="post" action="/workspaces"><label>Name <input name="name" required></label>
<label>CPUs <input name="cpu" required></label> <label>Pods <input name="pods" type="number" min="0" required></label>
<button>Save</button></form>
<table><caption>Limits</caption><tr><th>Name<th>CPUs<th>Pods</tr>{workspaces}</table>
"""
LIST = {"apiVersion": "extauthz.dev/v1alpha1", "kind": "WorkspaceQuotaList"}
NAME = re.compile("[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
"""Gates refuse the whole answer for a name that is not valid in a label."""


class Platform:
    """Args: ``database``: a path, made where it is missing."""

    def __init__(self, database: str) -> None:
        self._sql = sqlite3.connect(database, isolation_level=None)
        self._sql.row_factory = sqlite3.Row
        self._sql.executescript(TABLES)

    async def quotas(self, _: web.Request) -> web.Response:
        """All limits. A workspace is the namespaces with the label ``workspace: <its name>``."""
        rows = self._sql.execute("SELECT * FROM workspaces")
        return web.json_response({**LIST, "items": [_quota(row) for row in rows]})

    async def page(self, _: web.Request) -> web.Response:
        workspaces = self._sql.execute("SELECT name, cpu, pods FROM workspaces ORDER BY name")
        return web.Response(text=PAGE.format(workspaces=_rows(workspaces)), content_type="text/html")

    async def save(self, request: web.Request) -> web.Response:
        """Put limits in force. Gates ask for them every 10 s."""
        form = await request.post()
        try:
            row = (form["name"], form["cpu"], int(form["pods"]))
            if not NAME.fullmatch(row[0]):
                raise ValueError(f"{row[0]!r} is no name of a label")
        except (KeyError, ValueError) as error:
            text = f"name, cpu and pods are needed; pods is a whole number: {error}\n"
            raise web.HTTPBadRequest(text=text) from None
        self._sql.execute("INSERT OR REPLACE INTO workspaces VALUES (?, ?, ?)", row)
        raise web.HTTPSeeOther("/")


def _quota(row: sqlite3.Row) -> dict[str, object]:
    """A workspace's limits."""
    hard = {"requests.cpu": row["cpu"], "pods": str(row["pods"])}
    return {"metadata": {"name": row["name"]}, "spec": {"hard": hard}}


def _rows(rows: sqlite3.Cursor) -> str:
    cells = ("".join(f"<td>{escape(str(cell))}" for cell in row) for row in rows)
    return "".join(f"<tr>{row}</tr>" for row in cells)


def application(database: str, token: str = "") -> web.Application:
    """All of it. ``token``: what gates have to show; empty: nothing."""

    @web.middleware
    async def guarded(request: web.Request, handler: web.RequestHandler) -> web.StreamResponse:
        shown = request.headers.get("authorization", "")
        asks = token and request.path == "/quotas"
        if asks and not hmac.compare_digest(shown.encode(), f"Bearer {token}".encode()):
            raise web.HTTPUnauthorized
        return await handler(request)

    platform, made = Platform(database), web.Application(middlewares=[guarded])
    made.add_routes(
        [
            web.get("/", platform.page),
            web.post("/workspaces", platform.save),
            web.get("/quotas", platform.quotas),
        ]
    )
    return made


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", default="platform.db")
    parser.add_argument("--port", type=int, default=8080)
    options = parser.parse_args()
    web.run_app(application(options.database, os.environ.get("TOKEN", "")), host="127.0.0.1", port=options.port)
