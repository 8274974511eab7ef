"""A platform's own service over HTTP: the client; and quotas from it, asked at intervals, the last good answer kept
(docs/http-source.md).

docs/openapi.yaml has the contract. Errors have stable codes, which are also metric labels; none carries a header, a
query or a credential.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import aiohttp

from extauthz.core.errors import BodyError
from extauthz.core.model import Tree
from extauthz.core.quota import selectors, spec
from extauthz.core.wire import gojson
from extauthz.core.wire.gojson import VALUE, Work
from extauthz.inputs.sources.gathering import Gathered, Quotas, read
from extauthz.inputs.sources.trusting import Trusting

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
    ``too-large`` (the service's fault), ``credentials`` (ours).
    """

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code


class Reply(NamedTuple):
    tree: Tree
    """The decoded body; ``None``: nothing has changed (304)."""
    etag: str


class Client:
    """Asks one endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._trusting = Trusting(endpoint.ca, endpoint.cert, endpoint.key)

    def session(self) -> aiohttp.ClientSession:
        """For ``get``; must be closed."""
        timeout = aiohttp.ClientTimeout(total=self.endpoint.timeout_s)
        return aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar())

    async def get(self, session: aiohttp.ClientSession, etag: str) -> Reply:
        """GET it once; no redirect is followed, as it would take the credentials elsewhere.

        Raises:
            SourceError: there is no good answer.
        """
        try:
            headers, tls = self._headers(etag), self._trusting.context()
        except (OSError, ValueError) as error:
            raise SourceError("credentials", f"cannot read its credentials: {error}") from None
        try:
            asked = session.get(self.endpoint.url, headers=headers, ssl=tls, allow_redirects=False)
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


async def _read(response: aiohttp.ClientResponse) -> bytes:
    body = b""
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise SourceError("too-large", f"its answer is longer than {MAX_BODY_BYTES} bytes")
    return body


def _brief(error: Exception) -> str:
    return str(error).split("\n", 1)[0][:200]


LIST_KIND = f"{spec.KIND}List"

_PLAIN_FIELDS = ("workspaces", "workspaceLabel")

MAX_BACKOFF: Final = 8
"""After failures it is asked less often, down to once in so many intervals."""


class HttpQuotas:
    """Follows the quotas of one service.

    An answer of neither form is refused as a whole, and the old quotas stay in force. Each quota of a good answer is
    taken by itself, as from the Kubernetes API (``Gathered``).

    Args:
        every_s: how often it is asked while all is well.
        accept: called with all quotas after every answer that brought some.
        tell: called after every request with its result (``ok``, ``not-modified``, a code of ``SourceError``) and why.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        every_s: float,
        accept: Callable[[Quotas], None],
        tell: Callable[[str, str], None],
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.client = Client(endpoint)
        self._every_s = every_s
        self._accept = accept
        self._tell = tell
        self._clock = clock
        self._jitter = jitter
        self._gathered = Gathered()
        self._etag = ""
        self._failures = 0
        self.good_s: float | None = None
        """When it last gave a good answer, on the clock; ``None``: never."""
        self.error = ""
        """The last error; empty once it has answered again."""

    async def run(self) -> None:
        async with self.client.session() as session:
            while True:
                await self.ask(session)
                await asyncio.sleep(self._pause_s())

    def _pause_s(self) -> float:
        """Several gates ask one service: not all at the same moment."""
        times = min(2**self._failures, MAX_BACKOFF) if self._failures else 1
        return self._every_s * times * (0.9 + 0.2 * self._jitter())

    async def ask(self, session: aiohttp.ClientSession) -> None:
        started_s = self._clock()
        try:
            reply = await self.client.get(session, self._etag)
            if reply.tree is not None:
                self._take(reply.tree)
                self._etag = reply.etag
            elif not self._etag:
                raise SourceError("malformed", "it answered 304 to a request without If-None-Match")
        except SourceError as error:
            self._failures += 1
            self.error = str(error)
            self._tell(error.code, str(error))
        else:
            self._failures = 0
            self.error = ""
            self.good_s = started_s
            self._tell("ok" if reply.tree is not None else "not-modified", "")

    def _take(self, tree: Tree) -> None:
        objects = [read(one) for one in listed(tree)]
        self._gathered.replace(objects)
        self._accept(self._gathered.quotas())


def listed(tree: Tree) -> list[Tree]:
    """The WorkspaceQuota objects of an answer, each with a name of its own.

    Raises:
        SourceError: the answer has neither of the two forms of docs/openapi.yaml.
    """
    if not isinstance(tree, Mapping):
        raise SourceError("malformed", "its answer is not a JSON object")
    items = _plain(tree) if "workspaces" in tree else _objects(tree)
    names: set[str] = set()
    for at, item in enumerate(items):
        name = _name(item)
        if name is None:
            raise SourceError("malformed", f"item {at} of its answer has no good metadata.name")
        if name in names:
            raise SourceError("malformed", f"its answer has {name!r} twice")
        names.add(name)
    return items


def _objects(tree: Mapping[str, Tree]) -> list[Tree]:
    if tree.get("kind") != LIST_KIND or tree.get("apiVersion") != spec.API_VERSION:
        raise SourceError("malformed", f"its answer is neither a {LIST_KIND} of {spec.API_VERSION} nor has workspaces")
    items = tree.get("items")
    if not isinstance(items, list):
        raise SourceError("malformed", "its answer has no list of items")
    # The items of an API server's list lack these fields. If an item has them, they are checked.
    return [
        {"apiVersion": spec.API_VERSION, "kind": spec.KIND, **one} if isinstance(one, Mapping) else one for one in items
    ]


def _plain(tree: Mapping[str, Tree]) -> list[Tree]:
    """Plain limits per workspace, as the quotas that they mean: each over the namespaces that bear its name."""
    unknown = [field for field in tree if field not in _PLAIN_FIELDS]
    label, workspaces = tree.get("workspaceLabel", spec.LABEL), tree["workspaces"]
    if unknown or not isinstance(label, str) or not isinstance(workspaces, Mapping):
        raise SourceError("malformed", "beside workspaces, an object, its answer has at most workspaceLabel, a string")
    return [
        {
            "apiVersion": spec.API_VERSION,
            "kind": spec.KIND,
            "metadata": {"name": name},
            "spec": {"namespaceSelector": {"matchLabels": {label: name}}, "hard": hard},
        }
        for name, hard in workspaces.items()
    ]


def _name(item: Tree) -> str | None:
    metadata = item.get("metadata") if isinstance(item, Mapping) else None
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return name if isinstance(name, str) and selectors.is_subdomain(name) else None
