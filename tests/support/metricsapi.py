"""A stand-in for metrics-server: says of pods and nodes that they use what a test wants (``metrics.k8s.io/v1beta1``).

The HPA finds it behind a route of the Envoy that kube-controller-manager goes through (``route``), so that no
aggregation layer is needed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import aiohttp
from aiohttp import web

from tests.support.background import Background

Tree = Any

PREFIX = "/apis/metrics.k8s.io/"
IDLE = {"cpu": "1m", "memory": "1Mi"}


class MetricsApi(Background):
    """Serves http, on a free port of 127.0.0.1 if nothing else is said. A context manager.

    Args:
        server: URL of the API server that knows the pods.
        tls: trusts it, and holds the client certificate of one who may list pods.
        listen: host and port.
    """

    def __init__(self, server: str, tls: ssl.SSLContext, listen: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        super().__init__("metrics")
        self._listen = listen
        self.usage: dict[str, Mapping[str, str]] = {}
        """Namespace → what each container in it uses; ``IDLE`` where nothing is said."""
        self.memory: dict[str, str] = {}
        """NAMESPACE/POD → what its containers use together, in place of ``usage``."""
        self.nodes: dict[str, tuple[str, datetime | None]] = {}
        """Node → the memory that it uses, and when that was; ``None``: now."""
        self.port = 0
        self._server, self._tls = server, tls
        self._session: aiohttp.ClientSession | None = None

    async def main(self) -> None:
        app = web.Application()
        app.router.add_get(PREFIX + "v1beta1/namespaces/{namespace}/pods", self._pods)
        app.router.add_get(PREFIX + "v1beta1/nodes", self._nodes)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        async with aiohttp.ClientSession(self._server, connector=aiohttp.TCPConnector(ssl=self._tls)) as self._session:
            await runner.setup()
            try:
                await web.TCPSite(runner, *self._listen).start()
                self.port = runner.addresses[0][1]
                self.started()
                await asyncio.Event().wait()
            finally:
                await runner.cleanup()

    async def _pods(self, request: web.Request) -> web.Response:
        namespace = request.match_info["namespace"]
        assert self._session is not None
        async with self._session.get(f"/api/v1/namespaces/{namespace}/pods", params=request.query) as answer:
            pods = (await answer.json()).get("items", [])
        usage = dict(self.usage.get(namespace, IDLE))
        items = [_metrics(pod, usage | self._told(namespace, pod)) for pod in pods]
        return web.json_response({"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "items": items})

    def _told(self, namespace: str, pod: Tree) -> Tree:
        memory = self.memory.get(f"{namespace}/{pod['metadata']['name']}")
        return {"memory": memory} if memory else {}

    async def _nodes(self, request: web.Request) -> web.Response:
        items = [
            {
                "metadata": {"name": name},
                "timestamp": _text(at or datetime.now(UTC)),
                "window": "20s",
                "usage": {"cpu": "1", "memory": memory},
            }
            for name, (memory, at) in self.nodes.items()
        ]
        return web.json_response({"kind": "NodeMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "items": items})


def route(port: int, tree: dict[str, Any], host: str = "127.0.0.1") -> None:
    """Changes an Envoy's configuration so that requests for metrics go there, and not to the API server."""
    resources = tree["static_resources"]
    endpoint = {"endpoint": {"address": {"socket_address": {"address": host, "port_value": port}}}}
    assignment = {"cluster_name": "metrics", "endpoints": [{"lb_endpoints": [endpoint]}]}
    resources["clusters"].append(
        {"name": "metrics", "type": "STRICT_DNS", "connect_timeout": "5s", "load_assignment": assignment}
    )
    (chain,) = resources["listeners"][0]["filter_chains"]
    routes = chain["filters"][0]["typed_config"]["route_config"]["virtual_hosts"][0]["routes"]
    off = next(entry for entry in routes if "typed_per_filter_config" in entry)["typed_per_filter_config"]
    routes.insert(
        0,
        {
            "name": "metrics",
            "match": {"prefix": PREFIX},
            "route": {"cluster": "metrics"},
            "typed_per_filter_config": off,
        },
    )


def _metrics(pod: Tree, usage: Tree) -> Tree:
    return {
        "metadata": {key: pod["metadata"].get(key) for key in ("name", "namespace", "labels")},
        "timestamp": _text(datetime.now(UTC)),
        "window": "30s",
        "containers": [{"name": container["name"], "usage": usage} for container in pod["spec"]["containers"]],
    }


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
