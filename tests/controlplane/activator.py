"""A stand-in for Knative's activator: tells the autoscaler how many requests each revision has under way."""

from __future__ import annotations

import asyncio
import struct
import time

import aiohttp

from tests.controlplane.wire import bytes_field, number_field, varint
from tests.support.background import Background

AUTOSCALER = "ws://127.0.0.1:8080"
"""Where it takes statistics is not configurable (``serving/cmd/autoscaler/main.go``, ``statsServerAddr``)."""
RETRY_S = 0.5
POD = b"activator-0"


class Activator(Background):
    """Reports amid each second: the autoscaler adds up what it is told within one. A context manager."""

    def __init__(self) -> None:
        super().__init__("activator")
        self.concurrent: dict[tuple[str, str], float] = {}
        """(namespace, revision) → requests under way. What is not in here has never had traffic."""

    async def main(self) -> None:
        self.started()
        async with aiohttp.ClientSession() as session:
            while True:
                try:
                    async with session.ws_connect(AUTOSCALER) as socket:
                        while not socket.closed:
                            await socket.send_bytes(_message(self.concurrent))
                            await asyncio.sleep(1.5 - time.time() % 1)
                except (aiohttp.ClientError, ConnectionError):  # it is not up, or about to end
                    await asyncio.sleep(RETRY_S)


def _message(concurrent: dict[tuple[str, str], float]) -> bytes:
    """``WireStatMessages`` of ``serving/pkg/autoscaler/metrics/stat.proto``."""
    return b"".join(bytes_field(1, _stat(*key, requests)) for key, requests in tuple(concurrent.items()))


def _stat(namespace: str, revision: str, requests: float) -> bytes:
    stat = bytes_field(1, POD) + _double(2, requests) + _double(4, requests) + number_field(7, int(time.time()))
    return bytes_field(1, namespace.encode()) + bytes_field(2, revision.encode()) + bytes_field(3, stat)


def _double(tag: int, value: float) -> bytes:
    return varint(tag << 3 | 1) + struct.pack("<d", value)
