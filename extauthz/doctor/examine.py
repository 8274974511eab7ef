"""Looks at everything that it was told of, in an order in which the later rows see what the earlier ones did."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import aiohttp

from extauthz.kube.connection import ApiError, Connection, Unreachable, connect
from extauthz.kube.credentials import NoClusterError
from extauthz.render.options import Outage, Profile
from extauthz.service.addresses import Address

from . import apiserver, around, canary, chain, cluster, dial, paths, reach, topology, trust
from .admin import Admin, AdminError, Proxy, from_file
from .dump import Chain, NoDumpError, Tree
from .rows import Row, all_skipped, fail
from .way import Way

T = TypeVar("T")

NO_PROXY = "--admin, or --config-dump"
NO_CLUSTER = "not told which cluster"
MADE_UP = ("default", "extauthz-canary")
"""Asked about where no Deployment is known: the gate refuses to grow what it does not know, the API server too."""

EXEMPT = ("extauthz-system", "kube-system")
"""No Deployment of these is taken for the canary: the gate's own is not asked about."""

Unanswered = (ApiError, Unreachable)


@dataclass(frozen=True, slots=True)
class Options:
    """What to look at; ``None``: leave it out."""

    admin: str | None = None
    config_dump: Path | None = None
    kubeconfig: Path | None = None
    url: str | None = None
    ca: Path | None = None
    token_file: Path | None = None
    deployment: tuple[str, str] | None = None
    listener: str | None = None
    profile: Profile | None = None
    outage: Outage = Outage.DENY
    service: tuple[str, str] | None = None
    """Of the gate."""
    zone: str | None = None
    account: str = "extauthz-system/extauthz"
    """The gate's service account."""


async def examine(options: Options) -> list[Row]:
    """All rows.

    Raises:
        NoDumpError: ``config_dump`` is no config dump.
        OSError: a file cannot be read.
        NoClusterError: ``kubeconfig`` is of no use.
    """
    token = _token(options.token_file) if options.token_file else None
    async with AsyncExitStack() as stack:
        admin = await _admin(stack, options)
        api = await stack.enter_async_context(connect(options.kubeconfig)) if options.kubeconfig else None
        way = Way(options.url, options.ca, token) if options.url else None
        return await Examination(options, admin, api, way, token).rows()


def _token(file: Path) -> str:
    """Checked here, as others would say it whole in their complaint."""
    token = file.read_bytes().strip()
    if not token or not token.isascii() or any(byte <= ord(" ") for byte in token):
        raise OSError(f"--token-file {file}: it holds no token, which is one line of ASCII")
    return token.decode()


async def _admin(stack: AsyncExitStack, options: Options) -> Admin | None:
    if options.admin is None:
        return None
    return Admin(await stack.enter_async_context(aiohttp.ClientSession(trust_env=False)), options.admin)


