"""The HTTP client for a platform's own service: one for quotas and for ``maxAvailableScale``.

docs/openapi.yaml has the contracts. Errors have stable codes, which are also metric labels; none carries a header, a
query or a credential.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self
from urllib.parse import urlsplit

import aiohttp

from extauthz.core.budget import VALUE, Work
from extauthz.core.errors import BodyError
from extauthz.core.model import Tree
from extauthz.core.wire import gojson

MAX_BODY_BYTES = 16 * 1024 * 1024
"""About 20,000 quotas. The API server's own limit of a request body is 3 MiB (``k8s.io/apiserver``)."""

MAX_VALUES = 1_000_000
"""JSON values in an answer: 50 for each of 20,000 quotas."""


@dataclass(frozen=True)
class Endpoint:
    """Where a service is, and how it is asked."""

    url: str
    timeout_s: float
    token_file: Path | None = None
    """A bearer token, read anew for each request: projected tokens are replaced while they are used."""
    ca: Path | None = None
    """Authorities to trust; ``None``: the system's."""
    cert: Path | None = None
    """Client certificate chain, with ``key``; read anew for each connection."""
    key: Path | None = None

    @property
    def shown(self) -> str:
        """The address without its query, which may hold a secret."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path}"


class SourceError(Exception):
    """A service gave no answer that can be used. ``code`` is stable and a metric label.

    ``unreachable`` and ``timeout`` (trying again helps), ``unauthorized``, ``refused`` (another status), ``malformed``,
    ``too-large`` (the service's fault), ``credentials`` (ours), ``circuit-open`` and ``busy`` (not asked at all).
    """

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code


class Reply(NamedTuple):
    """A good answer."""

    tree: Tree
    """The decoded body; ``None``: nothing has changed (304)."""
    etag: str


class Client:
    """Asks one endpoint. An async context manager."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._session: aiohttp.ClientSession | None = None
        self._tls: ssl.SSLContext | bool = True
        self._stamp: tuple[float, ...] | None = None

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=self.endpoint.timeout_s)
        self._session = aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def get(self, query: Mapping[str, str] | None = None, etag: str = "") -> Reply:
        """GET it once; no redirect is followed, as it would take the credentials elsewhere.

        Raises:
            SourceError: there is no good answer.
        """
        assert self._session is not None, "the client is entered"
        try:
            headers, tls = self._headers(etag), self._context()
        except (OSError, ValueError) as error:
            raise SourceError("credentials", f"cannot read its credentials: {error}") from None
        try:
            asked = self._session.get(self.endpoint.url, params=query, headers=headers, ssl=tls, allow_redirects=False)
            async with asked as response:
                return await self._reply(response)
        except TimeoutError:
            raise SourceError("timeout", f"no answer within {self.endpoint.timeout_s:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise SourceError("unreachable", f"{type(error).__name__}: {_brief(error)}") from None

    async def _reply(self, response: aiohttp.ClientResponse) -> Reply:
        if response.status == 304:
            return Reply(None, "")
        if response.status in (401, 403):
            raise SourceError("unauthorized", f"it answered {response.status}; look at its credentials")
        if response.status != 200:
            raise SourceError("refused", f"it answered {response.status}")
        body = await _read(response)
        try:
            tree = await asyncio.to_thread(gojson.loads, body, work=Work(MAX_VALUES * VALUE))
        except BodyError as error:
            raise SourceError("malformed", f"its answer cannot be read as JSON: {error}") from None
        return Reply(tree, response.headers.get("etag", ""))

    def _headers(self, etag: str) -> dict[str, str]:
        headers = {"accept": "application/json"}
        if etag:
            headers["if-none-match"] = etag
        if self.endpoint.token_file is not None:
            token = self.endpoint.token_file.read_text().strip()
            if not token or not token.isascii() or not token.isprintable():
                raise ValueError(f"{self.endpoint.token_file} holds no token")
            headers["authorization"] = f"Bearer {token}"
        return headers

    def _context(self) -> ssl.SSLContext | bool:
        """Made again when one of its files has changed: certificates are renewed in place."""
        one = self.endpoint
        files = [path for path in (one.ca, one.cert, one.key) if path is not None]
        stamp = tuple(path.stat().st_mtime for path in files)
        if files and stamp != self._stamp:
            context = ssl.create_default_context(cafile=one.ca)
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # Python 3.13 asks for more than Go and many an authority
            if one.cert is not None:
                context.load_cert_chain(one.cert, one.key)
            self._tls, self._stamp = context, stamp
        return self._tls


async def _read(response: aiohttp.ClientResponse) -> bytes:
    body = b""
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise SourceError("too-large", f"its answer is longer than {MAX_BODY_BYTES} bytes")
    return body


def _brief(error: Exception) -> str:
    return str(error).split("\n", 1)[0][:200]
