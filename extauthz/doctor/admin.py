"""Reads the proxy: the pages of Envoy's admin interface, or a config dump in a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import aiohttp

from .dump import Dump, NoDumpError, Tree, parse

WITHIN_S = 10.0

DUMP, CLUSTERS, CERTS = "/config_dump?include_eds", "/clusters?format=json", "/certs"
LISTENERS = "/listeners?format=json"
COUNTERS = "/stats?format=json&filter=ext_authz%5C.(ok|denied)$"


class Proxy(NamedTuple):
    """What was read of the proxy. ``None``: not read."""

    dump: Dump
    certs: Tree | None = None


class AdminError(Exception):
    """The admin interface does not answer as one. The text says which page and why."""


class Admin:
    """One Envoy's, at ``http://host:port``."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url.rstrip("/")

    async def proxy(self) -> Proxy:
        """Its configuration and certificates. Raises AdminError."""
        try:
            dump = parse(await self._page(DUMP))
        except NoDumpError as error:
            raise AdminError(f"{self._url}{DUMP}: {error}") from error
        return Proxy(dump.listening(await self._page(LISTENERS)), await self._page(CERTS))

    async def clusters(self) -> Tree:
        """Its upstreams and their counters. Raises AdminError."""
        return await self._page(CLUSTERS)

    async def decisions(self) -> int:
        """How many decisions of the gate Envoy has counted. Raises AdminError."""
        stats = (await self._page(COUNTERS)).get("stats", [])
        # The same decision is counted for the connection manager and for the route's cluster.
        return sum(int(each.get("value", 0)) for each in stats if str(each.get("name", "")).startswith("cluster."))

    async def _page(self, page: str) -> Tree:
        where = self._url + page
        try:
            async with self._session.get(where, timeout=aiohttp.ClientTimeout(total=WITHIN_S)) as answer:
                body = await answer.read()
                if answer.status != 200:
                    raise AdminError(f"{where} answered {answer.status}")
                return json.loads(body)
        except TimeoutError as error:
            raise AdminError(f"{where}: nothing came within {WITHIN_S:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise AdminError(f"{where}: {error or type(error).__name__}") from error


def from_file(path: Path) -> Proxy:
    """A config dump that somebody saved.

    Raises:
        OSError: it cannot be read.
        NoDumpError: it is something else; names the file.
    """
    try:
        tree: Mapping[str, Tree] = json.loads(path.read_bytes())
        return Proxy(parse(tree))
    except ValueError as error:
        raise NoDumpError(f"--config-dump {path}: {error}") from error