class Examination:
    """One, with what it has found so far."""

    def __init__(
        self, options: Options, admin: Admin | None, api: Connection | None, way: Way | None, token: str | None
    ) -> None:
        self._options, self._admin, self._api, self._way, self._token = options, admin, api, way, token
        self._proxy: Proxy | None = None
        self._chain: Chain | None = None
        self._kubernetes: tuple[Tree | None, list[Tree]] | None = None
        """The Service ``default/kubernetes`` and its slices."""
        self._decided: canary.Canary | None = None
        """What came to the gate on the way that the autoscaler takes."""

    async def rows(self) -> list[Row]:
        """The proxy's configuration, the way through it, the gate, the cluster."""
        if self._api is not None:
            self._kubernetes = await _or(None, apiserver.service(self._api, "default", "kubernetes"))
        configured = await self._configured()
        before = await self._clusters()
        shake = await self._way.handshake() if self._way else None
        way = [*await self._trust(shake), await self._canary(shake)]
        return [
            *configured,
            *way,
            *await self._gate(before),
            *await self._cluster(),
            *await self._topology(),
            *await self._around(),
        ]

    async def _configured(self) -> list[Row]:
        every = (*chain.NAMES, *paths.NAMES)
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
            return rows + paths.rows(self._chain, self._options.profile)
        return rows + all_skipped(paths.NAMES, "there is no chain to look at", chain.ON_LISTENER)

    async def _carriers(self) -> tuple[str, ...]:
        """How the listener is called or where it listens, by what is known of the client's way."""
        if self._options.listener is not None:
            return (self._options.listener,)
        if self._way is not None and self._options.url is not None:
            port = urlsplit(self._options.url).port or 443
            addresses = await self._way.addresses()
            return tuple(f"{each}{mark}{port}" for each in addresses for mark in ("_", ":"))
        if self._kubernetes is not None and self._kubernetes[0] is not None and self._is_mesh():
            spec = self._kubernetes[0]["spec"]
            return (f"{spec['clusterIP']}_{spec['ports'][0]['port']}",)
        return ()

    def _is_mesh(self) -> bool:
        """Its listeners are those of an Istio sidecar, so that one of them is the Service's."""
        names = [each.name for each in self._proxy.dump.listeners] if self._proxy else []
        return "virtualOutbound" in names

    async def _trust(self, shake: trust.Handshake | None) -> list[Row]:
        certs = self._proxy.certs if self._proxy else None
        through = straight = None
        if self._way is not None and self._token and shake is not None and not shake.error:
            through = await self._way.identity()
            if self._api is not None:
                straight = await _or(None, apiserver.identity(self._api, self._token))
        return [trust.trusted(shake), trust.validity(shake, certs, datetime.now(UTC)), trust.token(through, straight)]

    async def _canary(self, shake: trust.Handshake | None) -> Row:
        if self._way is None or shake is None:
            return canary.row([], [], None)
        if shake.error:
            return canary.row([shake.host], [canary.Answer(0, message=shake.error)], None)
        before = await self._decisions()
        asked: list[str] = []
        answers: list[canary.Answer] = []
        for namespace, name in await self._deployments():
            asked.append(f"{namespace}/{name}")
            for body in canary.BODIES:
                sent = canary.Canary(namespace, name, body)
                answers.append(await self._way.canary(sent))
                if answers[-1].decision_id:
                    self._decided = sent
                if answers[-1].decision_id or not answers[-1].status:
                    return canary.row(asked, answers, None)
        after = await self._decisions()
        return canary.row(asked, answers, after - before if before is not None and after is not None else None)

    async def _deployments(self) -> list[tuple[str, str]]:
        if self._options.deployment is not None:
            return [self._options.deployment]
        exempt = [*EXEMPT, *(paths.exempted(self._chain) if self._chain else ())]
        found = await _or([], apiserver.some_deployments(self._api, exempt)) if self._api else []
        return found or [MADE_UP]

    async def _decisions(self) -> int | None:
        try:
            return await self._admin.decisions() if self._admin else None
        except AdminError:
            return None

    async def _gate(self, before: Tree | None) -> list[Row]:
        if self._proxy is None:
            return all_skipped(reach.NAMES, "not told which proxy", NO_PROXY)
        seen = reach.Seen(before, await self._clusters())
        return reach.rows(self._proxy.dump, self._chain, seen, await self._ports())

    async def _clusters(self) -> Tree | None:
        try:
            return await self._admin.clusters() if self._admin else None
        except AdminError:
            return None

    async def _ports(self) -> tuple[int, ...]:
        if self._api is None or self._options.service is None:
            return ()
        found, _ = await _or((None, []), apiserver.service(self._api, *self._options.service))
        return tuple(int(each["port"]) for each in (found or {}).get("spec", {}).get("ports", []))

    async def _cluster(self) -> list[Row]:
        api = self._api
        if api is None:
            return cluster.not_given()

        async def version() -> Row:
            return cluster.version(await api.call("GET", "/version"))

        async def definitions() -> Row:
            return cluster.definitions(await apiserver.definitions(api))

        async def rights() -> Row:
            told = await apiserver.rights(api, self._options.account)
            return cluster.rights(told.whose, told.allowed, whole=told.whole)

        looks = dict(zip(cluster.NAMES, (version, definitions, rights), strict=True))
        return [row for name, look in looks.items() for row in await _told([name], look)]

    async def _topology(self) -> list[Row]:
        api, named = self._api, self._options.service
        if named is None or api is None:
            missing = [option for option, value in (("--service", named), ("--kubeconfig", api)) if value is None]
            return all_skipped(("topology",), "not told which Service is the gate's", " and ".join(missing))

        async def look() -> list[Row]:
            service, slices = await apiserver.service(api, *named)
            if service is None:
                return [fail("topology", f"there is no Service {'/'.join(named)}", "name the gate's with --service")]
            return topology.rows(service, slices, await apiserver.nodes(api), self._options.zone)

        return await _told(["topology"], look)

    async def _around(self) -> list[Row]:
        api = self._api
        if api is None:
            return [around.way(None, None), around.backstop(None, [])]

        async def backstop() -> Row:
            return around.backstop(*await apiserver.backstops(api))

        found = [*await _told([around.NAMES[1]], backstop)]
        if self._kubernetes is None or self._kubernetes[0] is None:
            return [*cluster.unknown(around.NAMES[:1], "the Service default/kubernetes cannot be read"), *found]
        dump = self._proxy.dump if self._proxy else None
        free = around.free(around.published(*self._kubernetes), dump)
        return [around.way(await self._tried(api, free), dump), *found]

    async def _tried(self, api: Connection, free: Sequence[Address]) -> around.Tried:
        """The write that was decided is sent to each; without one they are only dialled."""
        sent, some = self._decided, free[: around.AT_MOST]
        probe = dial.probe(sent, self._token, self._options.ca, await api.trust()) if sent else None
        about = f"{sent.namespace}/{sent.name}" if sent else ""
        return around.Tried(socket.gethostname(), about, await dial.dial(some, probe), len(free) - len(some))


async def _or(otherwise: T, asked: Awaitable[T]) -> T:
    """What was asked for; ``otherwise`` if the API server does not tell."""
    try:
        return await asked
    except Unanswered:
        return otherwise


async def _told(names: Sequence[str], look: Callable[[], Awaitable[Row | list[Row]]]) -> list[Row]:
    """Its rows; failing ones under ``names`` if the API server does not tell."""
    try:
        rows = await look()
    except Unanswered as error:
        return cluster.unknown(names, str(error))
    return [rows] if isinstance(rows, Row) else rows


__all__ = ["NoClusterError", "NoDumpError", "Options", "examine"]
