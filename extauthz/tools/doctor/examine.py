"""Runs all checks. The order matters: a later check uses what an earlier one found."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

import aiohttp

from extauthz.inputs.kube.connection import ApiError, Connection, Unreachable, connect
from extauthz.inputs.kube.session import NoClusterError
from extauthz.tools.render.options import Outage, Profile

from . import (
    admission,
    appliers,
    canary,
    chain,
    chart,
    cluster,
    serving,
    trust,
    upstream_health,
    webhook,
)
from .client_path import ClientPath
from .dump import Chain, Dump, NoDumpError, Tree, parse
from .table import Row, all_skipped, fail, skipped

# Reads the proxy: the pages of Envoy's admin interface, or a config dump in a file.

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


# What the doctor is told to look at.


@dataclass(frozen=True, slots=True)
class Options:
    """What to look at. ``None``: do not look at it."""

    admin: str | None = None
    config_dump: Path | None = None
    kubeconfig: Path | None = None
    in_pod: bool = False
    """Look at the cluster with the account of the pod that this runs in."""
    url: str | None = None
    ca: Path | None = None
    token_file: Path | None = None
    deployment: tuple[str, str] | None = None
    listener: str | None = None
    profile: Profile | None = None
    outage: Outage = Outage.DENY
    service: tuple[str, str] | None = None
    """Of the gate."""
    account: str = "extauthz-system/extauthz"
    """The gate's service account."""


T = TypeVar("T")

NO_PROXY = "--admin, or --config-dump"
MADE_UP = ("default", "extauthz-canary")
"""The Deployment of the canary where the cluster has none. The gate refuses to grow it, and so does the API server."""

EXEMPT = ("extauthz-system", "kube-system")
"""Namespaces whose Deployments are no canary: Envoy does not ask the gate about its own namespace."""

Unanswered = (ApiError, Unreachable)
FORBIDDEN = 403
MAY_READ = "--kubeconfig, of who may read what the row is about"


async def examine(options: Options) -> list[Row]:
    """All rows.

    Raises:
        NoDumpError: ``config_dump`` is no config dump.
        OSError: a file cannot be read.
        NoClusterError: ``kubeconfig``, or the pod's account, is of no use.
    """
    token = _token(options.token_file) if options.token_file else None
    async with AsyncExitStack() as stack:
        admin = None
        if options.admin is not None:
            session = await stack.enter_async_context(aiohttp.ClientSession(trust_env=False))
            admin = Admin(session, options.admin)
        looks = options.kubeconfig or options.in_pod
        api = await stack.enter_async_context(connect(options.kubeconfig)) if looks else None
        client_path = ClientPath(options.url, options.ca, token) if options.url else None
        return await Examination(options, admin, api, client_path, token).rows()


def _token(file: Path) -> str:
    """The token of a file. It is checked here, because the error messages of libraries would show it."""
    token = file.read_bytes().strip()
    if not token or not token.isascii() or any(byte <= ord(" ") for byte in token):
        raise OSError(f"--token-file {file}: it holds no token, which is one line of ASCII")
    return token.decode()


