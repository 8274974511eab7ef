"""The webhook of several gates: one address, as a Service has, whose connections go to one gate after the other."""

from __future__ import annotations

import asyncio
from itertools import cycle

from extauthz.tools.render.webhook import WebhookOptions, configuration
from tests.contract.worlds import Relay
from tests.controlplane.plane import Plane
from tests.controlplane.sites import Sites
from tests.support.background import Background


class Balancer(Background):
    """Passes connections on in turn, whether or not a gate listens there, as a Service does for a moment. A context
    manager."""

    def __init__(self, ports: list[int]) -> None:
        super().__init__("balancer")
        self._relays = [Relay(port) for port in ports]
        self.port = 0

    async def main(self) -> None:
        turns = cycle(self._relays)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await next(turns).serve(reader, writer)

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self.started()
        try:
            await asyncio.Event().wait()
        finally:
            server.close()
            for relay in self._relays:
                await relay.end()

    @property
    def opened(self) -> int:
        """Connections taken so far."""
        return sum(relay.opened for relay in self._relays)


def install(plane: Plane, balancer: Balancer) -> None:
    """Let the API server ask there."""
    url = f"https://127.0.0.1:{balancer.port}"
    plane.api.create(configuration(WebhookOptions(ca=plane.ca.read_bytes(), url=url)))


def ports(sites: Sites) -> list[int]:
    """Where the gates listen for the API server."""
    return [site.webhook_port for site in sites]
