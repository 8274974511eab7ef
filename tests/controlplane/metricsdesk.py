"""A stand-in for all three metrics APIs. It says what it is told, answers nothing while it is held, and is found by an
Envoy that asks no gate (``bare_envoy``)."""

from __future__ import annotations

import asyncio
import ssl
from collections import defaultdict
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from extauthz.demo.envoy import Envoy
from extauthz.tools.render.options import Endpoint
from tests.controlplane.plane import Plane
from tests.support.background import Background

Tree = Any

GROUPS = {"custom.metrics.k8s.io": "v1beta2", "external.metrics.k8s.io": "v1beta1"}
PREFIXES = ("/apis/metrics.k8s.io/", "/apis/custom.metrics.k8s.io/", "/apis/external.metrics.k8s.io/")


class MetricsDesk(Background):
    """Serves http on a free port of 127.0.0.1. A context manager."""

    def __init__(self, server: str, tls: ssl.SSLContext) -> None:
        super().__init__("metrics desk")
        self.pods: dict[str, list[Tree]] = defaultdict(list)
        """PodMetrics by the selector that asks for them, such as ``app=web``."""
        self.values: dict[str, list[Tree]] = defaultdict(list)
        """Custom and external values by the name of their metric."""
        self.waiting: set[str] = set()
        """Who asked while it was held: selectors and names of metrics."""
        self.adapter: tuple[str, str] | None = None
        """URL and token of a real one that answers for external metrics in its place."""
        self.port = 0
        self._server, self._tls = server, tls
        self._held = False

    def hold(self) -> None:
        """From now on nobody gets an answer."""
        self.waiting.clear()
        self._held = True

    def release(self) -> None:
        self._held = False

    async def main(self) -> None:
        app = web.Application()
        app.router.add_get("/apis", self._groups)
        app.router.add_get("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods", self._pods)
        app.router.add_get(
            "/apis/custom.metrics.k8s.io/v1beta2/namespaces/{namespace}/{kind}/{one}/{metric}", self._custom
        )
        app.router.add_get("/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/{metric}", self._external)
        runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        async with aiohttp.ClientSession(self._server, connector=aiohttp.TCPConnector(ssl=self._tls)) as self._session:
            await runner.setup()
            try:
                await web.TCPSite(runner, "127.0.0.1", 0).start()
                self.port = runner.addresses[0][1]
                self.started()
                await asyncio.Event().wait()
            finally:
                self._held = False
                await runner.cleanup()

    async def _groups(self, request: web.Request) -> web.Response:
        """The API server's own, and the two of which a client looks up the version."""
        async with self._session.get("/apis", headers={"accept": "application/json"}) as answer:
            tree = await answer.json()
        for name, version in GROUPS.items():
            both = {"groupVersion": f"{name}/{version}", "version": version}
            tree["groups"].append({"name": name, "versions": [both], "preferredVersion": both})
        return web.json_response(tree)

    async def _pods(self, request: web.Request) -> web.Response:
        selector = request.query["labelSelector"]
        await self._open(selector)
        return _listed("metrics.k8s.io/v1beta1", "PodMetricsList", self.pods[selector])

    async def _custom(self, request: web.Request) -> web.Response:
        name = request.match_info["metric"]
        await self._open(name)
        return _listed("custom.metrics.k8s.io/v1beta2", "MetricValueList", self.values[name])

    async def _external(self, request: web.Request) -> web.Response:
        name = request.match_info["metric"]
        await self._open(name)
        if self.adapter is not None:
            url, token = self.adapter
            headers = {"authorization": f"Bearer {token}", "accept": "application/json"}
            async with self._session.get(f"{url}{request.path_qs}", headers=headers) as answer:
                return web.json_response(await answer.json(), status=answer.status)
        return _listed("external.metrics.k8s.io/v1beta1", "ExternalMetricValueList", self.values[name])

    async def _open(self, who: str) -> None:
        while self._held:
            self.waiting.add(who)
            await asyncio.sleep(0.05)


def _listed(version: str, kind: str, items: list[Tree]) -> web.Response:
    return web.json_response({"apiVersion": version, "kind": kind, "metadata": {}, "items": items})


def bare_envoy(plane: Plane, desk: MetricsDesk, folder: Path) -> Envoy:
    """To the API server, but for metrics. It has no filters."""

    def alter(tree: Tree) -> None:
        _to_the_desk(tree, desk.port)
        only_route(tree)

    options = plane.sidecar(Endpoint("127.0.0.1", 1))
    return Envoy(options, folder, alter)


def _to_the_desk(tree: Tree, port: int) -> None:
    endpoint = {"endpoint": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": port}}}}
    assignment = {"cluster_name": "desk", "endpoints": [{"lb_endpoints": [endpoint]}]}
    tree["static_resources"]["clusters"].append(
        {"name": "desk", "type": "STATIC", "connect_timeout": "5s", "load_assignment": assignment}
    )
    (chain,) = tree["static_resources"]["listeners"][0]["filter_chains"]
    routes = chain["filters"][0]["typed_config"]["route_config"]["virtual_hosts"][0]["routes"]
    matches = [{"path": "/apis"}, *({"prefix": prefix} for prefix in PREFIXES)]
    routes[:0] = [{"match": match, "route": {"cluster": "desk", "timeout": "60s"}} for match in matches]


def only_route(tree: Any) -> int:
    """Takes out all filters but the router. Returns how many."""
    if isinstance(tree, list):
        return sum(map(only_route, tree))
    if not isinstance(tree, dict):
        return 0
    tree.pop("typed_per_filter_config", None)
    filters = tree.get("http_filters", [])
    out = [one for one in filters if one["name"] != "envoy.filters.http.router"]
    for one in out:
        filters.remove(one)
    return len(out) + sum(map(only_route, tree.values()))