class Examination:
    """One run of the checks, with what it has found so far."""

    def __init__(
        self,
        options: Options,
        admin: Admin | None,
        api: Connection | None,
        client_path: ClientPath | None,
        token: str | None,
    ) -> None:
        self._options, self._admin, self._api, self._client_path, self._token = options, admin, api, client_path, token
        self._proxy: Proxy | None = None
        self._chain: Chain | None = None
        self._kubernetes: Tree | None = None
        """The Service ``default/kubernetes``."""

    async def rows(self) -> list[Row]:
        """The proxy's configuration, the path through it, the gate, the cluster."""
        if self._api is not None:
            self._kubernetes = await _or(None, cluster.service(self._api, "default", "kubernetes"))
        configured = await self._configured()
        before = await self._clusters()
        shake = await self._client_path.handshake() if self._client_path else None
        on_the_path = [*await self._trust(shake), await self._canary(shake)]
        rows = [
            *configured,
            *on_the_path,
            *await self._gate(before),
            *await self._cluster(),
            *await self._webhook(),
            *await self._scaled(),
        ]
        namespace = self._options.account.partition("/")[0]
        release = await _or(None, cluster.release(self._api, namespace)) if self._api is not None else None
        return chart.cured(rows, release, namespace) if release is not None else rows

    async def _configured(self) -> list[Row]:
        every = (*chain.NAMES, *chain.PATH_NAMES)
        try:
            if self._admin is not None:
                self._proxy = await self._admin.proxy()
            elif self._options.config_dump is not None:
                self._proxy = from_file(self._options.config_dump)
        except AdminError as error:
            told = fail("proxy", str(error), "see that --admin is the address of Envoy's admin page, as seen from here")
            return [told, *all_skipped(every, "the proxy does not tell", NO_PROXY)]
        if self._proxy is None:
            return all_skipped(every, "not told which proxy", NO_PROXY)
        dump = self._proxy.dump
        wanted = chain.Wanted(self._options.outage, self._options.profile, await self._carriers())
        rows = chain.rows(dump, wanted)
        if chains := dump.chains():
            self._chain = chain.chosen(dump, chains, wanted.carriers)
            return rows + chain.path_rows(self._chain, self._options.profile)
        return rows + all_skipped(chain.PATH_NAMES, "there is no chain to look at", chain.ON_LISTENER)

    async def _carriers(self) -> tuple[str, ...]:
        """Name or address of the listener that the client's path leads to."""
        if self._options.listener is not None:
            return (self._options.listener,)
        if self._client_path is not None and self._options.url is not None:
            port = urlsplit(self._options.url).port or 443
            addresses = await self._client_path.addresses()
            return tuple(f"{each}{mark}{port}" for each in addresses for mark in ("_", ":"))
        if self._kubernetes is not None and self._is_mesh():
            spec = self._kubernetes["spec"]
            return (f"{spec['clusterIP']}_{spec['ports'][0]['port']}",)
        return ()

    def _is_mesh(self) -> bool:
        """Whether the listeners are those of an Istio sidecar. Then one of them is for the Service."""
        names = [each.name for each in self._proxy.dump.listeners] if self._proxy else []
        return "virtualOutbound" in names

    async def _trust(self, shake: trust.Handshake | None) -> list[Row]:
        certs = self._proxy.certs if self._proxy else None
        through = straight = None
        if self._client_path is not None and self._token and shake is not None and not shake.error:
            through = await self._client_path.identity()
            if self._api is not None:
                straight = await _or(None, cluster.identity(self._api, self._token))
        return [trust.trusted(shake), trust.validity(shake, certs, datetime.now(UTC)), trust.token(through, straight)]

    async def _canary(self, shake: trust.Handshake | None) -> Row:
        if self._client_path is None or shake is None:
            return canary.row([], [], None)
        if shake.error:
            return canary.row([shake.host], [canary.CanaryReply(0, message=shake.error)], None)
        before = await self._decisions()
        asked: list[str] = []
        answers: list[canary.CanaryReply] = []
        for namespace, name in await self._deployments():
            asked.append(f"{namespace}/{name}")
            for body in canary.BODIES:
                answers.append(await self._client_path.canary(canary.Canary(namespace, name, body)))
                if answers[-1].decision_id or not answers[-1].status:
                    return canary.row(asked, answers, None)
        after = await self._decisions()
        return canary.row(asked, answers, after - before if before is not None and after is not None else None)

    async def _deployments(self) -> list[tuple[str, str]]:
        if self._options.deployment is not None:
            return [self._options.deployment]
        exempt = [*EXEMPT, *(chain.exempted(self._chain) if self._chain else ())]
        if self._api is None:
            return [MADE_UP]
        first: set[str] = await _or(set(), cluster.covered(self._api))
        return await _or([], cluster.some_deployments(self._api, exempt, first)) or [MADE_UP]

    async def _decisions(self) -> int | None:
        return await _or(None, self._admin.decisions()) if self._admin else None

    async def _gate(self, before: Tree | None) -> list[Row]:
        if self._proxy is None:
            return all_skipped(upstream_health.UPSTREAM_NAMES, "not told which proxy", NO_PROXY)
        seen = upstream_health.Seen(before, await self._clusters())
        return upstream_health.upstream_rows(self._proxy.dump, self._chain, seen, await self._ports())

    async def _clusters(self) -> Tree | None:
        return await _or(None, self._admin.clusters()) if self._admin else None

    async def _ports(self) -> tuple[int, ...]:
        if self._api is None or self._options.service is None:
            return ()
        found = await _or(None, cluster.service(self._api, *self._options.service))
        return tuple(int(each["port"]) for each in (found or {}).get("spec", {}).get("ports", []))

    async def _cluster(self) -> list[Row]:
        async def version(api: Connection) -> Row:
            return cluster.version(await api.call("GET", "/version"))

        async def definitions(api: Connection) -> Row:
            return cluster.definitions_row(await cluster.definitions(api))

        async def rights(api: Connection) -> Row:
            told = await cluster.rights(api, self._options.account)
            return cluster.rights_row(told.whose, told.allowed, whole=told.whole)

        async def labels(api: Connection) -> Row:
            try:
                return cluster.labels_row(await cluster.quotas(api), await cluster.namespaces(api))
            except ApiError as error:
                if error.status != 404:
                    raise
                return skipped(cluster.NAMES[3], "there is no definition of WorkspaceQuota", "see the row definitions")

        looks = dict(zip(cluster.NAMES, (version, definitions, rights, labels), strict=True))
        return [row for name, look in looks.items() for row in await self._asked([name], look)]

    async def _webhook(self) -> list[Row]:
        async def look(api: Connection) -> list[Row]:
            found = [each for each in await self._deployments() if each != MADE_UP]
            return await admission.rows(api, found, self._options.account)

        return await self._asked(webhook.NAMES, look)

    async def _scaled(self) -> list[Row]:
        """About workloads that an HPA scales."""

        async def look(api: Connection) -> list[Row]:
            scaled = await cluster.scaled(api)
            return [appliers.row(scaled), serving.row(scaled, await cluster.services(api))]

        return await self._asked((appliers.NAME, serving.NAME), look)

    async def _asked(self, names: Sequence[str], look: Callable[[Connection], Awaitable[Row | list[Row]]]) -> list[Row]:
        """The rows of ``look`` at the cluster. Where the asker may not look: rows that are skipped. If the API server
        gives no answer: failing rows under ``names``."""
        if self._api is None:
            return all_skipped(names, "not told which cluster", "--kubeconfig")
        try:
            rows = await look(self._api)
        except Unanswered as error:
            if isinstance(error, ApiError) and error.status == FORBIDDEN:
                return all_skipped(names, f"you may not see it: {error}", MAY_READ)
            return cluster.unknown(names, str(error))
        return [rows] if isinstance(rows, Row) else rows


async def _or(otherwise: T, asked: Awaitable[T]) -> T:
    """The answer of the API server or of Envoy's admin page, or ``otherwise`` if it gives none."""
    try:
        return await asked
    except (*Unanswered, AdminError):
        return otherwise


__all__ = ["NoClusterError", "NoDumpError", "Options", "examine"]
